"""Compare runs with a first one over the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from render_agent.errors import QuestionsError, UsageError
from render_agent.options import fixed_options
from render_agent.runs.log.results import beliefs_of
from render_agent.runs.read import RunData
from render_agent.score.beliefs.belief_figures import belief_differences, last_steps
from render_agent.score.beliefs.scored_probe import ScoredProbe
from render_agent.score.comparison import (
    Side,
    compare,
    compare_alike,
    correct,
    differing,
    incomparable,
)
from render_agent.score.intervals import add_holm
from render_agent.score.power import plan

POWER = 0.8  # of a planned comparison


def sides_of(runs: Sequence[RunData]) -> list[Side]:
    """Return the runs as sides of a comparison, named by their paths if names repeat."""
    unique = len({run.name for run in runs}) == len(runs)
    return [
        Side(
            run.name if unique else str(run.path), run.results, fixed_options(run.config.to_json())
        )
        for run in runs
    ]


def compare_runs(
    runs: Sequence[RunData], *, anyway: bool = False, way_out: str
) -> list[dict[str, Any]]:
    """Compare every run with the first; Holm's correction is over all of them.

    Args:
        runs: At least two runs.
        anyway: Compare the common questions of runs that are not comparable.
        way_out: What to pass for `anyway`, for the error.

    Returns:
        For each run after the first the figures of `compare_alike`, the `options` in which both differ, `work`,
        `notes` and `adapted` fields of both, and `beliefs` if both have any.

    Raises:
        UsageError: Runs are not comparable, or have no scored question in common.
    """
    first, *others = sides_of(runs)
    pairs = [_compare_pair(first, other, anyway=anyway, way_out=way_out) for other in others]
    correct(pairs)
    for pair, run in zip(pairs, runs[1:], strict=True):
        if beliefs := _compare_beliefs(runs[0], run):
            pair["beliefs"] = beliefs
    add_holm([entry for pair in pairs for entry in pair.get("beliefs", {}).values()])
    return pairs


def _compare_pair(first: Side, second: Side, *, anyway: bool, way_out: str) -> dict[str, Any]:
    results = {"a": first.results, "b": second.results}
    return {
        **compare_alike(first, second, anyway=anyway, way_out=way_out),
        "options": differing(first, second),
        "work": {side: own["totals"]["per_question"] for side, own in results.items()},
        "notes": {side: own["notes"] for side, own in results.items()},
        "adapted": {side: own.get("adapted", {}) for side, own in results.items()},
    }


def _compare_beliefs(a: RunData, b: RunData) -> dict[str, dict[str, Any]]:
    """Return the differences of the last beliefs of run b from those of a, see `belief_differences`; empty without beliefs."""
    if not (a.config.probe and b.config.probe):
        return {}
    sides = []
    for run in (a, b):
        probes: Mapping[str, Sequence[ScoredProbe]] = {}
        with suppress(QuestionsError):  # the files of ground truth have changed since
            probes = beliefs_of(run.states, run.parts.picture_stress, run.config.annotations)
        sides.append(last_steps(run.states, probes))
    return belief_differences(*sides)


def plan_power(runs: Sequence[RunData], difference: float) -> dict[str, Any]:
    """Return the scenes and questions needed to detect a difference from the first of one or two runs.

    Args:
        runs: One run, or two of the same questions, from which the correlation is measured.
        difference: In points of percent.
    """
    if len(runs) > 2:
        raise UsageError("--power takes one run, or two of the same questions")
    sides = sides_of(runs)
    if len(sides) == 2 and (reasons := incomparable(*sides)):
        names = " and ".join(run.name for run in runs)
        raise UsageError(f"{names} are not comparable: {'; '.join(reasons)}")
    compared = compare(*sides) if len(sides) == 2 else None
    return plan(sides[0].results, difference, POWER, compared)
