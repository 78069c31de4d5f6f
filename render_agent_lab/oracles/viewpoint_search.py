"""Finds viewpoints from which the boxes of a scene are clearly visible, once for all its questions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.free_space.standing import farthest_point_sample
from render_agent.views.view_policies.view_policy import ViewContext
from render_agent.visibility.object_visibility import pixel_angles
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES
from render_agent.visibility.visible_surface import Frustums, Surroundings, look_around

MAX_PLACES = 32  # positions across the free space from which every box is evaluated

MAX_NEARBY_PLACES = 4  # additional positions around an object that is small from all of those

# Share of the image; objects smaller than this everywhere get additional nearby positions.
SMALL_SHARE = 0.02

RING_METRES = (0.7, 1.5)  # horizontal distance of those nearby positions from the box

LARGE_SHARE = 0.05  # share of the image beyond which a view of an object does not improve

CLOSE_METRES = 0.8  # nearer than this, an object shows little of its surroundings

PLACES_PER_BOX = 5  # candidate positions per object

MARGIN_METRES = 0.02  # surface may protrude from its box by this much

FOOT_METRES = 0.02  # surface this far above a box's bottom may belong to what the object stands on

FLAT_METRES = 0.1  # boxes lower than this have no foot

HIDDEN_VALUE = 1e-3  # value of a view of a box that is visible from nowhere

MIN_POINTS = 4  # minimum number of surface points for a visibility estimate


@dataclass(frozen=True, slots=True)
class TargetBox:
    """A box to look at. `key` identifies the box within the scene; `weight` is its importance."""

    key: Hashable
    box: OrientedBox
    weight: float


@dataclass(frozen=True, eq=False)
class _VisiblePart:
    """The visible surface points of a box from one position."""

    offsets: FloatArray
    """Points relative to the position, (n, 3) metres."""
    angles: FloatArray
    """Solid angles of the points, (n,) steradians."""
    areas: FloatArray
    """Areas perpendicular to the line of sight, (n,) square metres."""
    nearest: float
    """Distance in metres to the nearest point, inf if there is none."""

    @classmethod
    def of(cls, surroundings: Surroundings, indices: NDArray[np.intp]) -> _VisiblePart:
        """Select points seen from a position."""
        offsets, angles = (
            surroundings.points[indices] - np.array(surroundings.position),
            surroundings.angles[indices],
        )
        squared_distances = (offsets**2).sum(axis=1)
        nearest = math.sqrt(squared_distances.min(initial=math.inf))
        return cls(offsets, angles, angles * squared_distances, nearest)

    @property
    def area(self) -> float:
        """Visible area in square metres; 0 if there are too few points."""
        return float(self.areas.sum()) if len(self.areas) >= MIN_POINTS else 0.0


class ViewpointSearch:
    """Samples the surroundings of positions across one scene, and how well each box is visible from them.

    Call it from the thread that owns the renderer.
    """

    def __init__(self, context: ViewContext) -> None:
        self.context = context
        self.frame = float(
            pixel_angles(*context.size, context.start.vertical_fov).sum()
        )  # steradians per image
        self._free = context.space.standing_places(EYE_HEIGHT_METRES)
        sampled_positions = farthest_point_sample(
            self._free, context.start.position, MAX_PLACES - 1
        )
        self._surroundings = [
            look_around(context.scene, context.renderer, position)
            for position in (context.start.position, *sampled_positions)
        ]
        self._points = np.asfortranarray(
            np.concatenate([place.points for place in self._surroundings])
        )
        self._ends = np.cumsum([len(place.points) for place in self._surroundings])
        self._visible_parts: dict[tuple[Hashable, int], _VisiblePart] = {}
        self._aims: dict[Hashable, dict[int, Camera]] = {}
        self._largest: dict[Hashable, float] = {}

    def candidates(self, targets: Sequence[TargetBox]) -> tuple[list[Camera], FloatArray]:
        """Return cameras that each look at one of the boxes, and how well each camera shows each box.

        Values, (cameras, boxes), are 1 if everything that can be visible is visible, large enough and from far enough
        away. A box that is visible from nowhere gets HIDDEN_VALUE at its expected location.
        """
        for target in targets:
            if target.key not in self._aims:
                self._find(target)
        aims = [(target, *aim) for target in targets for aim in self._aims[target.key].items()]
        cameras = [camera for _, _, camera in aims]
        values = np.zeros((len(aims), len(targets)))
        rows: dict[int, list[int]] = {}
        for row, (_, place, _) in enumerate(aims):
            rows.setdefault(place, []).append(row)
        for place, rows_at_place in rows.items():
            values[rows_at_place] = self._values(
                targets, place, [cameras[row] for row in rows_at_place]
            )
        for column, target in enumerate(targets):
            if not values[:, column].any():
                values[[aim[0] is target for aim in aims], column] = HIDDEN_VALUE
        return cameras, values

    def _find(self, target: TargetBox) -> None:
        """Find the best positions to see a box from, and aim cameras at it from there."""
        self._find_visible_parts(target)
        places = list(range(len(self._ends)))
        sizes = [self._visible_parts[target.key, place].angles.sum() for place in places]
        if max(sizes, default=0.0) < SMALL_SHARE * self.frame:
            places += self._sample_nearby(target)
        areas = {place: self._visible_part(target, place).area for place in places}
        self._largest[target.key] = max(areas.values(), default=0.0)
        cameras_by_place = {place: self._aim_at(target, place) for place in places}
        values = {
            place: float(self._values([target], place, [camera])[0, 0])
            for place, camera in cameras_by_place.items()
            if areas[place]
        }
        best_places = sorted(values, key=lambda place: (-values[place], place))[:PLACES_PER_BOX]
        if not best_places:
            best_places = sorted(
                places, key=lambda place: (self._viewing_distance(target, place), place)
            )[:1]
        self._aims[target.key] = {place: cameras_by_place[place] for place in best_places}

    def _values(
        self, targets: Sequence[TargetBox], place: int, cameras: Sequence[Camera]
    ) -> FloatArray:
        """Return the visibility of each box from cameras at one of the places, (cameras, boxes), 0 to 1."""
        parts = [self._visible_part(target, place) for target in targets]
        in_frustum = Frustums.of(cameras, self.context.size).hold(_concatenate(parts, "offsets"))
        owners = np.repeat(np.arange(len(targets)), [len(part.angles) for part in parts])
        angles, areas = _concatenate(parts, "angles"), _concatenate(parts, "areas")
        largest_angles = np.array([self._largest[target.key] or math.inf for target in targets])
        distance_factors = (
            np.minimum(1.0, np.array([part.nearest for part in parts]) / CLOSE_METRES) ** 2
        )
        values = np.zeros((len(cameras), len(targets)))
        for row, mask in enumerate(in_frustum):
            box_indices, count = owners[mask], len(targets)
            is_enough = np.bincount(box_indices, minlength=count) >= MIN_POINTS
            share = np.minimum(1.0, np.bincount(box_indices, areas[mask], count) / largest_angles)
            size = np.bincount(box_indices, angles[mask], count) / self.frame / LARGE_SHARE
            values[row] = is_enough * share * np.sqrt(np.minimum(1.0, size)) * distance_factors
        return values

    def _aim_at(self, target: TargetBox, place: int) -> Camera:
        """Return a camera at one of the positions, aimed at the visible part of a box or at its centre."""
        part, position = self._visible_part(target, place), self._surroundings[place].position
        aim_point: FloatArray = target.box.centre
        if part.area:
            distances = np.linalg.norm(part.offsets, axis=1)
            towards = ((part.angles / distances)[:, None] * part.offsets).sum(axis=0)
            aim_point = towards / np.linalg.norm(towards) + np.array(position)
        return replace(self.context.start, position=position, pitch=0.0).looking_at(aim_point)

    def _sample_nearby(self, target: TargetBox) -> list[int]:
        """Sample positions around a box; return their indices."""
        low, high = target.box.bounds[:, :2]
        gaps = np.maximum(np.maximum(low - self._free[:, :2], self._free[:, :2] - high), 0.0)
        distances = np.linalg.norm(gaps, axis=1)
        ring = self._free[(distances >= RING_METRES[0]) & (distances <= RING_METRES[1])]
        x, y, z = (float(value) for value in target.box.centre)
        numbers = []
        for position in farthest_point_sample(ring, (x, y, z), MAX_NEARBY_PLACES):
            camera = replace(self.context.start, position=position).looking_at((x, y, z))
            self._surroundings.append(
                look_around(
                    self.context.scene, self.context.renderer, position, [camera.yaw], camera.pitch
                )
            )
            numbers.append(len(self._surroundings) - 1)
        return numbers

    def _visible_part(self, target: TargetBox, place: int) -> _VisiblePart:
        """Return the visible part of a box from one of the positions."""
        visible = self._visible_parts.get((target.key, place))
        if visible is None:
            surroundings = self._surroundings[place]
            visible = _VisiblePart.of(surroundings, _belongs(target.box, surroundings.points))
            self._visible_parts[target.key, place] = visible
        return visible

    def _find_visible_parts(self, target: TargetBox) -> None:
        """Fill `_visible_parts` for all initial positions at once, which is faster."""
        point_indices = _belongs(target.box, self._points)
        starts = np.searchsorted(point_indices, [0, *self._ends])
        begin = 0
        for place, end in enumerate(self._ends):
            surroundings = self._surroundings[place]
            indices = point_indices[starts[place] : starts[place + 1]] - begin
            self._visible_parts[target.key, place] = _VisiblePart.of(surroundings, indices)
            begin = int(end)

    def _viewing_distance(self, target: TargetBox, place: int) -> float:
        """Return the distance in metres of one of the positions from a box; inf if it is too close."""
        distance = float(
            np.linalg.norm(target.box.centre - np.array(self._surroundings[place].position))
        )
        return distance if distance >= CLOSE_METRES else math.inf


def _belongs(box: OrientedBox, points: FloatArray) -> NDArray[np.intp]:
    """Return the indices of the points, (n, 3) metres, in a box but not at its foot."""
    low, high = box.grown(MARGIN_METRES).bounds
    if high[2] - low[2] > FLAT_METRES:
        low[2] += MARGIN_METRES + FOOT_METRES
    indices = _in_range(points[:, 0], low[0], high[0])
    for axis in (1, 2):  # one axis at a time, because few points remain after the first
        indices = indices[_in_range(points[indices, axis], low[axis], high[axis])]
    is_inside = (np.abs(box.local(points[indices])) <= box.size / 2 + MARGIN_METRES).all(axis=1)
    inside: NDArray[np.intp] = indices[is_inside]
    return inside


def _concatenate(parts: Sequence[_VisiblePart], name: str) -> FloatArray:
    result: FloatArray = np.concatenate([getattr(part, name) for part in parts])
    return result


def _in_range(values: FloatArray, low: float, high: float) -> NDArray[np.intp]:
    return np.flatnonzero((values >= low) & (values <= high))
