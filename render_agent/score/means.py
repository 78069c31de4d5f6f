"""Named means of scores, as fractions between 0 and 1.

Every mean is a function of sums and counts by type, so the same code computes a score and its leave-one-scene-out
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.tasks.question_types import ORDER, sort_types, task_of

MACRO, WITHOUT_ORDER, MICRO, MEAN_OF_TYPES = "macro", "without_order", "micro", "mean_of_types"

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """The score of one answer, with the question's type, data set, scene and `pruned` flag."""

    type: str
    dataset: str
    scene: str
    score: float
    pruned: bool | None = None


@dataclass(frozen=True, eq=False)
class Tally:
    """Sums of scores and numbers of questions by scene and type."""

    types: tuple[str, ...]
    """The T types that occur, known types first."""
    sums: FloatArray
    """Sums of scores, (scenes, T)."""
    counts: FloatArray
    """Numbers of questions, (scenes, T)."""

    @property
    def means(self) -> dict[str, float]:
        """All named means, tasks and types."""
        means = named_means(self.types, self.sums.sum(axis=0), self.counts.sum(axis=0))
        return {name: float(value) for name, value in means.items()}


def tally_scores(scores: Iterable[AnswerScore]) -> Tally:
    """Sum scores by scene and type. Scenes are identified by data set and name."""
    scores = list(scores)
    present = {entry.type for entry in scores}
    types = tuple(sort_types(present))
    scenes = sorted({(entry.dataset, entry.scene) for entry in scores})
    columns = {name: index for index, name in enumerate(types)}
    rows = {scene: index for index, scene in enumerate(scenes)}
    sums, counts = np.zeros((2, len(scenes), len(types)))
    for entry in scores:
        index = rows[entry.dataset, entry.scene], columns[entry.type]
        sums[index] += entry.score
        counts[index] += 1
    return Tally(types, sums, counts)


def named_means(
    types: Sequence[str],
    sums: FloatArray,  # sums of scores, (…, types)
    counts: FloatArray,  # numbers of questions, (…, types)
) -> dict[str, FloatArray]:
    """Return all named means, then all tasks and types.

    `macro` is the official overall score: the mean over tasks, after averaging types that form one task (e.g. the three kinds of relative direction). `without_order` omits the appearance order. `micro` is the mean over
    questions, `mean_of_types` the mean over types.
    """
    by_type = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    scores = {name: by_type[..., index] for index, name in enumerate(types)}
    tasks = {name: score for name, score in scores.items() if task_of(name) == name}
    total, count = sums.sum(axis=-1), counts.sum(axis=-1)
    missing_value = np.full(np.shape(total), np.nan)
    parts: dict[str, list[FloatArray]] = {}
    for name, score in scores.items():
        if task_of(name) != name:
            parts.setdefault(task_of(name), []).append(score)
    tasks |= {task: _mean(of_task, missing_value) for task, of_task in parts.items()}
    means = {
        MACRO: _mean(list(tasks.values()), missing_value),
        WITHOUT_ORDER: _mean(
            [score for name, score in tasks.items() if name != ORDER], missing_value
        ),
        MICRO: np.divide(total, count, out=missing_value.copy(), where=count > 0),
        MEAN_OF_TYPES: _mean(list(scores.values()), missing_value),
    }
    return {**means, **tasks, **scores}


def _mean(scores: Sequence[FloatArray], missing_value: FloatArray) -> FloatArray:
    """Return the mean of arrays of the same shape, ignoring NaN; `missing_value`, an array of NaN, if there are no
    arrays.
    """
    if not scores:
        return missing_value
    if len(scores) == 1:
        return scores[0]
    stack = np.stack(scores)
    is_known = ~np.isnan(stack)
    number, mean = is_known.sum(axis=0), missing_value.copy()
    np.divide(np.where(is_known, stack, 0).sum(axis=0), number, out=mean, where=number > 0)
    return mean
