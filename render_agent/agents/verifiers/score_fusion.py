"""Which candidate is taken, from what the verifiers said of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from render_agent.agents.verifiers.base import FloatArray, Panel, Verdict
from render_agent.agents.verifiers.fusion import FUSIONS
from render_agent.dialogue.state import Judgement


def fused(panel: Panel, verdicts: Sequence[Verdict]) -> FloatArray | None:
    """Return one score a candidate, (K,), from a verdict of every verifier; None where none could tell.

    The members of a verifier share its weight. Of a candidate that a member could not score it says
    nothing: the candidate stands at the mean of what the member said of the others.
    """
    rows, weights = [], []
    for verdict, weight in zip(verdicts, panel.weights, strict=True):
        told = [row for row in verdict.scores if np.isfinite(row).any()]
        for row in told:
            known = np.isfinite(row)
            rows.append(np.where(known, row, row[known].mean()))
            weights.append(weight / len(told))
    if not rows or not any(weights):
        return None
    return FUSIONS[panel.fusion](np.stack(rows), weights)


def judgements(panel: Panel, verdicts: Sequence[Verdict]) -> tuple[Judgement, ...]:
    """Return what the verifiers said, as the log has it."""
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
