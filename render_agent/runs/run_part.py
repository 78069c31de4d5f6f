"""Run parts: what an optional part of a run checks, asks after its turns, and adds to its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from render_agent import registry
from render_agent.tasks.input_files import Choice

if TYPE_CHECKING:
    from render_agent.agents.agent import AfterTurn
    from render_agent.dialogue.state import QuestionState
    from render_agent.dialogue.turn import Turn
    from render_agent.runs.build import Parts
    from render_agent.runs.read import RunData
    from render_agent.tasks.ground_truth import LoadFacts
    from render_agent.views.stress.image_stress import ImageStress


class RunPart(Choice):
    """What an optional part of a run does; nothing unless a subclass overrides it."""

    def after_turn(self, parts: Parts) -> AfterTurn | None:
        """Return what is asked after each turn. Raises UsageError if the model cannot answer it."""
        return None

    def results(
        self, states: Sequence[QuestionState], stress: ImageStress | None, facts: LoadFacts
    ) -> Mapping[str, Any]:
        """Return entries of `results.json`."""
        return {}

    def totals(self, turns: Sequence[Turn]) -> Mapping[str, Any]:
        """Return entries of `totals` in `results.json`."""
        return {}

    def caveats(self, turns: Sequence[Turn]) -> Iterable[str]:
        """Return caveats derived from turns."""
        return ()

    def notes(self, run: RunData) -> Iterable[str]:
        """Return caveats that must accompany every score of a stored run."""
        return ()


def after_turn(parts: Parts) -> list[AfterTurn]:
    """Return what is asked after each turn of a run. Raises UsageError if the model cannot answer it."""
    asked = (part.after_turn(parts) for part in run_parts())
    return [ask for ask in asked if ask is not None]


@cache
def run_parts() -> tuple[RunPart, ...]:
    """Return all run parts."""
    return tuple(registry.load("run part", name)() for name in registry.names("run part"))
