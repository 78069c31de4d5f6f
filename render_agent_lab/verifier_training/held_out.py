"""How well verifiers choose in scenes that were held out: success with intervals over scenes."""

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


def successes(
    decisions: Sequence[Decision], scores: Sequence[FloatArray], *, named: bool = False
) -> dict[str, FloatArray]:
    """Return for each way to choose whether its choice was good, (S,) each, 0 to 1.

    decisions: S of them, choices all. scores: what the ensemble says of each, (M, K). named: whether a
    move is good only where it shows something named. SURFACE is the move that shows most new surface,
    which knows of no boxes; `random` is the share of good candidates, what a random choice comes to. Of
    candidates that tie any is chosen: the first may be the one that was made, which says nothing.
    """
    rates: dict[str, list[float]] = {}
    for decision, rows in zip(decisions, scores, strict=True):
        good = decision.finds if named else decision.good
        gains = np.nan_to_num(decision.geometry, nan=-np.inf)
        marks = {"learned": mean_ranks(rows)}
        marks |= {f"member {m + 1}": row for m, row in enumerate(rows)}
        marks |= {"geometry": gains, SURFACE: decision.surface, "random": np.zeros(len(good))}
        for name, values in marks.items():
            rates.setdefault(name, []).append(float(good[_highest(values)].mean()))
    return {name: np.array(values) for name, values in rates.items()}


def figures(rows: Mapping[str, FloatArray], scenes: Sequence[str]) -> dict[str, Any]:
    """Return mean success of each row, and how far learned is from the others; JSON.

    scenes: of every decision. Intervals are of 95 %, over scenes, as `score.intervals` has them; None with
    too few.
    """
    measured: dict[str, Any] = {
        "decisions": len(scenes),
        "scenes": len(set(scenes)),
        "success": {name: _interval(values, scenes, share=True) for name, values in rows.items()},
    }
    if "learned" in rows:
        measured["learned_minus"] = {
            other: _interval(rows["learned"] - rows[other], scenes, share=False)
            for other in ("random", SURFACE, "geometry")
        }
    return measured


def _highest(marks: FloatArray) -> NDArray[np.bool_]:
    """Return which candidates are the best; means of ranks that are equal may differ in the last digit."""
    best: NDArray[np.bool_] = marks >= marks.max() - 1e-9
    return best


def _interval(values: FloatArray, scenes: Sequence[str], *, share: bool) -> dict[str, float | None]:
    """Return a mean and its interval; share: of values of 0 to 1, else of differences."""
    mean = float(values.mean())
    estimated = ratio(values, scenes)
    low, high = (estimated and estimated.interval(1, share=share)) or (None, None)
    return {"mean": mean, "low": low, "high": high}
