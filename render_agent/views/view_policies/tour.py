"""A tour that covers the room: places far from one another, at each the heading that shows most anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.render.start_pose import EYE_HEIGHT_METRES
from render_agent.scans.camera import Camera, FloatArray, Vector
from render_agent.views.view_policies.view_policy import FurtherViews, ViewContext, ViewPolicy
from render_agent.views.view_policies.visible_surface import (
    Frustums,
    Surroundings,
    look_around,
    patches,
)

HEADINGS_PER_PLACE = 12
"""Directions that are compared at every place."""

PITCHES_DEGREES = (0.0, -15.0)
"""Degrees: level, and tilted down to what stands nearby."""

MIN_PLACES = 12
"""Places that are compared at least."""


class TourViews(ViewPolicy):
    """A tour that covers the room."""

    name = "tour"
    words = "a tour of {count} that covers the room"
    shared = True

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Tour:
        """Return what plans the tour."""
        return Tour(config.max_turns - 1)


@dataclass(frozen=True, eq=False)
class Tour:
    """The same views for all questions of a scene, computed once. count: views after the first ones."""

    count: int
    _known: dict[str, FurtherViews] = field(default_factory=dict)

    def further(self, question: Question, context: ViewContext) -> FurtherViews:
        """Return the views of the tour in a short order from the start."""
        if question.scene not in self._known:
            self._known[question.scene] = FurtherViews(tour(context, self.count))
        return self._known[question.scene]


def tour(context: ViewContext, count: int) -> list[Camera]:
    """Return the cameras of a tour of so many views, beside the first one.

    Places are chosen by farthest-point sampling of the free space at eye height; of them and of all
    headings, one after the other, the one that shows most surface not seen yet. No place is used
    twice while there are others.
    """
    if not count:
        return []
    start = context.start
    free = context.space.standing_places(EYE_HEIGHT_METRES)
    most = max(MIN_PLACES, 2 * count)
    positions = [start.position, *spread_out(free, start.position, most)]
    around = [look_around(context.scene, context.renderer, position) for position in positions]
    headings = [
        replace(start, yaw=360.0 * turn / HEADINGS_PER_PLACE - 180.0, pitch=pitch)
        for turn in range(HEADINGS_PER_PLACE)
        for pitch in PITCHES_DEGREES
    ]
    numbers, known = patches(around, context.scene.ceiling)
    shown = _marked(around, numbers, known, Frustums.of(headings, context.size))
    first = _marked(around[:1], numbers, known, Frustums.of([start], context.size))[0]
    cameras = [replace(heading, position=each.position) for each in around for heading in headings]
    chosen = _greedy(shown, first, count, len(headings))
    return in_short_order(start, [cameras[number] for number in chosen])


def _marked(
    around: Sequence[Surroundings],
    numbers: Sequence[NDArray[np.intp]],
    known: int,
    frustums: Frustums,
) -> NDArray[np.bool_]:
    """Return which camera, a place's frustums after another's, shows which of the known patches."""
    marks = np.zeros((len(around), frustums.axes.shape[1], known + 1), bool)
    for each, here, marked in zip(around, numbers, marks, strict=False):
        unique, first = np.unique(here, return_index=True)
        marked[:, unique] = frustums.hold(each.points[first] - np.array(each.position))
    return marks[:, :, :known].reshape(len(marks) * marks.shape[1], known)


def spread_out(places: FloatArray, first: Vector, most: int) -> list[Vector]:
    """Return at most `most` of the places, (n, 3) metres, far from one another.

    By farthest-point sampling from `first`, metres, which is not among them.
    """
    away = np.linalg.norm(places - np.array(first), axis=1)
    positions: list[Vector] = []
    while len(positions) < min(most, len(places)):
        farthest = int(away.argmax())
        if away[farthest] <= 0:
            break
        x, y, z = (float(value) for value in places[farthest])
        positions.append((x, y, z))
        away = np.minimum(away, np.linalg.norm(places - places[farthest], axis=1))
    return positions


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
    chosen: list[int] = []
    left = np.ones(len(shown), bool)
    elsewhere = left.copy()
    for _ in range(count):
        if not left.any():  # more views than there are
            left[:] = True
        if not (left & elsewhere).any():
            elsewhere[:] = True
        gains = np.where(left & elsewhere, np.count_nonzero(shown & ~seen, axis=1), -1)
        best = int(gains.argmax())
        chosen.append(best)
        seen |= shown[best]
        left[best] = False
        elsewhere[best // each * each : (best // each + 1) * each] = False
    return chosen


def _length(order: list[int], apart: FloatArray) -> float:
    return float(sum(apart[a, b] for a, b in pairwise(order)))
