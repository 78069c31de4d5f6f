"""A tour that covers the room: places far apart, each with the heading that reveals the most new surface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.free_space.standing import farthest_point_sample
from render_agent.views.view_policies.view_policy import ScenePlanner, ViewContext, ViewPolicy
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES
from render_agent.visibility.visible_surface import (
    Frustums,
    Surroundings,
    look_around,
    patches,
)

HEADINGS_PER_PLACE = 12  # directions compared at each place

PITCHES_DEGREES = (0.0, -15.0)  # level, and tilted down to nearby objects

MIN_PLACES = 12  # smallest number of places compared


class TourViews(ViewPolicy):
    """A tour that covers the room."""

    name = "tour"
    description = "a tour of {count} that covers the room"
    shared = True

    def build(self, config: RunConfig, questions: Sequence[Question]) -> ScenePlanner:
        return ScenePlanner(tour, config.max_turns - 1)


def tour(context: ViewContext, count: int) -> list[Camera]:
    """Return the cameras of a tour of `count` views after the first one.

    Candidate places come from farthest-point sampling of the free space at eye height. The tour then greedily takes
    the place and heading that reveal the most unseen surface. Places are repeated only if there are too few.
    """
    if not count:
        return []
    start = context.start
    free = context.space.standing_places(EYE_HEIGHT_METRES)
    num_places = max(MIN_PLACES, 2 * count)
    positions = [start.position, *farthest_point_sample(free, start.position, num_places)]
    surroundings = [
        look_around(context.scene, context.renderer, position) for position in positions
    ]
    headings = [
        replace(start, yaw=360.0 * turn / HEADINGS_PER_PLACE - 180.0, pitch=pitch)
        for turn in range(HEADINGS_PER_PLACE)
        for pitch in PITCHES_DEGREES
    ]
    numbers, num_patches = patches(surroundings, context.scene.ceiling)
    visible = _visible_patches(
        surroundings, numbers, num_patches, Frustums.of(headings, context.size)
    )
    start_patches = _visible_patches(
        surroundings[:1], numbers, num_patches, Frustums.of([start], context.size)
    )[0]
    cameras = [
        replace(heading, position=place.position) for place in surroundings for heading in headings
    ]
    choices = _greedy(visible, start_patches, count, len(headings))
    return shortest_order(start, [cameras[number] for number in choices])


def _visible_patches(
    surroundings: Sequence[Surroundings],
    numbers: Sequence[NDArray[np.intp]],
    num_patches: int,
    frustums: Frustums,
) -> NDArray[np.bool_]:
    """Return which cameras show which patches, (places * headings, patches), grouped by place."""
    marks = np.zeros((len(surroundings), frustums.axes.shape[1], num_patches + 1), bool)
    for place, patch_numbers, row in zip(surroundings, numbers, marks, strict=False):
        unique, indices = np.unique(patch_numbers, return_index=True)
        row[:, unique] = frustums.hold(place.points[indices] - np.array(place.position))
    return marks[:, :, :num_patches].reshape(len(marks) * marks.shape[1], num_patches)


def shortest_order(start: Camera, cameras: list[Camera]) -> list[Camera]:
    """Order cameras along a short path from the start: nearest neighbour, then 2-opt."""
    points = np.array([start.position, *(camera.position for camera in cameras)])
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    order, remaining = [0], list(range(1, len(points)))
    while remaining:
        closest = min(remaining, key=lambda number: (distances[order[-1], number], number))
        remaining.remove(closest)
        order.append(closest)
    shorter = True
    while shorter:
        shorter = False
        for i in range(1, len(order) - 1):
            for j in range(i + 1, len(order)):
                candidate = order[:i] + order[i : j + 1][::-1] + order[j + 1 :]
                if _length(candidate, distances) < _length(order, distances) - 1e-9:
                    order, shorter = candidate, True
    return [cameras[number - 1] for number in order[1:]]


def _greedy(
    visible: NDArray[np.bool_],  # which camera shows which patch, (cameras, patches)
    seen_patches: NDArray[np.bool_],  # patches seen so far, (patches,). Updated in place.
    count: int,
    group_size: int,
) -> list[int]:
    """Choose cameras one by one, each showing the most unseen patches."""
    choices: list[int] = []
    remaining = np.ones(len(visible), bool)
    elsewhere = remaining.copy()
    for _ in range(count):
        if not remaining.any():  # more views requested than there are cameras
            remaining[:] = True
        if not (remaining & elsewhere).any():
            elsewhere[:] = True
        gains = np.where(
            remaining & elsewhere, np.count_nonzero(visible & ~seen_patches, axis=1), -1
        )
        choice = int(gains.argmax())
        choices.append(choice)
        seen_patches |= visible[choice]
        remaining[choice] = False
        elsewhere[choice // group_size * group_size : (choice // group_size + 1) * group_size] = (
            False
        )
    return choices


def _length(order: list[int], distances: FloatArray) -> float:
    return float(sum(distances[a, b] for a, b in pairwise(order)))
