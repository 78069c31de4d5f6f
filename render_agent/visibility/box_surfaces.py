"""Assigns the pieces of a scene's surface to object boxes, depending on the viewpoint.

A piece of surface (a face with all its corners, or a point) belongs to a box that contains it, with a tolerance of
MARGIN_METRES. Surfaces that the object touches do not belong to it: the floor below it, the wall behind it, the table
it stands on. Such a surface continues outside the box. It is visible through the box only from the inner side of the
box face along which it runs, whereas the object's own surface there is visible from the outer side. For each side of
the box, the code therefore searches for surface along it (within SHELL_METRES of the side, up to RING_METRES outside
the box). Pieces in the box at the same height then count only for cameras beyond that side. If the orientation of a
mesh's faces is known, faces that point into the box never count.

If several boxes contain a piece, it belongs to the smallest: books are not part of their shelf, and a chair is not part
of the table it is pushed under. It also belongs to boxes up to SIMILAR_VOLUME_RATIO times as large, such as a bed and
the blanket on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import valid_faces
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import FloatArray, Vector
from render_agent.scans.scene import Scene

# Surface may extend beyond its box by this much, because scans are warped and boxes are tight.
MARGIN_METRES = 0.01
CLOUD_MARGIN_METRES = 0.05  # a place this close to a point of a cloud is on the cloud's surface
# Surface this close to a side, on the inside, may belong to something that the object touches.
SHELL_METRES = 0.02
THIN_SHARE = 1 / 3  # maximum shell as a share of the box's thickness, for flat objects such as rugs
RING_METRES = 0.1  # distance around a box in which touching surfaces are searched
MIN_RING_SHARE = 0.05  # share of that ring that must be surface along the side
ROUGHNESS_METRES = 0.004  # height tolerance between surface in the box and in the ring
PARALLEL_COSINE = 0.7  # a face is parallel to a side if the cosine of their normals exceeds this
SIMILAR_VOLUME_RATIO = 2.0  # boxes whose volumes differ by less share the surface inside both

# Bits: lower sides of axes 0, 1, 2, then upper sides.
SIDES = np.array([1, 2, 4, 8, 16, 32], np.int16)
NEVER_BIT = 64  # the piece counts for no camera
BIT_COMBINATIONS = 128

# Orientation is inferred from level faces at the floor: at most FLOOR_METRES above it, and less than UNDERSIDE_METRES
# below it, where the underside of a slab begins. If SURE_SHARE of their area faces the same way, all faces of the mesh
# are assumed to be oriented consistently.
FLOOR_METRES, UNDERSIDE_METRES, SURE_SHARE = 0.1, 0.03, 0.8

ROUNDING_METRES = 1e-4  # float32 rounding tolerance


class BoxSurfaces:
    """Surface pieces assigned to boxes.

    Pieces in the same boxes and along the same sides form a group. Group 0 is in no box.
    """

    def __init__(
        self,
        boxes: Sequence[OrientedBox],
        groups: NDArray[np.int32],  # (p + 1,) group of each piece; the last entry, index -1, is 0
        # (groups, boxes) bits of the sides along which the group's pieces run; -1 if not in the box
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
    def assign(
        cls,
        corners: NDArray[np.floating[Any]],  # corners of each piece, (p, c, 3) metres
        normals: FloatArray | None,  # unit normals, (p, 3), or None for points
        boxes: Sequence[OrientedBox],
        *,
        is_oriented: bool = False,
    ) -> BoxSurfaces:
        """Assign pieces of surface to boxes."""
        groups = np.zeros(len(corners) + 1, np.int32)
        sides = np.full((1, len(boxes)), -1, np.int16)
        coordinates = np.ascontiguousarray(corners.transpose(1, 2, 0))
        low, high = coordinates.min(axis=0), coordinates.max(axis=0)
        for number, box in enumerate(boxes):
            lowest, highest = box.grown(RING_METRES).bounds[:, :, None]
            near = np.flatnonzero(((low <= highest) & (high >= lowest)).all(axis=0))
            near_normals = None if normals is None else normals[near]
            neighbourhood = _BoxNeighbourhood(
                corners[near], near_normals, box, is_oriented=is_oriented
            )
            inside, bits = near[neighbourhood.inside], neighbourhood.touched_sides()
            # The pieces in the box leave their groups, and form a new one for each former group and set of sides.
            keys, indices = np.unique(
                groups[inside].astype(np.int64) * BIT_COMBINATIONS + bits[neighbourhood.inside],
                return_inverse=True,
            )
            groups[inside] = len(sides) + indices
            former, sides_in_box = np.divmod(keys, BIT_COMBINATIONS)
            new_sides = sides[former]
            new_sides[:, number] = sides_in_box
            sides = np.concatenate([sides, new_sides])
        return cls(boxes, groups, sides)

    @classmethod
    def of(cls, scene: Scene, boxes: Sequence[OrientedBox]) -> BoxSurfaces:
        """Assign the faces of a mesh, or the points of a cloud, to boxes."""
        if scene.faces is None:
            return cls.assign(scene.points[:, None], None, boxes)
        corners = scene.points[valid_faces(scene)]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-20)[:, None]
        facing = _face_orientation(scene, corners, normals)
        return cls.assign(
            corners, facing * normals if facing else normals, boxes, is_oriented=bool(facing)
        )

    def seen_from(self, position: Vector) -> NDArray[np.bool_]:
        """Return which groups count for which boxes, (groups, boxes) bool, seen from a position in metres."""
        local = self._local(position)
        is_beyond = np.concatenate([local < -self._half, local > self._half], axis=1)
        hidden_bits = (NEVER_BIT | (~is_beyond * SIDES).sum(axis=1)).astype(np.int16)
        counts: NDArray[np.bool_] = (self._sides >= 0) & ((self._sides & hidden_bits) == 0)
        if not counts.shape[1]:
            return counts
        volumes = np.where(counts, self._volumes, np.inf)
        counts &= volumes <= SIMILAR_VOLUME_RATIO * volumes.min(axis=1, keepdims=True)
        return counts

    def owners(self, pieces: NDArray[np.integer[Any]], position: Vector) -> NDArray[np.intp]:
        """Return the number of the smallest box that each piece, (p,), counts for, seen from a position; -1 if none."""
        counts = self.seen_from(position)[self.groups[pieces]]
        if not counts.shape[1]:
            return np.full(len(pieces), -1)
        smallest = np.where(counts, self._volumes, np.inf).argmin(axis=1)
        return np.where(counts.any(axis=1), smallest, -1)

    def distances(self, position: Vector) -> FloatArray:
        """Return the distance from a position to the closest point of each box, (boxes,) metres."""
        gaps = np.maximum(np.abs(self._local(position)) - self._half, 0)
        distances: FloatArray = np.sqrt((gaps**2).sum(axis=1))
        return distances

    def _local(self, position: Vector) -> FloatArray:
        """Return a position in the frame of each box, (boxes, 3) metres."""
        offsets = np.array(position) - self._centres
        return np.asarray((self._axes @ offsets[:, :, None])[:, :, 0])

    def pieces(self, groups: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the indices of the pieces in the selected groups, (groups,) bool."""
        return np.flatnonzero(groups[self.groups[:-1]])


def nearest_piece(scene: Scene, point: FloatArray) -> int | None:
    """Return the index of the face (mesh) or point (cloud) closest to `point`, (3,) metres; None if there is no surface
    at the point.
    """
    from trimesh.triangles import closest_point

    reach = MARGIN_METRES if scene.faces is not None else CLOUD_MARGIN_METRES
    pieces = scene.points[:, None] if scene.faces is None else scene.points[valid_faces(scene)]
    near = (pieces.min(axis=1) <= point + reach) & (pieces.max(axis=1) >= point - reach)
    candidates = np.flatnonzero(near.all(axis=1))
    if not len(candidates):
        return None
    corners = pieces[candidates].astype(np.float64)
    targets = np.broadcast_to(point, (len(corners), 3))
    closest = corners[:, 0] if scene.faces is None else closest_point(corners, targets)
    distances = np.linalg.norm(closest - point, axis=1)
    index = int(distances.argmin())
    return int(candidates[index]) if distances[index] <= reach else None


class _BoxNeighbourhood:
    """The pieces in and around one box, in its frame; arrays are (3, pieces), because reducing columns is slow."""

    def __init__(
        self,
        corners: NDArray[np.floating[Any]],
        normals: FloatArray | None,
        box: OrientedBox,
        *,
        is_oriented: bool,
    ) -> None:
        local = (corners.reshape(-1, 3) - box.centre) @ box.axes.T
        coordinates = np.ascontiguousarray(local.reshape(corners.shape).transpose(1, 2, 0))
        self.half = box.size / 2
        self.low, self.high = coordinates.min(axis=0), coordinates.max(axis=0)
        limits = (self.half + MARGIN_METRES + ROUNDING_METRES)[:, None]
        self.inside: NDArray[np.bool_] = ((self.low >= -limits) & (self.high <= limits)).all(axis=0)
        self.shell = np.minimum(SHELL_METRES, THIN_SHARE * box.size)
        self.flat = np.ones((3, len(corners)), bool)
        self.normals = None
        if normals is not None:
            local_normals = (normals @ box.axes.T).T
            self.flat = np.abs(local_normals) > PARALLEL_COSINE
            self.normals = local_normals if is_oriented else None

    def touched_sides(self) -> NDArray[np.int16]:
        """Return, for each piece, the bits of the sides along which it belongs to something that the box touches."""
        bits = np.zeros(len(self.inside), np.int16)
        for axis in range(3):
            for upper in (False, True):
                low, high = self._heights(axis, upper)
                candidates = np.flatnonzero(
                    self.flat[axis]
                    & (low >= -self.shell[axis])
                    & (high <= MARGIN_METRES + ROUNDING_METRES)
                )
                low, high = low[candidates], high[candidates]
                level_axes = [level_axis for level_axis in range(3) if level_axis != axis]
                heights = self._ring_heights(candidates, (low + high) / 2, level_axes)
                if heights is not None:
                    level = (low >= heights[0] - ROUGHNESS_METRES) & (
                        high <= heights[1] + ROUGHNESS_METRES
                    )
                    bits[candidates[level]] |= SIDES[axis + 3 * upper]
                    if self.normals is not None:
                        normals = self.normals[axis, candidates]
                        points_inwards = normals < 0 if upper else normals > 0
                        bits[candidates[level & points_inwards]] |= NEVER_BIT
        return bits

    def _heights(self, axis: int, upper: bool) -> tuple[FloatArray, FloatArray]:
        """Return the minimum and maximum height of each piece above one side, outwards, in metres."""
        if upper:
            return self.low[axis] - self.half[axis], self.high[axis] - self.half[axis]
        return -self.high[axis] - self.half[axis], -self.low[axis] - self.half[axis]

    def _ring_heights(
        self,
        pieces: NDArray[np.intp],  # indices of the pieces along the side, (k,)
        height: FloatArray,  # heights of their middles, (k,) metres
        level_axes: list[int],
    ) -> tuple[float, float] | None:
        """Return the height range of surface that continues outside the box along a side; None if there is none."""
        low, high = self.low[level_axes][:, pieces], self.high[level_axes][:, pieces]
        half = self.half[level_axes][:, None]
        near = ((low <= half + RING_METRES) & (high >= -half - RING_METRES)).all(axis=0)
        outside = near & ((low < -half - 1e-3) | (high > half + 1e-3)).any(axis=0)
        if not outside.any():
            return None
        low, high, height = low[:, outside], high[:, outside], height[outside]
        overlap = np.minimum(high, half + RING_METRES) - np.maximum(low, -half - RING_METRES)
        weights = np.maximum(overlap, 1e-3).prod(axis=0)
        ring = float((2 * half + 2 * RING_METRES).prod() - (2 * half).prod())
        if weights.sum() < MIN_RING_SHARE * ring:
            return None
        order = np.argsort(height, kind="stable")
        share = np.cumsum(weights[order]) / weights.sum()
        ends = np.searchsorted(share, (0.1, 0.9))
        first, last = height[order][ends]
        return float(first), float(last)


def _face_orientation(scene: Scene, corners: NDArray[np.floating[Any]], normals: FloatArray) -> int:
    """Return 1 if the faces of a mesh point out of objects, -1 if they point inwards, 0 if unknown."""
    heights = corners[:, :, 2] - scene.floor
    floor = ((heights > -UNDERSIDE_METRES) & (heights < FLOOR_METRES)).all(axis=1)
    floor &= np.abs(normals[:, 2]) > PARALLEL_COSINE
    edges = corners[floor, 1:] - corners[floor, :1]
    areas = np.linalg.norm(np.cross(edges[:, 0], edges[:, 1]), axis=1)
    up = float(areas[normals[floor, 2] > 0].sum() / areas.sum()) if areas.sum() else 0.5
    return 1 if up >= SURE_SHARE else -1 if up <= 1 - SURE_SHARE else 0
