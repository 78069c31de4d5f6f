"""The feedback on a reply: the camera's next pose, and the words that tell the model what was done."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.answer import asked_for
from render_agent.dialogue.moves import StepResult, carry_out
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState, View
from render_agent.geometry.camera import Camera
from render_agent.scene.free_space.free_space import FreeSpace

NOT_READ = "Your reply could not be read"
"""Begins the sentence about a reply that could not be read."""


def respond(
    action: Action | Malformed,
    state: QuestionState,
    camera: Camera,
    space: FreeSpace | None,
    views: Sequence[View],
    kinds: Sequence[str],
    *,
    cut_off: bool = False,
) -> StepResult:
    """Return what `action` leads to from `camera`; `state` has not taken the turn yet.

    space: where the camera may go, None where it stays. views: all that were shown, those of this turn too.
    kinds: the kinds of view that may be asked for. cut_off: whether the token limit ended the reply.
    """
    told = ["Your reply was cut off at the token limit: write less."] if cut_off else []
    if isinstance(action, Malformed):
        told.append(unread(action))
        return StepResult(camera, " ".join(told))
    told += [f"{_sentence(note)}" for note in action.notes]
    if action.done and (action.answer is not None or state.answer is not None):
        told.append("Done; the moves beside it were not made." if action.moves else "Done.")
        return StepResult(camera, " ".join(told))
    if action.done:
        wanted = asked_for(state.question.wanted, state.question.options)
        told.append(f"You said done without an answer: give {wanted} as your answer.")
    if space is None:
        told.append(_standing_still(shown=bool(views)))
        return StepResult(camera, " ".join(told))
    moved = carry_out(action, camera, space)
    told.append(_sentence(moved.feedback))
    told += _about_view(action.view, len({view.number for view in views}), kinds)
    return StepResult(moved.camera, " ".join(told))


def unread(reply: Malformed) -> str:
    """Return what the model is told about a reply that could not be read."""
    return f"{NOT_READ}: {reply.reason}. The camera did not move."


def _standing_still(*, shown: bool) -> str:
    if shown:
        return (
            "All views were shown, and the camera does not move: answer from them, with done true."
        )
    return "Nothing is shown and nothing moves here: answer from the question alone."


def _about_view(asked: str | int | None, shown: int, kinds: Sequence[str]) -> list[str]:
    if isinstance(asked, int) and asked >= shown:
        return [f"There is no view {asked} yet: views 0 to {shown - 1} were shown."]
    if isinstance(asked, str) and asked not in kinds:
        return [f'The view "{asked}" is not to be had: ask for {", ".join(kinds)}.']
    return []


def _sentence(words: str) -> str:
    first = words.split(" ", 1)[0]
    begun = words if "_" in first else words[:1].upper() + words[1:]  # a field keeps its spelling
    return begun if words.endswith((".", "!")) else begun + "."
