"""Do scores mean what they say: success by score, and how far probabilities are from frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent_lab.verifier_benchmark.decisions import Decision
from render_agent_lab.verifier_benchmark.resampling import estimate
from render_agent_lab.verifier_benchmark.scoring import Scored

QUARTERS = 4
"""Parts of a state's candidates by rank."""

BINS = 10
"""Parts of the probabilities from 0 to 1."""


def by_rank(decisions: Sequence[Decision], scored: Scored) -> list[dict[str, Any]]:
    """Return the share of good candidates by their rank within their state, from the lowest quarter up.

    Scores compare within a state only, so it is their rank there that is set against success.
    """
    ranks, good, scenes = [], [], []
    for decision, values in zip(decisions, scored.values, strict=True):
        if values is not None:
            ranks += list(mean_ranks(values[None]))
            good += list(decision.good)
            scenes += [decision.scene] * len(values)
    quarter = np.minimum((np.array(ranks) * QUARTERS).astype(int), QUARTERS - 1)
    quarters = []
    for number in range(QUARTERS):
        within = np.where(quarter == number, good, np.nan)
        share = estimate(within, scenes) or {"mean": None, "interval": None, "n": 0}
        quarters.append({"from": number / QUARTERS, "to": (number + 1) / QUARTERS, **share})
    return quarters


def by_probability(decisions: Sequence[Decision], scored: Scored) -> dict[str, Any] | None:
    """Return probabilities against frequencies in equal parts, and the expected calibration error.

    The error is the mean distance of the two, each part with the share of candidates in it (Guo et al.
    2017). Members are averaged. None where scores are no probabilities or there is none.
    """
    if not scored.probabilities:
        return None
    probabilities: list[float] = []
    good: list[float] = []
    for decision, verdict in zip(decisions, scored.verdicts, strict=True):
        if verdict is not None:
            probabilities += list(verdict.scores.mean(0))
            good += list(decision.good)
    stated, happened = np.array(probabilities), np.array(good)
    known = np.isfinite(stated)
    stated, happened = stated[known], happened[known]
    if not len(stated):
        return None
    part = np.minimum((stated * BINS).astype(int), BINS - 1)
    bins = [
        {
            "from": number / BINS,
            "to": (number + 1) / BINS,
            "n": int((part == number).sum()),
            "said": float(stated[part == number].mean()),
            "happened": float(happened[part == number].mean()),
        }
        for number in range(BINS)
        if (part == number).any()
    ]
    error = sum(b["n"] * abs(b["said"] - b["happened"]) for b in bins) / len(stated)
    return {"bins": bins, "expected_calibration_error": error, "n": len(stated)}
