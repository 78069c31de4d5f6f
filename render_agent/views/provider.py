"""`ViewProvider`: the interface of what draws the views of a question, and `NoViews`, which draws none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.reply import Place
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace


@dataclass(frozen=True, eq=False)
class Observation:
    """What a question is shown in its next turn.

    camera: where it stands. space: where it may go from there, None where nothing is shown.
    seconds: what drawing took. scan: in its first turn, what the scene was read from and whether the start was moved.
    told: what is told of the scene in the place of views, in its first turn.
    """

    views: tuple[View, ...]
    camera: Camera
    space: FreeSpace | None
    seconds: float = 0.0
    scan: tuple[str, ...] = ()
    told: str = ""


class ViewProvider(Protocol):
    """Draws the views of questions; owned by one thread. Their pictures are kept, and written meanwhile."""

    def observe(self, state: QuestionState) -> Observation:
        """Return the next views of a question."""
        ...

    def preview(
        self, state: QuestionState, now: Observation, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return candidates with what each would be shown next; now: what the question is shown."""
        ...

    def measure(self, state: QuestionState, now: Observation, places: Sequence[Place]) -> str:
        """Return the text of the measurements at places that a reply names; now: what the model was shown."""
        ...

    def restore(self, state: QuestionState) -> None:
        """Draw again the pictures of a question's turns that are gone from the run folder."""
        return

    def stop(self) -> None:
        """Interrupt a view that is being drawn, where that is possible; may be called from any thread."""
        return

    def close(self) -> None:
        """Free the renderer."""
        return


class NoViews(ViewProvider):
    """Shows nothing: the camera stands at the origin and stays there."""

    def observe(self, state: QuestionState) -> Observation:
        """Return no view."""
        return Observation((), Camera((0.0, 0.0, 0.0)), None)

    def preview(
        self, state: QuestionState, now: Observation, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates as they are: none would be shown anything."""
        return list(candidates)

    def measure(self, state: QuestionState, now: Observation, places: Sequence[Place]) -> str:
        """Nothing can be measured."""
        return ""
