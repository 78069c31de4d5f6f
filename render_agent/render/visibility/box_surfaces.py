"""Which part of a scene's surface belongs to which box, as seen from a place.

A piece of surface (a face with all its corners, or a point) belongs to a box that holds it, grown by
MARGIN_METRES. What the object touches does not: the floor under it, the wall behind it, the table that it
stands on. Such a surface goes on beside the box, and it is seen through the box, from within the
plane of the side along which it lies; what the object itself has there is seen from beyond that plane.
So around each side it is looked for surface along it (within SHELL_METRES, up to RING_METRES beside the box), and
pieces of the box at the same height count for a camera beyond that side alone; where a mesh tells
which way its faces look, those that look into the box count for none. Of boxes that hold the
same piece the smallest gets it, as books are not the shelf that they stand in and a chair is not the
table that it is pushed under; boxes less than SIMILAR_VOLUME_RATIO times as large get it too, as a bed and the
blanket all over it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import sound_faces
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import FloatArray, Vector
from render_agent.scans.scene import Scene

MARGIN_METRES = 0.01
"""Metres that a surface may lie outside of its box, as scans are bent and boxes are tight."""

SHELL_METRES = 0.02
"""Metres inside of a side in which a surface along it may still be what the object touches."""

THIN_SHARE = 1 / 3
"""Of a box's thickness at the most: the front of a picture or of a rug lies in no back side's shell."""

RING_METRES = 0.1
"""Metres beside a box in which it is looked for what it touches."""

MIN_RING_SHARE = 0.05
"""Of that ring at least so much has to be surface along the side."""

ROUGHNESS_METRES = 0.004
"""Metres that a surface may be off where the object touches it, from what it is beside the box."""

PARALLEL_COSINE = 0.7
"""A face lies along a side where the cosine of the angle between their normals is larger."""

SIMILAR_VOLUME_RATIO = 2.0
"""Boxes whose volumes differ by less than this factor share what lies in both."""

SIDES = np.array([1, 2, 4, 8, 16, 32], np.int16)
"""A bit for each side of a box: along its axes 0, 1, 2 the lower, then the upper ones."""

NEVER_BIT = 64
"""The bit of what counts for no camera."""

BIT_COMBINATIONS = 128
"""Combinations of bits."""

FLOOR_METRES, SURE_SHARE = 0.1, 0.8
"""Metres from the floor's height in which a level face is floor; the part of it that has to look up (or
all has to look down) for the faces of a mesh to be known to look one way."""


ROUNDING_METRES = 1e-4
"""Metres that float32 may be off."""


class BoxSurfaces:
    """The pieces of surface that belong to each of some boxes.

    groups: (p + 1,) int32, the group of each piece; the last, which index -1 reads, is that of no piece. Pieces that
    lie in the same boxes, along the same sides, form a group; group 0 lies in none. sides: (groups, boxes) int16, the
    bits of these sides, -1 where the group does not lie in the box.
    """

    def __init__(
        self,
        boxes: Sequence[OrientedBox],
        groups: NDArray[np.int32],
        sides: NDArray[np.int16],
    ) -> None:
        self.boxes = list(boxes)
        self.groups = groups
        self._sides = sides
        centres, sizes, axes = (
            [getattr(box, part) for box in boxes] for part in ("centre", "size", "axes")
        )
        self._centres = np.array(centres).reshape(-1, 3)
        self._half = np.array(sizes).reshape(-1, 3) / 2
        self._axes = np.array(axes).reshape(-1, 3, 3)
        self._volumes = 8 * self._half.prod(axis=1)

    @classmethod
    def holding(
        cls,
        corners: NDArray[np.floating[Any]],
        normals: FloatArray | None,
        boxes: Sequence[OrientedBox],
        *,
        oriented: bool = False,
    ) -> BoxSurfaces:
        """Return which of some pieces of surface lie in which boxes.

        corners: (p, c, 3) metres, the corners of each piece. normals: (p, 3) unit, None where pieces have
        none; oriented: whether they are known to look out of the things.
        """
        groups = np.zeros(len(corners) + 1, np.int32)
        rows: list[tuple[tuple[int, int], ...]] = [()]
        along = np.ascontiguousarray(corners.transpose(1, 2, 0))
        low, high = along.min(axis=0), along.max(axis=0)
        for number, box in enumerate(boxes):
            ends = box.grown(RING_METRES).bounds
            near = np.flatnonzero((low[0] <= ends[1, 0]) & (high[0] >= ends[0, 0]))
            for axis in (1, 2):
                there = (low[axis].take(near) <= ends[1, axis]) & (
                    high[axis].take(near) >= ends[0, axis]
                )
                near = near[there]
            near_normals = None if normals is None else normals[near]
            neighbourhood = _BoxNeighbourhood(corners[near], near_normals, box, oriented=oriented)
            inside = near[neighbourhood.inside]
            pairs = (
                groups[inside].astype(np.int64) * BIT_COMBINATIONS
                + neighbourhood.touched_sides()[neighbourhood.inside]
            )
            kinds, which = np.unique(pairs, return_inverse=True)
            groups[inside] = len(rows) + which
            rows += [
                (*rows[int(kind) // BIT_COMBINATIONS], (number, int(kind) % BIT_COMBINATIONS))
                for kind in kinds
            ]
        sides = np.full((len(rows), len(boxes)), -1, np.int16)
        for group, row in enumerate(rows):
            for number, bits in row:
                sides[group, number] = bits
        return cls(boxes, groups, sides)

    @classmethod
    def of(cls, scene: Scene, boxes: Sequence[OrientedBox]) -> BoxSurfaces:
        """Return which faces, or points of a cloud, of `scene` lie in which boxes.

        RenderError where a face names a vertex that the scene does not have.
        """
        if scene.faces is None:
            return cls.holding(scene.points[:, None], None, boxes)
        corners = scene.points[sound_faces(scene)]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-20)[:, None]
        facing = _facing(scene, corners, normals)
        return cls.holding(
            corners, facing * normals if facing else normals, boxes, oriented=bool(facing)
        )

    def seen_from(self, position: Vector) -> NDArray[np.bool_]:
        """Return which group counts for which box, (groups, boxes), from a place in metres."""
        local = self._local(position)
        beyond = np.concatenate([local < -self._half, local > self._half], axis=1)
        hidden = (NEVER_BIT | (~beyond * SIDES).sum(axis=1)).astype(np.int16)
        counts: NDArray[np.bool_] = (self._sides >= 0) & ((self._sides & hidden) == 0)
        if not counts.shape[1]:
            return counts
        volumes = np.where(counts, self._volumes, np.inf)
        counts &= volumes <= SIMILAR_VOLUME_RATIO * volumes.min(axis=1, keepdims=True)
        return counts

    def distances(self, position: Vector) -> FloatArray:
        """Return how far a place is from the closest point of each box, (boxes,) metres."""
        beyond = np.maximum(np.abs(self._local(position)) - self._half, 0)
        distances: FloatArray = np.sqrt((beyond**2).sum(axis=1))
        return distances

    def _local(self, position: Vector) -> FloatArray:
        """Return a place along the axes of each box, from its centre, (boxes, 3) metres."""
        offsets = np.array(position) - self._centres
        return np.asarray((self._axes @ offsets[:, :, None])[:, :, 0])

    def pieces(self, groups: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the indices of the pieces in the marked groups, (groups,) bool."""
        return np.flatnonzero(groups[self.groups[:-1]])


class _BoxNeighbourhood:
    """The pieces in and around one box, along its axes: low, high and normals are (3, pieces), as columns are slow to reduce."""

    def __init__(
        self,
        corners: NDArray[np.floating[Any]],
        normals: FloatArray | None,
        box: OrientedBox,
        *,
        oriented: bool,
    ) -> None:
        local = (corners.reshape(-1, 3) - box.centre) @ box.axes.T
        along = np.ascontiguousarray(local.reshape(corners.shape).transpose(1, 2, 0))
        self.half = box.size / 2
        self.low, self.high = along.min(axis=0), along.max(axis=0)
        within = (self.half + MARGIN_METRES + ROUNDING_METRES)[:, None]
        self.inside: NDArray[np.bool_] = ((self.low >= -within) & (self.high <= within)).all(axis=0)
        self.shell = np.minimum(SHELL_METRES, THIN_SHARE * box.size)
        self.flat = np.ones((3, len(corners)), bool)
        self.normals = None
        if normals is not None:
            local_normals = (normals @ box.axes.T).T
            self.flat = np.abs(local_normals) > PARALLEL_COSINE
            self.normals = local_normals if oriented else None

    def touched_sides(self) -> NDArray[np.int16]:
        """Return for each piece the bits of the sides where it lies along what the box touches."""
        bits = np.zeros(len(self.inside), np.int16)
        for axis in range(3):
            for upper in (False, True):
                low, high = self._heights(axis, upper)
                along = np.flatnonzero(
                    self.flat[axis]
                    & (low >= -self.shell[axis])
                    & (high <= MARGIN_METRES + ROUNDING_METRES)
                )
                low, high = low[along], high[along]
                others = [other for other in range(3) if other != axis]
                heights = self._beside(along, (low + high) / 2, others)
                if heights is not None:
                    level = (low >= heights[0] - ROUGHNESS_METRES) & (
                        high <= heights[1] + ROUGHNESS_METRES
                    )
                    bits[along[level]] |= SIDES[axis + 3 * upper]
                    if self.normals is not None:
                        normals = self.normals[axis, along]
                        inwards = normals < 0 if upper else normals > 0
                        bits[along[level & inwards]] |= NEVER_BIT
        return bits

    def _heights(self, axis: int, upper: bool) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest height of each piece above one side, outwards, metres."""
        if upper:
            return self.low[axis] - self.half[axis], self.high[axis] - self.half[axis]
        return -self.high[axis] - self.half[axis], -self.low[axis] - self.half[axis]

    def _beside(
        self, along: NDArray[np.intp], height: FloatArray, others: list[int]
    ) -> tuple[float, float] | None:
        """Return between which heights the surface along a side goes on beside it, None where none does.

        along: (k,) which pieces lie along it. height: (k,) of their middles. others: the two axes of the side.
        """
        low, high = self.low[others][:, along], self.high[others][:, along]
        half = self.half[others][:, None]
        near = ((low <= half + RING_METRES) & (high >= -half - RING_METRES)).all(axis=0)
        beyond = near & ((low < -half - 1e-3) | (high > half + 1e-3)).any(axis=0)
        if not beyond.any():
            return None
        low, high, height = low[:, beyond], high[:, beyond], height[beyond]
        cut = np.minimum(high, half + RING_METRES) - np.maximum(low, -half - RING_METRES)
        weights = np.maximum(cut, 1e-3).prod(axis=0)
        ring = float((2 * half + 2 * RING_METRES).prod() - (2 * half).prod())
        if weights.sum() < MIN_RING_SHARE * ring:
            return None
        order = np.argsort(height, kind="stable")
        share = np.cumsum(weights[order]) / weights.sum()
        ends = np.searchsorted(share, (0.1, 0.9))
        first, last = height[order][ends]
        return float(first), float(last)


def _facing(scene: Scene, corners: NDArray[np.floating[Any]], normals: FloatArray) -> int:
    """Return 1 where the faces of a mesh look out of the things, -1 where into them, 0 where unknown."""
    floor = (np.abs(corners[:, :, 2] - scene.floor) < FLOOR_METRES).all(axis=1)
    floor &= np.abs(normals[:, 2]) > PARALLEL_COSINE
    edges = corners[floor, 1:] - corners[floor, :1]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    up = float(areas[normals[floor, 2] > 0].sum() / areas.sum()) if areas.sum() else 0.5
    return 1 if up >= SURE_SHARE else -1 if up <= 1 - SURE_SHARE else 0
