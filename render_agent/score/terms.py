"""Figures that are sums of terms: rates, means and calibration errors, with intervals over scenes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from render_agent.score.intervals import (
    Estimate,
    FloatArray,
    Statistic,
    estimate_statistic,
    estimate_to_json,
    ratio,
)

MAX_BINS = 10  # of a calibration error


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a figure, which is Σ tops / Σ bottoms, or with bins Σ over bins |Σ tops| / Σ bottoms."""

    scene: Hashable
    top: float
    bottom: float = 1.0
    bin: int | None = None


def estimate_terms(terms: Sequence[Term]) -> Estimate | None:
    """Return a figure; None without terms."""
    if not terms or not sum(term.bottom for term in terms):
        return None
    scenes = [term.scene for term in terms]
    if terms[0].bin is not None:
        return estimate_statistic(_statistic(terms, scenes), len(set(scenes)))
    return ratio([term.top for term in terms], scenes, [term.bottom for term in terms])


def summarize_terms(terms: Sequence[Term], *, share: bool = True) -> dict[str, Any] | None:
    """Return a figure as stored in `results.json`, in percent if `share`; None without terms."""
    estimate, number = estimate_terms(terms), int(sum(term.bottom for term in terms))
    return None if estimate is None else estimate_to_json(estimate, number, share=share)


def compare_terms(
    a: Sequence[Term], b: Sequence[Term], *, scale: float = 100
) -> dict[str, Any] | None:
    """Return the difference of a figure between two runs (b minus a); None if one of them has no terms."""
    if not (a and b):
        return None
    scenes = [term.scene for term in (*a, *b)]
    number = len(set(scenes))
    figure_a, figure_b = (_statistic(terms, scenes) for terms in (a, b))
    estimate = estimate_statistic(lambda weights: figure_b(weights) - figure_a(weights), number)
    interval, p = estimate.interval_and_p(scale)
    return {
        "a": scale * float(figure_a(np.ones(number))),
        "b": scale * float(figure_b(np.ones(number))),
        "difference": scale * float(estimate.mean),
        "interval": interval,
        "p": p,
        "scenes": number,
        "n": len(a),
    }


def _statistic(terms: Sequence[Term], scenes: Sequence[Hashable]) -> Statistic:
    """Return a figure as a function of the weights of the distinct scenes; NaN if no terms remain."""
    numbers = {scene: number for number, scene in enumerate(dict.fromkeys(scenes))}
    tops = np.zeros((len(numbers), 1 + max(term.bin or 0 for term in terms)))
    bottoms = np.zeros(len(numbers))
    for term in terms:
        tops[numbers[term.scene], term.bin or 0] += term.top
        bottoms[numbers[term.scene]] += term.bottom

    def figure(weights: FloatArray) -> FloatArray:
        sums = weights @ tops
        top = sums[..., 0] if terms[0].bin is None else np.abs(sums).sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            value: FloatArray = top / (weights @ bottoms)
        return value

    return figure


def equal_mass_bins(values: Sequence[float]) -> list[int]:
    """Return the bin of each value: at most MAX_BINS with about the same number of values; equal values share one."""
    first: dict[float, int] = {}
    for rank, value in enumerate(sorted(values)):
        first.setdefault(value, rank * MAX_BINS // len(values))
    return [first[value] for value in values]
