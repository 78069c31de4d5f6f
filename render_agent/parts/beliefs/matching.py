"""Matches believed objects with true ones: as many pairs as possible within a radius, then the smallest total distance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.scans.boxes import OrientedBox

RADIUS_METRES = 1.0  # maximum distance on the floor plan between the centres of matched objects

FloatArray = NDArray[np.float64]
Boxes = Mapping[str, Sequence[OrientedBox]]


@dataclass(frozen=True, slots=True)
class ObjectMatch:
    """A believed object matched with a true one."""

    category: str
    believed: int
    """Index among the believed objects of the category."""
    true: int
    """Index among the true objects of the category."""
    metres: float
    """Distance on the floor plan."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Believed and true objects of several categories, grouped by outcome."""

    pairs: tuple[ObjectMatch, ...]
    doubled: tuple[BelievedObject, ...]
    """Duplicates: unmatched believed objects within the radius of a true object."""
    invented: tuple[BelievedObject, ...]
    """Believed objects with no true object within the radius."""
    missing: tuple[tuple[str, int], ...]
    """Unmatched true objects, as category and index."""

    @property
    def found(self) -> frozenset[tuple[str, int]]:
        """Matched true objects, as category and index."""
        return frozenset((pair.category, pair.true) for pair in self.pairs)


def match(belief: Belief, boxes: Boxes, radius: float = RADIUS_METRES) -> Matching:
    """Match the believed objects of several categories with their boxes. Other categories are ignored."""
    pairs: list[ObjectMatch] = []
    duplicates: list[BelievedObject] = []
    inventions: list[BelievedObject] = []
    omissions: list[tuple[str, int]] = []
    for category, true_boxes in boxes.items():
        candidates = belief.of(category)
        distances_metres = plan_distances(candidates, true_boxes)
        rows, columns = assign_pairs(distances_metres, radius)
        pairs += (
            ObjectMatch(category, int(row), int(column), float(distances_metres[row, column]))
            for row, column in zip(rows, columns, strict=True)
        )
        for row in sorted({*range(len(candidates))} - {*rows}):
            is_near = len(true_boxes) and distances_metres[row].min() <= radius
            (duplicates if is_near else inventions).append(candidates[row])
        omissions += (
            (category, column) for column in range(len(true_boxes)) if column not in columns
        )
    return Matching(tuple(pairs), tuple(duplicates), tuple(inventions), tuple(omissions))


def match_results(
    belief: Belief, matching: Matching
) -> Iterator[tuple[BelievedObject, str, ObjectMatch | None]]:
    """Yield each believed object with its outcome (`found`, `doubled` or `invented`) and its match, if any."""
    for pair in matching.pairs:
        yield belief.of(pair.category)[pair.believed], "found", pair
    yield from ((believed_object, "doubled", None) for believed_object in matching.doubled)
    yield from ((believed_object, "invented", None) for believed_object in matching.invented)


def plan_distances(believed: Sequence[BelievedObject], boxes: Sequence[OrientedBox]) -> FloatArray:
    """Return floor-plan distances in metres between believed objects and box centres, (n, m)."""
    places = np.array([believed_object.position for believed_object in believed], float).reshape(
        -1, 2
    )
    middles = np.array([box.centre[:2] for box in boxes], float).reshape(-1, 2)
    distances: FloatArray = np.linalg.norm(places[:, None] - middles[None], axis=-1)
    return distances


def assign_pairs(
    distances_metres: FloatArray, radius: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return row and column indices of matched pairs at most `radius` apart.

    Uses the Hungarian method (Kuhn 1955). A pair beyond the radius costs more than all other pairs together.
    """
    from scipy.optimize import linear_sum_assignment

    too_far = radius * (min(distances_metres.shape) + 1) + 1
    rows, columns = linear_sum_assignment(
        np.where(distances_metres <= radius, distances_metres, too_far)
    )
    in_range = distances_metres[rows, columns] <= radius
    return rows[in_range], columns[in_range]
