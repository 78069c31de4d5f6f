"""The views of a blind run: none."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.state import Candidate, QuestionState
from render_agent.geometry.camera import Camera
from render_agent.observation.base import Observation


class NoViews:
    """Shows nothing: the camera stands at the origin and stays there."""

    def observe(self, state: QuestionState) -> Observation:
        """Return no view."""
        return Observation((), Camera((0.0, 0.0, 0.0)), None)

    def preview(
        self, state: QuestionState, now: Observation, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return the candidates as they are: none would be shown anything."""
        return list(candidates)

    def restore(self, state: QuestionState) -> None:
        """Nothing was drawn."""

    def stop(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing was needed."""
