"""Accuracy of verifiers in held-out scenes, with confidence intervals over scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent.agents.verifiers.verifier import FloatArray
from render_agent.score.intervals import ratio
from render_agent_lab.verifier_training.decision import Decision

SURFACE = "new surface"


def measure_success(
    decisions: Sequence[Decision],
    scores: Sequence[FloatArray],  # the ensemble's scores of each, (M, K)
    *,
    named: bool = False,
) -> dict[str, FloatArray]:
    """Return the success of each selection method per decision, (S,) each, 0 to 1.

    Methods are the ensemble (`learned`), its members, `geometry`, SURFACE (the move with the most new surface, which
    uses no boxes) and `random`. Ties count as their mean, because the first candidate may be the move that was made.
    """
    rates: dict[str, list[float]] = {}
    for decision, rows in zip(decisions, scores, strict=True):
        good = decision.finds if named else decision.good
        gains = np.nan_to_num(decision.geometry, nan=-np.inf)
        marks = {"learned": mean_ranks(rows)}
        marks |= {f"member {m + 1}": row for m, row in enumerate(rows)}
        marks |= {"geometry": gains, SURFACE: decision.surface, "random": np.zeros(len(good))}
        for name, values in marks.items():
            rates.setdefault(name, []).append(float(good[_best_candidates(values)].mean()))
    return {name: np.array(values) for name, values in rates.items()}


def summarize_held_out(rows: Mapping[str, FloatArray], scenes: Sequence[str]) -> dict[str, Any]:
    """Return the mean success of each method, and the differences between `learned` and the baselines, as JSON.

    `scenes` has the scene of every decision. Intervals are 95 % confidence intervals over scenes, None if there are too
    few.
    """
    measured: dict[str, Any] = {
        "decisions": len(scenes),
        "scenes": len(set(scenes)),
        "success": {name: _interval(values, scenes, share=True) for name, values in rows.items()},
    }
    if "learned" in rows:
        measured["learned_minus"] = {
            baseline: _interval(rows["learned"] - rows[baseline], scenes, share=False)
            for baseline in ("random", SURFACE, "geometry")
        }
    return measured


def _best_candidates(marks: FloatArray) -> NDArray[np.bool_]:
    """Return which candidates are best; equal mean ranks may differ by rounding."""
    mask: NDArray[np.bool_] = marks >= marks.max() - 1e-9
    return mask


def _interval(values: FloatArray, scenes: Sequence[str], *, share: bool) -> dict[str, float | None]:
    """Return a mean and its interval. `share` is True for values in 0 to 1, False for differences."""
    mean = float(values.mean())
    estimate = ratio(values, scenes)
    low, high = (estimate and estimate.interval(1, share=share)) or (None, None)
    return {"mean": mean, "low": low, "high": high}
