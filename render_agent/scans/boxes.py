"""Oriented boxes: corners, overlap test, and exact distance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# the twelve edges of a box, as pairs of corner indices
EDGES = np.array(
    [(a, b) for a in range(8) for b in range(8) if b > a and bin(a ^ b).count("1") == 1]
)

_SIGNS = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)]) - 0.5


@dataclass(frozen=True, eq=False)
class OrientedBox:
    """A box in any position and orientation."""

    centre: Array  # (3,) metres, world frame
    size: Array  # extent along each axis, (3,) metres
    axes: Array  # (3, 3) unit vectors, one per row

    @property
    def corners(self) -> Array:
        """Corners, (8, 3) metres; bits 2, 1, 0 of the index choose the end of axes 0, 1, 2."""
        corners: Array = self.centre + (_SIGNS * self.size) @ self.axes
        return corners

    @property
    def bounds(self) -> Array:
        """Axis-parallel bounding box, (2, 3) metres."""
        corners = self.corners
        return np.stack([corners.min(0), corners.max(0)])

    def local(self, points: Array) -> Array:
        """Return world points, (n, 3) metres, in the frame of the box: its centre and axes."""
        local: Array = (points - self.centre) @ self.axes.T
        return local

    def grown(self, margin: float) -> OrientedBox:
        """Return the box with every face moved outwards by `margin` metres."""
        return OrientedBox(self.centre, self.size + 2 * margin, self.axes)


def upright_box(
    low: Array, high: Array, degrees: float = 0.0, at: Array | None = None
) -> OrientedBox:
    """Return the box between two corners, (3,) metres, rotated about z at the origin, then moved by `at`."""
    low, high = np.asarray(low, float), np.asarray(high, float)
    turn = rotation(degrees)
    centre = turn @ ((low + high) / 2) + (0.0 if at is None else at)
    return OrientedBox(centre, high - low, turn.T)


def boxes_overlap(first: OrientedBox, second: OrientedBox, slack: float = 1e-9) -> bool:
    """Return True if two boxes overlap by more than `slack` metres in every direction.

    Uses the separating axis theorem over 15 axes (Gottschalk et al. 1996).
    """
    offset = second.centre - first.centre
    if (
        offset @ offset
        > (math.sqrt(first.size @ first.size) + math.sqrt(second.size @ second.size)) ** 2 / 4
    ):
        return False
    cross_axes = np.cross(first.axes[:, None], second.axes[None]).reshape(9, 3)
    length = np.linalg.norm(cross_axes, axis=1)
    cross_axes = cross_axes[length > 1e-6] / length[length > 1e-6, None]
    directions = np.concatenate([first.axes, second.axes, cross_axes])
    reach = (
        np.abs(directions @ first.axes.T) @ first.size
        + np.abs(directions @ second.axes.T) @ second.size
    )
    gap = np.abs(directions @ offset) - reach / 2
    return bool((gap < -slack).all())


def distance(first: OrientedBox, second: OrientedBox) -> float:
    """Return the distance in metres between the closest points of two boxes; 0 if they overlap.

    The closest points of two convex polyhedra are on a corner and a face or on two edges, so the
    minimum over all such pairs is exact.
    """
    if boxes_overlap(first, second):
        return 0.0
    between_edges = _segments(first.corners[EDGES], second.corners[EDGES])
    return float(
        min(between_edges, _outside(first, second.corners), _outside(second, first.corners))
    )


def _outside(box: OrientedBox, points: Array) -> float:
    gaps = np.maximum(np.abs(box.local(points)) - box.size / 2, 0)
    return float(np.linalg.norm(gaps, axis=1).min())


def _segments(first: Array, second: Array) -> float:
    """Return the smallest distance between segments, (n, 2, 3) and (m, 2, 3) (Ericson 2004, 5.1.9)."""
    p, d1 = first[:, None, 0], (first[:, 1] - first[:, 0])[:, None]
    q, d2 = second[None, :, 0], (second[:, 1] - second[:, 0])[None]
    r = p - q
    a, e = (d1 * d1).sum(-1), (d2 * d2).sum(-1)
    b, c, f = (d1 * d2).sum(-1), (d1 * r).sum(-1), (d2 * r).sum(-1)
    crossing = a * e - b * b
    parallel = crossing < 1e-12 * a * e
    s = np.clip(np.divide(b * f - c * e, crossing, where=~parallel, out=np.zeros_like(b)), 0, 1)
    t = np.clip((b * s + f) / e, 0, 1)
    s = np.clip((b * t - c) / a, 0, 1)
    return float(np.linalg.norm(r + s[..., None] * d1 - t[..., None] * d2, axis=-1).min())


def rotation(degrees: float) -> Array:
    """Return the (3, 3) matrix that rotates column vectors about z; exact for multiples of 90 degrees."""
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    if degrees % 90 == 0:
        sine, cosine = float(round(sine)), float(round(cosine))
    return np.array([[cosine, -sine, 0.0], [sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def level_size(box: OrientedBox) -> tuple[tuple[float, float, float], float]:
    """Return the size of a box along its two level axes and its upright axis, in metres, and the yaw of the first
    axis.

    The upright axis is the one nearest to z. Yaw is between 0 and 180 degrees, because an axis has no front.
    """
    upright = int(np.abs(box.axes[:, 2]).argmax())
    long_axis, other_axis = (axis for axis in range(3) if axis != upright)
    yaw = math.degrees(math.atan2(box.axes[long_axis, 1], box.axes[long_axis, 0])) % 180
    size = box.size
    return (float(size[long_axis]), float(size[other_axis]), float(size[upright])), round(yaw) % 180
