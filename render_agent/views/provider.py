"""`ViewProvider`, the interface for rendering the views of a question, and `NoViews`, which shows nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import TargetError
from render_agent.dialogue.reply import Place
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Candidate, Reading, Turn
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace


@dataclass(frozen=True, eq=False)
class NextViews:
    """The views for the next turn of a question."""

    views: tuple[View, ...]
    camera: Camera
    """Current camera."""
    space: FreeSpace | None
    """Free space for moves; None if the camera cannot move."""
    seconds: float = 0.0
    """Rendering time."""
    scan: tuple[str, ...] = ()
    """Notes for the first turn: how the scan was read, and whether the start pose was moved."""
    scan_files: Mapping[str, str | None] = field(default_factory=dict)
    """SHA-256 of the other files that reading the scan opened, for the first turn."""
    scene_text: str = ""
    """Text about the scene that replaces views in the first turn."""
    reading: Reading | None = None
    """The record of `scene_text` if it can be wrong."""


class ViewProvider(Protocol):
    """Renders the views of questions, and stores their images in the background. Owned by one thread."""

    def observe(self, state: QuestionState) -> NextViews:
        """Return the next views of a question."""
        ...

    def preview(
        self, state: QuestionState, current: NextViews, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates, each with the view it would lead to."""
        ...

    def measure(
        self, state: QuestionState, current: NextViews, places: Sequence[Place]
    ) -> tuple[str, Reading | None]:
        """Measure the places in a reply. Return what the model is told, and its record if it can be wrong."""
        ...

    def target_errors(
        self, state: QuestionState, current: NextViews, turn: Turn
    ) -> tuple[TargetError, ...]:
        """Return the errors of the camera after a turn; in the first turn, after those at the start."""
        return ()

    def restore(self, state: QuestionState) -> None:
        """Re-render images of earlier turns that are missing from the run folder."""
        return

    def stop(self) -> None:
        """Interrupt rendering if possible. May be called from any thread."""
        return

    def close(self) -> None:
        """Free the renderer."""
        return


class NoViews(ViewProvider):
    """Shows nothing: the camera stays at the origin."""

    def observe(self, state: QuestionState) -> NextViews:
        """Return no views."""
        return NextViews((), Camera((0.0, 0.0, 0.0)), None)

    def preview(
        self, state: QuestionState, current: NextViews, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        return list(candidates)

    def measure(
        self, state: QuestionState, current: NextViews, places: Sequence[Place]
    ) -> tuple[str, Reading | None]:
        """Return no measurements."""
        return "", None
