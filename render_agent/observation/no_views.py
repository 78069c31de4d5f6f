"""The look of a run that shows nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from render_agent.dialogue.state import Candidate, QuestionState
from render_agent.geometry.camera import Camera
from render_agent.observation.base import Look


class Blindfold:
    """Shows nothing: the camera stands at the origin and stays there."""

    def look(self, state: QuestionState) -> Look:
        """Return no view."""
        return Look((), Camera((0.0, 0.0, 0.0)), None)

    def foresee(
        self, state: QuestionState, look: Look, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], list[Future[None]]]:
        """Return the candidates as they are: none would be shown anything."""
        return list(candidates), []

    def restore(self, state: QuestionState) -> None:
        """Nothing was drawn."""

    def stop(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing was needed."""
