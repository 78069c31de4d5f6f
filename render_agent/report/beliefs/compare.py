"""Comparison of the beliefs of two runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from render_agent.errors import QuestionsError
from render_agent.parts.beliefs.belief_figures import belief_differences, last_steps
from render_agent.parts.beliefs.part import beliefs_of
from render_agent.parts.beliefs.scored_probe import ScoredProbe
from render_agent.runs.read import RunData


def compare_beliefs(a: RunData, b: RunData) -> dict[str, dict[str, Any]]:
    """Return the differences between the last beliefs of run b and run a; empty unless both were probed."""
    if not (a.config.probe and b.config.probe):
        return {}
    sides = []
    for run in (a, b):
        probes: Mapping[str, Sequence[ScoredProbe]] = {}
        with suppress(QuestionsError):  # the ground-truth files have changed since the run
            probes = beliefs_of(run.states, run.parts.image_stress, run.facts)
        sides.append(last_steps(run.states, probes))
    return belief_differences(*sides)
