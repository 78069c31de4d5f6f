"""Scores of several members or verifiers fused into one, within one state.

A member's scores mean something against each other only, for candidates of the same state: its scale
is its own, and moves with the state. So nothing here takes more than one state, and no fused score
may be set against that of another state.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from render_agent.agents.verifiers.verifier import FloatArray, Verdict, Verifier
from render_agent.dialogue.evidence import Judgement


def mean_ranks(scores: ArrayLike, weights: Sequence[float] | None = None) -> FloatArray:
    """Return the weighted mean over members of each candidate's rank, from 0 (worst) to 1 (best), (N,).

    scores: (M, N), M members and N candidates, finite, higher is better. Candidates that tie share the mean
    of their ranks; a single candidate has 0.5, as all have where all tie.
    """
    from scipy.stats import rankdata

    ranks = np.atleast_2d(rankdata(scores, axis=1)) - 1
    count = ranks.shape[1]
    ranks = ranks / (count - 1) if count > 1 else np.full(ranks.shape, 0.5)
    return np.asarray(np.average(ranks, axis=0, weights=weights))


def fused(verdicts: Sequence[Verdict]) -> FloatArray | None:
    """Return one score a candidate, (K,), from a verdict of every verifier; None where none could tell.

    Verifiers count alike, and the members of one share its part. Of a candidate that a member could not
    score it says nothing: the candidate stands at the mean of what the member said of the others.
    """
    rows, weights = [], []
    for verdict in verdicts:
        finite_rows = [row for row in verdict.scores if np.isfinite(row).any()]
        for row in finite_rows:
            known = np.isfinite(row)
            rows.append(np.where(known, row, row[known].mean()))
            weights.append(1 / len(finite_rows))
    return mean_ranks(np.stack(rows), weights) if rows else None


def judgements(verifiers: Sequence[Verifier], verdicts: Sequence[Verdict]) -> tuple[Judgement, ...]:
    """Return the verdicts of the verifiers in the form of the log."""
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
