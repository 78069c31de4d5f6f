"""The seam between a turn and whatever draws what it shows: state → Look."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from render_agent.dialogue.state import Candidate, Question, QuestionState, SceneSource, View
from render_agent.geometry.camera import Camera
from render_agent.scene.free_space.free_space import FreeSpace


class SpaceSource(SceneSource, Protocol):
    """Where a look gets its scene and the free space in it from."""

    def space(self, question: Question) -> FreeSpace:
        """Return the free space of the question's scene. SceneError where its scan cannot be read."""
        ...


Shown = tuple[tuple[View, ...], tuple[Future[None], ...]]
"""Views, and for each picture that was drawn when it is on disk."""


@dataclass(frozen=True, eq=False)
class Look:
    """What a question is shown in its next turn.

    camera: where it stands. space: where it may go from there, None where nothing is shown. written:
    done when the pictures are on disk. seconds: what drawing took.
    """

    views: tuple[View, ...]
    camera: Camera
    space: FreeSpace | None
    written: tuple[Future[None], ...] = ()
    seconds: float = 0.0


class Foreseeing(Protocol):
    """Draws what candidates would be shown next; called by the thread that draws."""

    def foresee(
        self, state: QuestionState, look: Look, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], list[Future[None]]]:
        """Return candidates with what each would be shown next, and for each picture when it is on disk."""
        ...


class Looking(Foreseeing, Protocol):
    """Gives the next views of questions; owned by one thread."""

    def look(self, state: QuestionState) -> Look:
        """Return the next views of a question."""
        ...

    def restore(self, state: QuestionState) -> None:
        """Draw again the pictures of a question's turns that are gone from the run folder."""
        ...

    def stop(self) -> None:
        """Have whoever waits for a view wait no longer, if that can be; may be called from any thread."""
        ...

    def close(self) -> None:
        """Give back what was needed for it."""
        ...
