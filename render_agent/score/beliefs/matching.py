"""Believed objects matched with true ones: the assignment of most pairs within a radius, then of least distance.

Of a room that changed in the midst of a dialogue: whether a map that was right followed it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.scans.boxes import OrientedBox

RADIUS_METRES = 1.0
"""A believed object stands for a true one whose middle is at most so far from it on the floor plan."""

FloatArray = NDArray[np.float64]
Boxes = Mapping[str, Sequence[OrientedBox]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A believed object and the true one that it stands for, both by their index in their category; metres apart."""

    category: str
    believed: int
    true: int
    metres: float


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of the objects of some categories.

    pairs: the found ones. doubled: believed objects that stand, within the radius, for a true one that another
    stands for. invented: those that stand for none. missing: true ones that none stands for.
    """

    pairs: tuple[Pair, ...]
    doubled: tuple[BelievedObject, ...]
    invented: tuple[BelievedObject, ...]
    missing: tuple[tuple[str, int], ...]

    @property
    def found(self) -> frozenset[tuple[str, int]]:
        """The true objects that were found, by category and index."""
        return frozenset((pair.category, pair.true) for pair in self.pairs)


def match(belief: Belief, boxes: Boxes, radius: float = RADIUS_METRES) -> Matching:
    """Match a belief's map with the boxes of some categories; other categories are left out."""
    pairs: list[Pair] = []
    doubled: list[BelievedObject] = []
    invented: list[BelievedObject] = []
    missing: list[tuple[str, int]] = []
    for category, some in boxes.items():
        believed = belief.of(category)
        apart = distances(believed, some)
        rows, columns = assigned(apart, radius)
        pairs += (
            Pair(category, int(row), int(column), float(apart[row, column]))
            for row, column in zip(rows, columns, strict=True)
        )
        for row in sorted({*range(len(believed))} - {*rows}):
            near = len(some) and apart[row].min() <= radius
            (doubled if near else invented).append(believed[row])
        missing += ((category, column) for column in range(len(some)) if column not in columns)
    return Matching(tuple(pairs), tuple(doubled), tuple(invented), tuple(missing))


def fates(belief: Belief, matching: Matching) -> Iterator[tuple[BelievedObject, str, Pair | None]]:
    """Give every believed object with what became of it: `found` with its pair, `doubled` or `invented`."""
    for pair in matching.pairs:
        yield belief.of(pair.category)[pair.believed], "found", pair
    yield from ((thing, "doubled", None) for thing in matching.doubled)
    yield from ((thing, "invented", None) for thing in matching.invented)


def distances(believed: Sequence[BelievedObject], boxes: Sequence[OrientedBox]) -> FloatArray:
    """Return the metres on the floor plan between believed objects and the middles of boxes, (n, m)."""
    places = np.array([thing.position for thing in believed], float).reshape(-1, 2)
    middles = np.array([box.centre[:2] for box in boxes], float).reshape(-1, 2)
    apart: FloatArray = np.linalg.norm(places[:, None] - middles[None], axis=-1)
    return apart


def assigned(apart: FloatArray, radius: float) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the pairs at most `radius` apart: the most pairs, of those the least metres.

    By the Hungarian method (Kuhn 1955): a pair that is too far apart costs more than all that are not.
    """
    from scipy.optimize import linear_sum_assignment

    too_far = radius * (min(apart.shape) + 1) + 1
    rows, columns = linear_sum_assignment(np.where(apart <= radius, apart, too_far))
    kept = apart[rows, columns] <= radius
    return rows[kept], columns[kept]
