"""What scoring takes: one by one, batched, computed once; and that the scores are the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from render_agent.bench.verifiers.decisions import Decision
from render_agent.choose.seam import Case, FloatArray, Verifier

ONE_BY_ONE, TOGETHER, ALL = "one by one", "together", "all states together"
"""Every candidate by itself; the candidates of a state; those of all states."""

ROUNDS = 3

Way = Callable[[Sequence[Decision]], list[FloatArray]]


def latency(verifier: Verifier, decisions: Sequence[Decision]) -> dict[str, Any]:
    """Return milliseconds a decision for every way to score, and how far its scores are from one by one.

    The ways take turns, ROUNDS times; the median counts. The first round is not timed.
    """
    ways = _ways(verifier)
    first = {name: way(decisions) for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way(decisions)
            seconds[name].append(time.perf_counter() - began)
    slow = statistics.median(seconds[ONE_BY_ONE])
    return {
        name: {
            "milliseconds": 1000 * statistics.median(times) / len(decisions),
            "times_faster": slow / statistics.median(times),
            "apart": _apart(first[ONE_BY_ONE], first[name]),
        }
        for name, times in seconds.items()
    }


def _ways(verifier: Verifier) -> dict[str, Way]:
    def one_by_one(decisions: Sequence[Decision]) -> list[FloatArray]:
        return [
            np.concatenate([verifier.score(d.situation, [c]).scores for c in d.candidates], 1)
            for d in decisions
        ]

    def together(decisions: Sequence[Decision]) -> list[FloatArray]:
        return [verifier.score(d.situation, d.candidates).scores for d in decisions]

    def all_states(decisions: Sequence[Decision]) -> list[FloatArray]:
        verdicts = verifier.score_all([Case(d.situation, d.candidates) for d in decisions])
        return [verdict.scores for verdict in verdicts]

    return {ONE_BY_ONE: one_by_one, TOGETHER: together, ALL: all_states}


def _apart(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """Return the largest difference of a score, 0 where none is; nan where one way tells and another not."""
    found = [np.abs(np.nan_to_num(a) - np.nan_to_num(b)).max() for a, b in zip(one, other, strict=True)]  # fmt: skip
    odd = any((np.isnan(a) != np.isnan(b)).any() for a, b in zip(one, other, strict=True))
    return float("nan") if odd else float(max(found, default=0.0))
