"""A tour that covers the room: places far from one another, at each the heading that shows most anew."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from render_agent.camera import Camera, FloatArray, Vector
from render_agent.render.start import EYE_HEIGHT
from render_agent.state import Question
from render_agent.view_policies.seam import Further, Place
from render_agent.view_policies.surface import look_around

HEADINGS = 16
"""Directions that are compared at every place."""

PITCHES = (0.0, -15.0)
"""Degrees: level, and tilted down to what stands nearby."""

FEWEST_PLACES = 12
"""Places that are compared at least."""


@dataclass(frozen=True, eq=False)
class Tour:
    """The same views for all questions of a scene, computed once. count: views after the first ones."""

    count: int
    _known: dict[str, Further] = field(default_factory=dict)

    def further(self, question: Question, place: Place) -> Further:
        """Return the views of the tour in a short order from the start."""
        if question.scene not in self._known:
            self._known[question.scene] = Further(tour(place, self.count))
        return self._known[question.scene]


def tour(place: Place, count: int) -> list[Camera]:
    """Return the cameras of a tour of so many views, beside the first one.

    Places are chosen by farthest-point sampling of the free space at eye height; of them and of all
    headings, one after the other, the one that shows most surface not seen yet. No place is used
    twice while there are others.
    """
    if not count:
        return []
    start = place.start
    free = place.space.standing_places(EYE_HEIGHT)
    most = max(FEWEST_PLACES, 2 * count)
    chosen = spread_out(free, np.array(start.position), most)
    positions = [start.position, *(_vector(free[index]) for index in chosen)]
    cameras = [
        replace(start, position=position, yaw=360.0 * turn / HEADINGS - 180.0, pitch=pitch)
        for position in positions
        for turn in range(HEADINGS)
        for pitch in PITCHES
    ]
    around, patches = look_around(place.scene, place.renderer, positions)
    each = HEADINGS * len(PITCHES)
    shown = np.zeros((len(cameras), patches), bool)
    for number, camera in enumerate(cameras):
        shown[number, around[number // each].shown(camera, place.size)] = True
    seen = np.zeros(patches, bool)
    seen[around[0].shown(start, place.size)] = True
    found = [cameras[number] for number in _greedy(shown, seen, count, each)]
    return in_short_order(start, found)


def spread_out(places: FloatArray, first: FloatArray, most: int) -> list[int]:
    """Return the numbers of at most `most` of the places, (n, 3) metres, far from one another.

    By farthest-point sampling from `first`, (3,) metres, which is not among them.
    """
    away = np.linalg.norm(places - first, axis=1)
    found: list[int] = []
    while len(found) < min(most, len(places)):
        farthest = int(away.argmax())
        if away[farthest] <= 0:
            break
        found.append(farthest)
        away = np.minimum(away, np.linalg.norm(places - places[farthest], axis=1))
    return found


def in_short_order(start: Camera, cameras: list[Camera]) -> list[Camera]:
    """Return the cameras in an order in which the way from the start past all of them is short.

    The nearest next, then ways between are turned round as long as that makes it shorter (2-opt).
    """
    points = np.array([start.position, *(camera.position for camera in cameras)])
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    order, left = [0], list(range(1, len(points)))
    while left:
        nearest = min(left, key=lambda number: (apart[order[-1], number], number))
        left.remove(nearest)
        order.append(nearest)
    shorter = True
    while shorter:
        shorter = False
        for i in range(1, len(order) - 1):
            for j in range(i + 1, len(order)):
                turned = order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
                if _length(turned, apart) < _length(order, apart) - 1e-9:
                    order, shorter = turned, True
    return [cameras[number - 1] for number in order[1:]]


def _greedy(shown: NDArray[np.bool_], seen: NDArray[np.bool_], count: int, each: int) -> list[int]:
    """Return which of the cameras, (cameras, patches) bool, to take, one after the other.

    seen: (patches,) bool, is changed. each: cameras of one place, which follow one another.
    """
    found: list[int] = []
    unused = np.ones(len(shown), bool)
    for _ in range(count):
        if not unused.any():
            unused[:] = True
        gains = np.where(unused, (shown & ~seen).sum(axis=1), -1)
        best = int(gains.argmax())
        found.append(best)
        seen |= shown[best]
        unused[best // each * each : (best // each + 1) * each] = False
    return found


def _length(order: list[int], apart: FloatArray) -> float:
    return float(sum(apart[a, b] for a, b in pairwise(order)))


def _vector(point: FloatArray) -> Vector:
    x, y, z = (float(value) for value in point)
    return x, y, z
