"""Exact contact of boxes and points with the faces of a mesh: finds faces that reach into a box or are below a point."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array, OrientedBox

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

BoolArray = NDArray[np.bool_]

LARGE_METRES = 0.2  # faces with a larger bounding radius are not indexed but tested every time
# Tolerance of barycentric coordinates, so that no line passes between two adjacent faces.
ROUNDING = 1e-6


class MeshContact:
    """The faces of a mesh, each owned by an object or by none."""

    def __init__(
        self,
        corners: Array,  # corners of the faces, (n, 3, 3) metres
        owners: NDArray[np.intp],  # number of the object that owns each face, (n,)
    ) -> None:
        self._corners = corners
        self._owners = owners
        low, high = corners.min(1), corners.max(1)
        self._centres = (low + high) / 2
        self._low, self._high = np.ascontiguousarray(low.T), np.ascontiguousarray(high.T)
        is_large = np.linalg.norm(high - low, axis=1) > 2 * LARGE_METRES
        self._small, self._large = np.flatnonzero(~is_large), np.flatnonzero(is_large)

    def owners_inside(self, box: OrientedBox) -> set[int]:
        """Return the owners of the faces that reach into a box."""
        near = self._near(*box.bounds)
        return set(self._owners[near[reach_into(self._corners[near], box)]].tolist())

    def owners_at(self, points: Array, tolerance: float) -> list[set[int]]:
        """Return the owners of the faces at most `tolerance` metres above or below each point, (k, 3)."""
        near = self._near(points.min(0) - tolerance, points.max(0) + tolerance)
        heights = heights_at(points[:, :2], self._corners[near])
        is_level = np.abs(heights - points[:, 2:]) <= tolerance
        return [set(self._owners[near[row]].tolist()) for row in is_level]

    def _near(self, low: Array, high: Array) -> NDArray[np.intp]:
        """Return the indices of the faces whose bounding boxes touch the one from `low` to `high`."""
        radius = float(np.linalg.norm(high - low)) / 2 + LARGE_METRES
        candidates = self._small[self._tree.query_ball_point((low + high) / 2, radius)]
        near = np.concatenate([candidates, self._large])
        for axis in (2, 0, 1):
            touches = (self._low[axis][near] <= high[axis]) & (self._high[axis][near] >= low[axis])
            near = near[touches]
        return near

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree

        return cKDTree(self._centres[self._small])


def reach_into(corners: Array, box: OrientedBox) -> BoolArray:
    """Return which triangles, (n, 3, 3), intersect the inside of a box, (n,) bool.

    Uses the separating axis theorem over 13 axes (Akenine-Möller 2001).
    """
    half = box.size / 2
    local = box.local(corners.reshape(-1, 3)).reshape(-1, 3, 3)
    inside: BoolArray = ((local.min(1) < half) & (local.max(1) > -half)).all(1)
    local = local[inside]
    edges = np.roll(local, -1, axis=1) - local
    normals = np.cross(edges[:, 0], edges[:, 1])[:, None]
    axes = np.concatenate(
        [normals, np.cross(edges[:, :, None], np.eye(3)).reshape(-1, 9, 3)], axis=1
    )
    projections = local @ axes.transpose(0, 2, 1)
    reach = np.abs(axes) @ half
    is_separated = (projections.min(1) >= reach) | (projections.max(1) <= -reach)
    inside[inside] = ~(is_separated & (reach > 0)).any(1)  # an axis of length 0 separates nothing
    return inside


def heights_at(points: Array, corners: Array) -> Array:
    """Return the heights, (k, n) metres, of triangles, (n, 3, 3), at points, (k, 2); nan beside them."""
    flat, heights = corners[:, :, :2], corners[:, :, 2]
    first, second = flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    double_area = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    double_area = np.where(double_area == 0, np.nan, double_area)
    offset = points[:, None] - flat[:, 0]
    u = (offset[..., 0] * second[:, 1] - offset[..., 1] * second[:, 0]) / double_area
    v = (first[:, 0] * offset[..., 1] - first[:, 1] * offset[..., 0]) / double_area
    results = (
        heights[:, 0] + u * (heights[:, 1] - heights[:, 0]) + v * (heights[:, 2] - heights[:, 0])
    )
    is_hit = (u >= -ROUNDING) & (v >= -ROUNDING) & (u + v <= 1 + ROUNDING)
    return np.where(is_hit, results, np.nan)
