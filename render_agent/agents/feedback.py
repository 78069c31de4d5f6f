"""What a reply leads to: the camera's next pose, and the words that tell the model what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.dialogue.answer import asked_for
from render_agent.dialogue.moves import carry_out
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.geometry.camera import Camera
from render_agent.observation import Look

NOT_READ = "Your reply could not be read"
"""Begins the sentence about a reply that could not be read."""


@dataclass(frozen=True, slots=True)
class Response:
    """The pose after a reply, and what the model is told about it."""

    camera: Camera
    happened: str


def respond(
    action: Action | Malformed,
    state: QuestionState,
    look: Look,
    kinds: Sequence[str],
    *,
    cut_off: bool = False,
) -> Response:
    """Return what `action` leads to from where `look` was taken; `state` has not taken the turn yet.

    kinds: the kinds of view that may be asked for. cut_off: whether the token limit ended the reply.
    """
    told = ["Your reply was cut off at the token limit: write less."] if cut_off else []
    if isinstance(action, Malformed):
        told.append(unread(action))
        return Response(look.camera, " ".join(told))
    told += [f"{_sentence(note)}" for note in action.notes]
    if action.done and (action.answer is not None or state.answer is not None):
        told.append("Done; the moves beside it were not made." if action.moves else "Done.")
        return Response(look.camera, " ".join(told))
    if action.done:
        wanted = asked_for(state.question.wanted, state.question.options)
        told.append(f"You said done without an answer: give {wanted} as your answer.")
    if look.space is None:
        told.append(_standing_still(shown=bool(state.views or look.views)))
        return Response(look.camera, " ".join(told))
    moved = carry_out(action, look.camera, look.space)
    told.append(_sentence(moved.happened))
    shown = {view.number for view in (*state.views, *look.views)}
    told += _about_view(action.view, len(shown), kinds)
    return Response(moved.camera, " ".join(told))


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
