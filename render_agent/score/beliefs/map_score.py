"""The score of one belief against the boxes of its scene: objects, relations, pose, counts and how sure it is.

After the maps that Theory of Space (ICLR 2026) asks of agents turn by turn, and VSI-Bench's cognitive maps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from render_agent.dialogue.beliefs import Belief
from render_agent.scans.camera import Camera, wrapped
from render_agent.score.beliefs.matching import Boxes, FloatArray, Matching, match

MIN_HEIGHT_METRES = 0.2
"""A corner of a triangle is left or right of its base, or nearer than another, where it is so by so much."""

MOST_RELATED = 30
"""Objects that relations are counted between; they grow with the cube of it."""


@dataclass(frozen=True, slots=True)
class MapScore:
    """What one belief was worth.

    matching: its objects, None where it was not asked for a map or gave none. believed: how many objects of the named
    categories it has, true: how many there are. sides, nearer: relations between found objects that are right, and
    all that there are. sure: of every believed object how sure it was, 0 to 1, and whether it was found. metres,
    degrees: from its own pose to the true one. counts: of every named category the believed number less the true one.
    """

    matching: Matching | None
    believed: int = 0
    true: int = 0
    sides: tuple[int, int] = (0, 0)
    nearer: tuple[int, int] = (0, 0)
    sure: tuple[tuple[float, bool], ...] = ()
    metres: float | None = None
    degrees: float | None = None
    counts: Mapping[str, int] | None = None

    @property
    def found(self) -> int:
        """How many true objects were found."""
        return 0 if self.matching is None else len(self.matching.pairs)


def score_map(belief: Belief, boxes: Boxes, counts: Mapping[str, int], camera: Camera) -> MapScore:
    """Score one belief.

    boxes, counts: of every category that the question names, in the frame of the belief. camera: the true pose.
    """
    metres = degrees = None
    if belief.position is not None:
        metres = math.dist(belief.position, camera.position[:2])
    if belief.yaw is not None:
        degrees = abs(wrapped(belief.yaw - camera.yaw))
    off = None
    if belief.counts is not None:
        off = {name: belief.count(name) - number for name, number in counts.items()}
    if belief.objects is None:
        return MapScore(None, metres=metres, degrees=degrees, counts=off)
    matching = match(belief, boxes)
    believed = {name: belief.of(name) for name in boxes}
    pairs = matching.pairs[:MOST_RELATED]
    believed_places = np.array([believed[p.category][p.believed].position for p in pairs]).reshape(
        -1, 2
    )
    true = np.array([boxes[p.category][p.true].centre[:2] for p in pairs]).reshape(-1, 2)
    paired = {(pair.category, pair.believed) for pair in matching.pairs}
    sure = tuple(
        (thing.sure / 100, (name, index) in paired)
        for name, things in believed.items()
        for index, thing in enumerate(things)
        if thing.sure is not None
    )
    return MapScore(
        matching,
        sum(map(len, believed.values())),
        sum(map(len, boxes.values())),
        *relations(believed_places, true),
        sure,
        metres,
        degrees,
        off,
    )


def relations(believed: FloatArray, true: FloatArray) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the right relations between points and their number: left or right, then nearer.

    believed, true: the same points (n, 2) as they are believed and as they are. Of every three, one tells whether the
    third lies left or right of who looks from the first to the second, which is the sign of the triangle's area and
    the same for all its corners; and three tell which of two is nearer to the other one. What is nearly in line or
    equally far is left out.
    """
    sides, nearer = [0, 0], [0, 0]
    for corners in combinations(range(len(true)), 3):
        a, b = _area(true[list(corners)]), _area(believed[list(corners)])
        base = max(math.dist(true[i], true[j]) for i, j in combinations(corners, 2))
        if base and abs(a) / base >= MIN_HEIGHT_METRES:
            sides[0] += a * b > 0
            sides[1] += 1
        for third in corners:
            first, second = (corner for corner in corners if corner != third)
            truly = math.dist(true[first], true[third]) - math.dist(true[second], true[third])
            as_said = math.dist(believed[first], believed[third]) - math.dist(
                believed[second], believed[third]
            )
            if abs(truly) >= MIN_HEIGHT_METRES:
                nearer[0] += truly * as_said > 0
                nearer[1] += 1
    return (sides[0], sides[1]), (nearer[0], nearer[1])


def _area(corners: FloatArray) -> float:
    """Return twice the area of a triangle (3, 2), positive where its corners go counter-clockwise."""
    (ax, ay), (bx, by) = corners[1] - corners[0], corners[2] - corners[0]
    return float(ax * by - ay * bx)
