"""Fusion of the scores of several verifiers and their members, within one state.

The scale of a member's scores is arbitrary and can differ between states, so only scores of the same member and state
are comparable. All functions here process a single state; do not compare fused scores of different states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from render_agent.agents.verifiers.verifier import FloatArray, Verdict, Verifier
from render_agent.dialogue.turn import Judgement


def mean_ranks(
    scores: ArrayLike,  # (M, N) for M members and N candidates; finite, higher is better
    weights: Sequence[float] | None = None,  # (M,) weights of the members; None for equal weights
) -> FloatArray:
    """Return each candidate's mean rank over the members, from 0 (worst) to 1 (best).

    Ties share the mean of their ranks. A single candidate has rank 0.5.
    """
    from scipy.stats import rankdata

    ranks = np.atleast_2d(rankdata(scores, axis=1)) - 1
    count = ranks.shape[1]
    ranks = ranks / (count - 1) if count > 1 else np.full(ranks.shape, 0.5)
    return np.asarray(np.average(ranks, axis=0, weights=weights))


def fuse_scores(verdicts: Sequence[Verdict]) -> FloatArray | None:
    """Return one score per candidate, (K,), from the verdicts of all verifiers; None if there are no scores.

    Verifiers have equal weights, which are divided equally among their members. A missing score is replaced by the
    mean of the member's other scores.
    """
    rows, weights = [], []
    for verdict in verdicts:
        finite_rows = [row for row in verdict.scores if np.isfinite(row).any()]
        for row in finite_rows:
            is_finite = np.isfinite(row)
            rows.append(np.where(is_finite, row, row[is_finite].mean()))
            weights.append(1 / len(finite_rows))
    return mean_ranks(np.stack(rows), weights) if rows else None


def to_judgements(
    verifiers: Sequence[Verifier], verdicts: Sequence[Verdict]
) -> tuple[Judgement, ...]:
    """Convert the verdicts of the verifiers to the log's format."""
    return tuple(
        Judgement(
            verifier=verifier.label,
            members=verifier.members,
            scores=tuple(
                tuple(float(score) if np.isfinite(score) else None for score in row)
                for row in verdict.scores
            ),
            reasons=verdict.reasons or ("",) * verdict.scores.shape[1],
        )
        for verifier, verdict in zip(verifiers, verdicts, strict=True)
    )
