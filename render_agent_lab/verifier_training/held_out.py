"""How well verifiers choose in scenes that were held out: success with intervals over scenes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.base import FloatArray
from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent.score.means import RESAMPLES, percentiles
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
    found: dict[str, list[float]] = {}
    for decision, rows in zip(decisions, scores, strict=True):
        good = decision.finds if named else decision.good
        told = np.nan_to_num(decision.geometry, nan=-np.inf)
        marks = {"learned": mean_ranks(rows)}
        marks |= {f"member {m + 1}": one for m, one in enumerate(rows)}
        marks |= {"geometry": told, SURFACE: decision.surface, "random": np.zeros(len(good))}
        for name, values in marks.items():
            found.setdefault(name, []).append(float(good[_highest(values)].mean()))
    return {name: np.array(values) for name, values in found.items()}


def figures(rows: Mapping[str, FloatArray], scenes: Sequence[str], seed: int) -> dict[str, Any]:
    """Return mean success of each row, and how far learned is from the others; JSON.

    scenes: of every decision. Intervals are of 95 %, from a bootstrap over scenes; None over a single one.
    """
    draws = _draws(scenes, seed) if len(set(scenes)) > 1 else None
    found: dict[str, Any] = {
        "decisions": len(scenes),
        "scenes": len(set(scenes)),
        "success": {name: _interval(values, draws) for name, values in rows.items()},
    }
    if "learned" in rows:
        found["learned_minus"] = {
            other: _interval(rows["learned"] - rows[other], draws)
            for other in ("random", SURFACE, "geometry")
        }
    return found


def _draws(scenes: Sequence[str], seed: int) -> FloatArray:
    """Return how often each decision counts in every bootstrap sample, (RESAMPLES, S)."""
    names, which = np.unique(list(scenes), return_inverse=True)
    chance = np.random.default_rng([seed, len(scenes)])
    picked = chance.integers(len(names), size=(RESAMPLES, len(names)))
    counts = np.stack([np.bincount(row, minlength=len(names)) for row in picked])
    drawn: FloatArray = counts[:, which].astype(np.float64)
    return drawn


def _highest(marks: FloatArray) -> NDArray[np.bool_]:
    """Return which candidates are the best; means of ranks that are equal may differ in the last digit."""
    best: NDArray[np.bool_] = marks >= marks.max() - 1e-9
    return best


def _interval(values: FloatArray, draws: FloatArray | None) -> dict[str, float | None]:
    low = high = None
    if draws is not None:
        low, high = percentiles(draws @ values / draws.sum(1))
    return {"mean": float(values.mean()), "low": low, "high": high}
