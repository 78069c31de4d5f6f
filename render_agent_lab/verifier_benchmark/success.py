"""How often the chosen candidate is a good one, and how that grows with the number of candidates."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from render_agent.agents.verifiers.base import FloatArray, Verdict
from render_agent_lab.verifier_benchmark.decisions import Decision
from render_agent_lab.verifier_benchmark.resampling import estimate
from render_agent_lab.verifier_benchmark.scoring import Scored


def expected(worth: ArrayLike, scores: ArrayLike, count: int) -> float:
    """Return the expected worth of the choice over all sets of `count` of the K candidates.

    worth: (K,), of each candidate. scores: (K,); the highest of a set is chosen, of several that tie any.
    Candidates are independent samples, so every set of them is as likely as any other. ValueError where
    there are not so many candidates.
    """
    values, marks = np.asarray(worth, np.float64), np.asarray(scores, np.float64)
    total = len(values)
    if not 1 <= count <= total:
        raise ValueError(f"{count} of {total} candidates cannot be taken")
    share = 0.0
    for mark in np.unique(marks):
        lower, level = int((marks < mark).sum()), marks == mark
        ways = comb(lower + int(level.sum()), count) - comb(lower, count)
        share += ways / comb(total, count) * float(values[level].mean())
    return share


def counts_of(decisions: Sequence[Decision]) -> list[int]:
    """Return the numbers of candidates that are looked at: powers of two, and the most there are."""
    most = max((len(d.candidates) for d in decisions), default=0)
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return [*powers, *([most] if most not in powers else [])]


def success(decisions: Sequence[Decision], scored: Scored) -> dict[str, Any]:
    """Return the success rate of one verifier's choices, with intervals over scenes.

    by_count: by number of candidates. minus_random: of all candidates, less the share of good ones, which
    a random choice comes to, paired. where_it_matters: where one is good and another is not. of_the_best:
    what the choices show that is named and new, over what the best candidates would.
    """
    scenes, values = [d.scene for d in decisions], scored.values
    chosen = np.array([_chosen(d.good, v) for d, v in zip(decisions, values, strict=True)])
    chance = np.array([d.good.mean() for d in decisions])
    matters = np.array([0 < d.good.mean() < 1 for d in decisions])
    gained = np.array([_chosen(d.found, v) for d, v in zip(decisions, values, strict=True)])
    best = np.array([d.found.max() for d in decisions])
    return {
        "by_count": {
            str(count): estimate(_by_count(decisions, values, count), scenes)
            for count in counts_of(decisions)
        },
        "minus_random": estimate(chosen - chance, scenes),
        "where_it_matters": estimate(np.where(matters, chosen, np.nan), scenes),
        "of_the_best": estimate(gained, scenes, over=np.where(np.isnan(gained), np.nan, best)),
        "untold": scored.untold,
    }


def by_chance(decisions: Sequence[Decision]) -> Scored:
    """Return a verdict by which all candidates tie: what choosing at random comes to, without its noise."""
    ties = tuple(Verdict(np.zeros((1, len(d.candidates)))) for d in decisions)
    return Scored("any, by chance", ties)


def difference(
    decisions: Sequence[Decision], first: Scored, other: Scored
) -> dict[str, Any] | None:
    """Return the paired difference in success of two verifiers, the first less the other."""
    pairs = zip(decisions, first.values, other.values, strict=True)
    apart = [_chosen(d.good, mine) - _chosen(d.good, its) for d, mine, its in pairs]
    return estimate(apart, [d.scene for d in decisions])


def _by_count(
    decisions: Sequence[Decision], values: Sequence[FloatArray | None], count: int
) -> list[float]:
    return [
        expected(d.good, v, count) if v is not None and len(v) >= count else np.nan
        for d, v in zip(decisions, values, strict=True)
    ]


def _chosen(worth: FloatArray, scores: FloatArray | None) -> float:
    return np.nan if scores is None else expected(worth, scores, len(worth))
