"""What verifiers say of decisions, each asked anew or read from the log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from render_agent.agents.verifiers.base import Case, FloatArray, Verdict, Verifier, VerifierPanel
from render_agent.agents.verifiers.score_fusion import fused
from render_agent.dialogue.state import Judgement
from render_agent_lab.verifier_benchmark.decisions import Decision

LOGGED = " (logged)"
"""What stands behind the name of a verifier whose scores are those of the run."""


@dataclass(frozen=True, eq=False)
class Scored:
    """What one verifier said of S decisions.

    verdicts: (S,), None where it was not asked. seconds: of all of them. probabilities: whether a score is
    the probability that a candidate is good.
    """

    label: str
    verdicts: tuple[Verdict | None, ...]
    seconds: float | None = None
    probabilities: bool = False

    @property
    def values(self) -> list[FloatArray | None]:
        """One score a candidate for every decision, (S,) of (K,), the members' ranks fused; None: no score."""
        return [None if verdict is None else one_score(verdict) for verdict in self.verdicts]

    @property
    def untold(self) -> int:
        """How many scores there are not: the verifier could not tell."""
        return sum(int(np.isnan(v.scores).sum()) for v in self.verdicts if v is not None)


def score_anew(
    label: str, verifier: Verifier, decisions: Sequence[Decision], *, probabilities: bool = False
) -> Scored:
    """Return a verifier's scores of decisions. EngineError, SceneError or RenderError as it raises them."""
    began = time.perf_counter()
    verdicts = verifier.score_all([Case(d.context, d.candidates) for d in decisions])
    return Scored(label, tuple(verdicts), time.perf_counter() - began, probabilities)


def as_logged(decisions: Sequence[Decision]) -> list[Scored]:
    """Return the logged scores of every verifier of the runs, by name."""
    names = dict.fromkeys(judged.verifier for d in decisions for judged in d.logged)
    logged = []
    for name in names:
        judgements = [next((j for j in d.logged if j.verifier == name), None) for d in decisions]
        logged.append(Scored(name + LOGGED, tuple(_verdict(judged) for judged in judgements)))
    return logged


def oracle(decisions: Sequence[Decision]) -> Scored:
    """Return the scores of an oracle that knows what every view shows: the upper bound of all verifiers."""
    return Scored("oracle", tuple(Verdict(d.found[None]) for d in decisions))


def one_score(verdict: Verdict) -> FloatArray | None:
    """Return one score a candidate, (K,), None where no member could tell."""
    return fused(VerifierPanel((), (1.0,)), [verdict])


def _verdict(judged: Judgement | None) -> Verdict | None:
    if judged is None:
        return None
    scores = [[np.nan if s is None else s for s in row] for row in judged.scores]
    return Verdict(np.array(scores, np.float64), judged.reasons)
