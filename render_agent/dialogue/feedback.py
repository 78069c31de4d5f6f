"""The feedback on a reply: the camera's next pose, and the words that tell the model what was done."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.moves import StepResult, carry_out
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState, View
from render_agent.geometry.camera import Camera
from render_agent.scene.free_space.free_space import FreeSpace

UNREADABLE = "Your reply could not be read"
"""Begins the sentence about a reply that could not be read."""


def feedback_on(
    action: Action | Malformed,
    state: QuestionState,
    camera: Camera,
    space: FreeSpace | None,
    views: Sequence[View],
    kinds: Sequence[str],
    *,
    cut_off: bool = False,
) -> StepResult:
    """Return the next pose and the feedback of `action` from `camera`; `state` has not taken the turn yet.

    space: where the camera may go, None where it stays. views: all that were shown, those of this turn too.
    kinds: the kinds of view that may be asked for. cut_off: whether the token limit ended the reply.
    """
    sentences = ["Your reply was cut off at the token limit: write less."] if cut_off else []
    if isinstance(action, Malformed):
        sentences.append(unreadable_feedback(action))
        return StepResult(camera, " ".join(sentences))
    sentences += [f"{_sentence(note)}" for note in action.notes]
    if action.done and (action.answer is not None or state.answer is not None):
        sentences.append("Done; the moves beside it were not made." if action.moves else "Done.")
        return StepResult(camera, " ".join(sentences))
    if action.done:
        wanted = answer_form(state.question.wanted, state.question.options)
        sentences.append(f"You said done without an answer: give {wanted} as your answer.")
    if space is None:
        sentences.append(_standing_still(shown=bool(views)))
        return StepResult(camera, " ".join(sentences))
    moved = carry_out(action, camera, space)
    sentences.append(_sentence(moved.feedback))
    sentences += _about_view(action.view, len({view.number for view in views}), kinds)
    return StepResult(moved.camera, " ".join(sentences))


def unreadable_feedback(reply: Malformed) -> str:
    """Return the feedback on a reply that could not be read."""
    return f"{UNREADABLE}: {reply.reason}. The camera did not move."


def _standing_still(*, shown: bool) -> str:
    if shown:
        return (
            "All views were shown, and the camera does not move: answer from them, with done true."
        )
    return "Nothing is shown and nothing moves here: answer from the question alone."


def _about_view(view: str | int | None, shown: int, kinds: Sequence[str]) -> list[str]:
    if isinstance(view, int) and view >= shown:
        return [f"There is no view {view} yet: views 0 to {shown - 1} were shown."]
    if isinstance(view, str) and view not in kinds:
        return [f'The view "{view}" is not to be had: ask for {", ".join(kinds)}.']
    return []


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begun = words if "_" in first else words[:1].upper() + words[1:]  # a field keeps its spelling
    return begun if words.endswith((".", "!")) else begun + "."
