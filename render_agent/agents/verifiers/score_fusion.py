"""Scores of several members or verifiers fused into one, within one state.

A member's scores mean something against each other only, for candidates of the same state: its scale
is its own, and moves with the state. So nothing here takes more than one state, and no fused score
may be set against that of another state.

Scores are (M, N): M members, N candidates, higher is better; fused scores are (N,) float64. Every
function raises ValueError for no member, no candidate, and a score that is not finite: a verifier that
could not tell is left out by its caller, with its weight, and is no number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from render_agent.agents.verifiers.base import Verdict, VerifierPanel
from render_agent.dialogue.state import Judgement

FloatArray = NDArray[np.float64]


def mean_ranks(scores: ArrayLike, weights: Sequence[float] | None = None) -> FloatArray:
    """Return the weighted mean over members of each candidate's rank, from 0 (worst) to 1 (best).

    Candidates that tie share the mean of their ranks. A single candidate has 0.5, as all have where
    all tie.
    """
    checked = _checked(scores)
    return _weighted(checked, weights) @ np.stack([_ranks(row) for row in checked])


def mean_normalised(scores: ArrayLike, weights: Sequence[float] | None = None) -> FloatArray:
    """Return the weighted mean over members of scores with mean 0 and deviation 1 within the state.

    A member for which all candidates tie says nothing: its scores are 0, as a single candidate's are.
    """
    checked = _checked(scores)
    return _weighted(checked, weights) @ np.stack([_normalised(row) for row in checked])


FUSIONS: Mapping[str, Callable[[ArrayLike, Sequence[float] | None], FloatArray]] = {
    "ranks": mean_ranks,
    "normalised": mean_normalised,
}
"""The ways to fuse scores, by name."""


def highest(fused: ArrayLike) -> int:
    """Return the number of the best candidate, of several that tie the first."""
    values = _checked(np.asarray(fused, np.float64)[None])[0]
    return int(values.argmax())


def fused(panel: VerifierPanel, verdicts: Sequence[Verdict]) -> FloatArray | None:
    """Return one score a candidate, (K,), from a verdict of every verifier; None where none could tell.

    The members of a verifier share its weight. Of a candidate that a member could not score it says
    nothing: the candidate stands at the mean of what the member said of the others.
    """
    rows, weights = [], []
    for verdict, weight in zip(verdicts, panel.weights, strict=True):
        finite_rows = [row for row in verdict.scores if np.isfinite(row).any()]
        for row in finite_rows:
            known = np.isfinite(row)
            rows.append(np.where(known, row, row[known].mean()))
            weights.append(weight / len(finite_rows))
    if not rows or not any(weights):
        return None
    return FUSIONS[panel.fusion](np.stack(rows), weights)


def judgements(panel: VerifierPanel, verdicts: Sequence[Verdict]) -> tuple[Judgement, ...]:
    """Return the verdicts of the verifiers in the form of the log."""
    return tuple(
        Judgement(
            verifier=verifier.name,
            members=verifier.members,
            scores=tuple(
                tuple(float(score) if np.isfinite(score) else None for score in row)
                for row in verdict.scores
            ),
            reasons=verdict.reasons or ("",) * verdict.scores.shape[1],
        )
        for verifier, verdict in zip(panel.verifiers, verdicts, strict=True)
    )


def _checked(scores: ArrayLike) -> FloatArray:
    array = np.asarray(scores, np.float64)
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"scores of one member and one candidate at least are needed, (M, N), not {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError("a score is not a finite number")
    return array


def _weighted(scores: FloatArray, weights: Sequence[float] | None) -> FloatArray:
    """Return the members' parts, which add up to 1."""
    parts = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    if parts.shape != (len(scores),):
        raise ValueError(f"{len(scores)} members need a weight each, not weights of {parts.shape}")
    if not np.isfinite(parts).all() or (parts < 0).any() or not parts.any():
        raise ValueError("weights are finite, none is below 0, and one at least is above")
    parts = parts / parts.max()  # first, so that the sum of great weights stays finite
    return np.asarray(parts / parts.sum())


def _ranks(row: FloatArray) -> FloatArray:
    if len(row) == 1:
        return np.array([0.5])
    lower = (row[None] < row[:, None]).sum(1)
    equal = (row[None] == row[:, None]).sum(1) - 1
    return np.asarray((lower + equal / 2) / (len(row) - 1))


def _normalised(row: FloatArray) -> FloatArray:
    span = np.ptp(row)
    if not span:  # the deviation of equal numbers need not come out as 0
        return np.zeros(len(row))
    scaled = (row - row.min()) / span
    return np.asarray((scaled - scaled.mean()) / scaled.std())
