"""Scores one belief against the object boxes of the scene: objects, relations, pose, counts and confidence.

Modelled on the per-turn maps of Theory of Space (ICLR 2026) and the cognitive maps of VSI-Bench.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from render_agent.dialogue.beliefs import Belief
from render_agent.parts.beliefs.matching import Boxes, FloatArray, Matching, match
from render_agent.scans.camera import Camera, wrap_degrees

MIN_HEIGHT_METRES = 0.2  # relations closer to a tie than this are not scored

MAX_RELATED_OBJECTS = (
    30  # objects considered for relations; the number of relations grows with its cube
)


@dataclass(frozen=True, slots=True)
class MapScore:
    """The scores of one belief."""

    matching: Matching | None
    """Matched objects; None if the belief has no map."""
    believed: int = 0
    """Number of believed objects in the named categories."""
    true: int = 0
    """Number of true objects in the named categories."""
    sides: tuple[int, int] = (0, 0)
    """Correct and total left-or-right relations between the objects found."""
    nearer: tuple[int, int] = (0, 0)
    """Correct and total nearer-of-two relations between the objects found."""
    sure: tuple[tuple[float, bool], ...] = ()
    """For each believed object: confidence, 0 to 1, and whether the object was found."""
    metres: float | None = None
    """Distance between the believed and the true camera position."""
    degrees: float | None = None
    """Absolute difference between the believed and the true heading."""
    counts: Mapping[str, int] | None = None
    """Believed minus true count by category."""

    @property
    def found(self) -> int:
        """Number of true objects that were found."""
        return 0 if self.matching is None else len(self.matching.pairs)


def score_map(
    belief: Belief,
    boxes: Boxes,  # True boxes of each category that the question names, in the frame of the belief
    counts: Mapping[str, int],
    camera: Camera,
) -> MapScore:
    """Score one belief."""
    metres = degrees = None
    if belief.position is not None:
        metres = math.dist(belief.position, camera.position[:2])
    if belief.yaw is not None:
        degrees = abs(wrap_degrees(belief.yaw - camera.yaw))
    count_errors = None
    if belief.counts is not None:
        count_errors = {name: belief.count(name) - number for name, number in counts.items()}
    if belief.objects is None:
        return MapScore(None, metres=metres, degrees=degrees, counts=count_errors)
    matching = match(belief, boxes)
    believed = {name: belief.of(name) for name in boxes}
    pairs = matching.pairs[:MAX_RELATED_OBJECTS]
    believed_places = np.array([believed[p.category][p.believed].position for p in pairs]).reshape(
        -1, 2
    )
    true = np.array([boxes[p.category][p.true].centre[:2] for p in pairs]).reshape(-1, 2)
    matches = {(pair.category, pair.believed) for pair in matching.pairs}
    sure = tuple(
        (believed_object.sure / 100, (name, index) in matches)
        for name, objects in believed.items()
        for index, believed_object in enumerate(objects)
        if believed_object.sure is not None
    )
    return MapScore(
        matching,
        sum(map(len, believed.values())),
        sum(map(len, boxes.values())),
        *relations(believed_places, true),
        sure,
        metres,
        degrees,
        count_errors,
    )


def relations(
    believed: FloatArray,  # believed positions, (n, 2), in metres
    true: FloatArray,  # True positions of the same objects, (n, 2), in metres
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count correct and total relations between points: first left or right, then nearer.

    For any three points, the sign of the triangle's area determines whether the third is to the left or right when
    looking from the first to the second. Each corner also defines a relation: which of the other two is nearer to it.
    Nearly collinear or equidistant points are skipped.
    """
    sides, nearer = [0, 0], [0, 0]
    for corners in combinations(range(len(true)), 3):
        a, b = _area(true[list(corners)]), _area(believed[list(corners)])
        base = max(math.dist(true[i], true[j]) for i, j in combinations(corners, 2))
        if base and abs(a) / base >= MIN_HEIGHT_METRES:
            sides[0] += a * b > 0
            sides[1] += 1
        for apex in corners:
            start, target = (corner for corner in corners if corner != apex)
            true_gap = math.dist(true[start], true[apex]) - math.dist(true[target], true[apex])
            believed_gap = math.dist(believed[start], believed[apex]) - math.dist(
                believed[target], believed[apex]
            )
            if abs(true_gap) >= MIN_HEIGHT_METRES:
                nearer[0] += true_gap * believed_gap > 0
                nearer[1] += 1
    return (sides[0], sides[1]), (nearer[0], nearer[1])


def _area(corners: FloatArray) -> float:
    """Return twice the signed area of a triangle (3, 2); positive if its corners are counter-clockwise."""
    (ax, ay), (bx, by) = corners[1] - corners[0], corners[2] - corners[0]
    return float(ax * by - ay * bx)
