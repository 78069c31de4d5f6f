"""The feedback on a reply: the camera's next pose, and the words that tell the model what was done."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.moves import StepResult, carry_out
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.dialogue.wording import Wording
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace


def feedback_on(
    action: Action | Malformed,
    state: QuestionState,
    camera: Camera,
    space: FreeSpace | None,
    views: Sequence[View],
    kinds: Sequence[str],
    wording: Wording,
    *,
    cut_off: bool = False,
) -> StepResult:
    """Return the next pose and the feedback of `action` from `camera`; `state` has not taken the turn yet.

    space: where the camera may go, None where it stays. views: all that were shown, those of this turn too.
    kinds: the kinds of view that may be asked for. cut_off: whether the token limit ended the reply.
    """
    sentences = [wording("feedback.cut_off")] if cut_off else []
    if isinstance(action, Malformed):
        sentences.append(wording("feedback.unreadable", reason=action.reason))
        return StepResult(camera, " ".join(sentences))
    sentences += [f"{_sentence(note)}" for note in action.notes]
    if action.done and (action.answer is not None or state.answer is not None):
        key = "feedback.done_without_moves" if action.moves else "feedback.done"
        sentences.append(wording(key))
        return StepResult(camera, " ".join(sentences))
    if action.done:
        form = answer_form(state.question.wanted, state.question.options, wording)
        sentences.append(wording("feedback.done_without_answer", form=form))
    if space is None:
        sentences.append(wording("feedback.all_shown" if views else "feedback.nothing_shown"))
        return StepResult(camera, " ".join(sentences))
    moved = carry_out(action, camera, space, wording)
    sentences.append(_sentence(moved.feedback))
    shown = len({view.number for view in views})
    if isinstance(action.view, int) and action.view >= shown:
        sentences.append(wording("feedback.no_such_view", view=action.view, last=shown - 1))
    if isinstance(action.view, str) and action.view not in kinds:
        sentences.append(wording("feedback.no_such_kind", view=action.view, kinds=", ".join(kinds)))
    return StepResult(moved.camera, " ".join(sentences))


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begun = words if "_" in first else words[:1].upper() + words[1:]  # a field keeps its spelling
    return begun if words.endswith((".", "!")) else begun + "."
