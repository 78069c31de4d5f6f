"""Means of scores, each under its own name, and their intervals by bootstrap over scenes.

Scores are fractions between 0 and 1. Every mean is one of the means and counts of the types, so the
same few lines give the figure and, over resampled scenes, its interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.score.official import DIRECTION_TYPES, ORDER, TYPES

DIRECTION = "object_rel_direction"
"""The task that the three kinds of relative direction are together."""

MACRO, WITHOUT_ORDER, MICRO, MEAN_OF_TYPES = "macro", "without_order", "micro", "mean_of_types"

RESAMPLES = 2_000
CONFIDENCE = 0.95

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """The score of one answer, and what its question belongs to; `pruned` as in `Question`."""

    type: str
    dataset: str
    scene: str
    score: float
    pruned: bool | None = None


@dataclass(frozen=True, eq=False)
class Tally:
    """Scores summed by scene and type.

    types: the T types that were asked, known ones first. sums, counts: (scenes, T).
    """

    types: tuple[str, ...]
    sums: FloatArray
    counts: FloatArray

    @property
    def means(self) -> dict[str, float]:
        """Every named mean, task and type."""
        means = named_means(self.types, self.sums.sum(axis=0), self.counts.sum(axis=0))
        return {name: float(value) for name, value in means.items()}


def tally(scored: Iterable[Scored]) -> Tally:
    """Return the sums of scores by scene and type; a scene is known by its data set and its name."""
    scored = list(scored)
    present = {entry.type for entry in scored}
    types = (*(t for t in TYPES if t in present), *sorted(present.difference(TYPES)))
    scenes = sorted({(entry.dataset, entry.scene) for entry in scored})
    columns = {name: index for index, name in enumerate(types)}
    rows = {scene: index for index, scene in enumerate(scenes)}
    sums, counts = np.zeros((2, len(scenes), len(types)))
    for entry in scored:
        index = rows[entry.dataset, entry.scene], columns[entry.type]
        sums[index] += entry.score
        counts[index] += 1
    return Tally(types, sums, counts)


def named_means(
    types: Sequence[str], sums: FloatArray, counts: FloatArray
) -> dict[str, FloatArray]:
    """Return every named mean, then every task and type, of scores summed by type.

    sums, counts: (…, types). Each mean is (…); NaN where no question of it was asked. `macro` is
    the official overall score: the mean of the tasks, where the three kinds of relative direction
    are first averaged to one; `without_order` is the same without the appearance order; `micro` is
    the mean over questions, `mean_of_types` that over types.
    """
    by_type = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    scores = {name: by_type[..., index] for index, name in enumerate(types)}
    tasks = {name: score for name, score in scores.items() if name not in DIRECTION_TYPES}
    directions = [scores[name] for name in DIRECTION_TYPES if name in scores]
    if directions:
        tasks[DIRECTION] = _mean(directions)
    total, count = sums.sum(axis=-1), counts.sum(axis=-1)
    means = {
        MACRO: _mean(list(tasks.values())),
        WITHOUT_ORDER: _mean([score for name, score in tasks.items() if name != ORDER]),
        MICRO: np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0),
        MEAN_OF_TYPES: _mean(list(scores.values())),
    }
    return {**means, **tasks, **scores}


def drawn_anew(groups: int, seed: int = 0, resamples: int = RESAMPLES) -> NDArray[np.int64]:
    """Return how often each group counts where as many are drawn with replacement, (resamples, groups)."""
    return np.random.default_rng(seed).multinomial(
        groups, np.full(groups, 1 / groups), size=resamples
    )


def percentiles(means: FloatArray) -> tuple[float, float]:
    """Return the 95 % interval that resampled means, (n,), span; NaN where there is none."""
    if not len(means):
        return np.nan, np.nan
    low, high = np.quantile(means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def resampled_means(
    counted: Tally, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, FloatArray]:
    """Return every named mean, task and type over scenes drawn anew with replacement.

    Each is (resamples,). Questions of one scene share its scan and its faults, so whole scenes are
    drawn, not questions (Cameron, Gelbach and Miller 2008, "pairs cluster bootstrap").
    """
    drawn = drawn_anew(len(counted.sums), seed, resamples)
    return named_means(counted.types, drawn @ counted.sums, drawn @ counted.counts)


def intervals(
    counted: Tally, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, tuple[float, float] | None]:
    """Return the 95 % interval of every named mean, task and type: percentiles of the resampled means.

    None where fewer than two scenes hold questions of it: nothing is known of its spread.
    """
    if not len(counted.sums):
        return {}
    bounds: dict[str, tuple[float, float] | None] = {}
    for name, means in resampled_means(counted, seed, resamples).items():
        known = means[~np.isnan(means)]
        bounds[name] = percentiles(known) if scenes_of(counted, name) > 1 else None
    return bounds


def scenes_of(counted: Tally, name: str) -> int:
    """Return how many scenes hold questions that a named mean, task or type is about."""
    about: Sequence[str] = (name,)
    if name in (MACRO, MICRO, MEAN_OF_TYPES):
        about = counted.types
    elif name == WITHOUT_ORDER:
        about = [kind for kind in counted.types if kind != ORDER]
    elif name == DIRECTION:
        about = DIRECTION_TYPES
    chosen = [index for index, kind in enumerate(counted.types) if kind in about]
    return int((counted.counts[:, chosen].sum(axis=1) > 0).sum())


def _mean(scores: Sequence[FloatArray]) -> FloatArray:
    """Return the mean of arrays of one shape, leaving NaN out; NaN where there is nothing else."""
    if not scores:
        return np.array(np.nan)
    known = np.ma.masked_invalid(np.stack(scores))
    mean: FloatArray = np.ma.filled(known.mean(axis=0), np.nan)
    return mean
