"""Means of scores, each under its own name.

Scores are fractions between 0 and 1. Every mean is one of the means and counts of the types, so the
same few lines give the figure and, without each scene in turn, how sure it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.tasks.question_types import COMPOSITES, ORDER, PART_TYPES, TYPES

MACRO, WITHOUT_ORDER, MICRO, MEAN_OF_TYPES = "macro", "without_order", "micro", "mean_of_types"

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
    are first averaged to one (and other types that are one task, see COMPOSITES); `without_order` is the same without the appearance order; `micro` is
    the mean over questions, `mean_of_types` that over types.
    """
    by_type = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    scores = {name: by_type[..., index] for index, name in enumerate(types)}
    tasks = {name: score for name, score in scores.items() if name not in PART_TYPES}
    total, count = sums.sum(axis=-1), counts.sum(axis=-1)
    none = np.full(np.shape(total), np.nan)
    for task, kinds in COMPOSITES.items():
        if parts := [scores[kind] for kind in kinds if kind in scores]:
            tasks[task] = _mean(parts, none)
    means = {
        MACRO: _mean(list(tasks.values()), none),
        WITHOUT_ORDER: _mean([score for name, score in tasks.items() if name != ORDER], none),
        MICRO: np.divide(total, count, out=none.copy(), where=count > 0),
        MEAN_OF_TYPES: _mean(list(scores.values()), none),
    }
    return {**means, **tasks, **scores}


def _mean(scores: Sequence[FloatArray], none: FloatArray) -> FloatArray:
    """Return the mean of arrays of one shape, leaving NaN out; `none`, NaN, where there is nothing else."""
    if not scores:
        return none
    stacked = np.stack(scores)
    known = ~np.isnan(stacked)
    number, mean = known.sum(axis=0), none.copy()
    np.divide(np.where(known, stacked, 0).sum(axis=0), number, out=mean, where=number > 0)
    return mean
