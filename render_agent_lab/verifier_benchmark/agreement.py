"""Do verifiers say the same: rank correlation within states, and the share of the same choice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from render_agent.agents.verifiers.base import FloatArray
from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent_lab.verifier_benchmark.decisions import Decision
from render_agent_lab.verifier_benchmark.resampling import estimate
from render_agent_lab.verifier_benchmark.scoring import Scored


def agreement(decisions: Sequence[Decision], scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """Return for every two verifiers how alike they rank the candidates of a state, and how they choose.

    correlation: Spearman's within a state, its mean over states in which neither finds all alike.
    same_choice: the share of states with the same choice; ties are broken at random, each for itself.
    """
    scenes, rows = [d.scene for d in decisions], []
    for first, other in combinations(scored, 2):
        pairs = list(zip(first.values, other.values, strict=True))
        rows.append(
            {
                "one": first.label,
                "other": other.label,
                "correlation": estimate([_correlation(a, b) for a, b in pairs], scenes),
                "same_choice": estimate([_same(a, b) for a, b in pairs], scenes),
            }
        )
    return rows


def _correlation(one: FloatArray | None, other: FloatArray | None) -> float:
    if one is None or other is None:
        return np.nan
    first, second = (mean_ranks(values[None]) - 0.5 for values in (one, other))
    length = np.sqrt((first**2).sum() * (second**2).sum())
    return float((first * second).sum() / length) if length else np.nan


def _same(one: FloatArray | None, other: FloatArray | None) -> float:
    if one is None or other is None:
        return np.nan
    first, second = (values == values.max() for values in (one, other))
    return float((first & second).sum() / (first.sum() * second.sum()))
