"""Triangulate polygons: convex ones as fans, concave ones by ear clipping, many at a time.

G. H. Meisters, "Polygons have ears" (1975). No library is used, because ours is faster on many small polygons.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CORNERS_PER_CHUNK = 1 << 20  # corners triangulated at a time, to bound memory
# Corners that turn inwards by an angle with a smaller sine do not make a polygon concave.
MIN_TURN_SINE = 1e-5
# Comparisons of an ear with a corner per chunk, some ten seconds; beyond, corners are cut off in order.
MAX_COMPARISONS = 1_000_000_000

Floats = NDArray[np.float64]
Corners = NDArray[np.intp]


def triangulate(
    faces: NDArray[Any],  # (n, k) valid indices into `points`, k > 2
    points: NDArray[Any],  # (p, 3)
) -> tuple[NDArray[Any], Corners, Corners]:
    """Return the triangles of faces, (m, 3) indices, their corner numbers, (m, 3), and the rows of their faces, (m,)."""
    count, num_corners = faces.shape
    if num_corners == 3:
        return faces, np.broadcast_to(np.arange(3), faces.shape), np.arange(count)
    fan = np.array([(0, corner, corner + 1) for corner in range(1, num_corners - 1)])
    local = np.tile(fan, (count, 1, 1))
    step = max(1, CORNERS_PER_CHUNK // num_corners)
    for first in range(0, count, step):
        chunk = slice(first, first + step)
        if len(candidates := _not_convex(faces[chunk], points)):
            flat, is_concave = _flatten(points[faces[chunk][candidates]].astype(np.float64))
            if is_concave.any():
                local[chunk][candidates[is_concave]] = _clip_ears(flat[is_concave])
    rows = np.arange(count).repeat(num_corners - 2)
    corners = local.reshape(-1, 3)
    return faces[rows[:, None], corners], corners, rows


def _not_convex(faces: NDArray[Any], points: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices of polygons, (n, k), with a corner that may turn inwards, in float32."""
    with np.errstate(invalid="ignore", over="ignore"):
        corners = points[faces.T]
        x, y, z = np.ascontiguousarray((corners - corners[:1]).transpose(2, 0, 1), np.float32)
        u, v, w = (np.roll(each, -1, axis=0) - each for each in (x, y, z))
        normal = [
            (a[:-1] * b[1:] - b[:-1] * a[1:]).sum(axis=0) for a, b in ((y, z), (z, x), (x, y))
        ]
        turn = np.zeros_like(u)
        for a, b, direction in ((v, w, normal[0]), (w, u, normal[1]), (u, v, normal[2])):
            turn += (a * np.roll(b, -1, axis=0) - b * np.roll(a, -1, axis=0)) * direction
        return np.flatnonzero((turn < 0).any(axis=0))


def _flatten(corners: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Project polygons, (n, k, 3), along their normals to (n, k, 2), counter-clockwise; return which are concave."""
    with np.errstate(invalid="ignore", over="ignore"):
        local = corners - corners[:, :1]
        normals = np.cross(local, np.roll(local, -1, axis=1)).sum(axis=1)  # twice the area
        axis = np.abs(np.nan_to_num(normals)).argmax(axis=1)
        rows = np.arange(len(corners))
        u, v = (local[rows, :, (axis + turn) % 3] for turn in (1, 2))
        u = u * np.where(normals[rows, axis] < 0, -1.0, 1.0)[:, None]
        flat = np.stack([u, v], axis=2)
        previous, following = np.roll(flat, 1, axis=1), np.roll(flat, -1, axis=1)
        lengths = np.linalg.norm(flat - previous, axis=2)
        scale = lengths * np.roll(lengths, -1, axis=1)
        turns = _cross(previous, flat, following)
        is_concave = (turns < -MIN_TURN_SINE * scale).any(axis=1)
    return flat, is_concave


def _cross(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return twice the signed area of triangles, positive if counter-clockwise."""
    ab, ac = b - a, c - a
    area: Floats = ab[..., 0] * ac[..., 1] - ab[..., 1] * ac[..., 0]
    return area


def _clip_ears(flat: Floats) -> Corners:
    """Triangulate counter-clockwise polygons, (n, k, 2); return corner numbers, (n, k - 2, 3).

    Every polygon tries one corner per step: an ear turns left and contains no other corner.
    """
    count, num_corners = flat.shape[:2]
    following = np.tile((np.arange(num_corners) + 1) % num_corners, (count, 1))
    before = np.tile((np.arange(num_corners) - 1) % num_corners, (count, 1))
    is_left = np.ones((count, num_corners), bool)
    num_left = np.full(count, num_corners)
    at, tries = np.zeros(count, np.intp), np.zeros(count, np.intp)
    result = np.empty((count, num_corners - 2, 3), np.intp)
    active = np.arange(count)
    comparisons = 0
    while len(active):
        b = at[active]
        a, c = before[active, b], following[active, b]
        places = [flat[active, corner] for corner in (a, b, c)]
        is_ear = tries[active] >= num_left[active]  # a degenerate polygon has none
        is_ear |= comparisons > MAX_COMPARISONS
        open_ = np.flatnonzero(~is_ear)
        comparisons += len(open_) * num_corners
        if len(open_):
            is_ear[open_] = _are_ears(
                [place[open_] for place in places], flat[active[open_]], is_left[active[open_]]
            )
        ears, (first, middle, last) = active[is_ear], (corner[is_ear] for corner in (a, b, c))
        result[ears, num_corners - num_left[ears]] = np.stack([first, middle, last], axis=1)
        following[ears, first], before[ears, last] = last, first
        is_left[ears, middle] = False
        num_left[ears] -= 1
        tries[active] += 1
        tries[ears] = 0
        at[active] = c
        active = active[num_left[active] > 2]
    return result


def _are_ears(
    triangle: list[Floats], flat: Floats, is_left: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which triangles, three (n, 2) corners, turn left and contain no other remaining corner."""
    a, b, c = (corner[:, None] for corner in triangle)
    turn = _cross(a, b, c)[:, 0]
    inside = is_left.copy()
    for first, second in ((a, b), (b, c), (c, a)):
        inside &= _cross(first, second, flat) >= 0
    for corner in (a, b, c):
        inside &= (flat != corner).any(axis=2)
    # A straight corner is cut off without a loss of area.
    result: NDArray[np.bool_] = (turn == 0) | ((turn > 0) & ~inside.any(axis=1))
    return result
