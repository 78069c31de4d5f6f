"""Compiled kernels that count pixels and points for visibility. Import this module lazily, because numba is slow to
load.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel
from render_agent.render.rasteriser.zbuffer import cover


@inlined_kernel
def _project_point(point: Any, pose: Any, focal: Any, reach: Any, width: Any, height: Any) -> Any:
    """Return the pixel (u, v) and depth of a point, (3,); the depth is 0 if the point is outside the image or reach.

    For the arguments see `mark_shown`.
    """
    a, b, c = point[0] - pose[0, 3], point[1] - pose[1, 3], point[2] - pose[2, 3]
    depth = a * pose[0, 2] + b * pose[1, 2] + c * pose[2, 2]
    if not depth > 0:
        return 0.0, 0.0, 0.0
    x = a * pose[0, 0] + b * pose[1, 0] + c * pose[2, 0]
    y = a * pose[0, 1] + b * pose[1, 1] + c * pose[2, 1]
    if not x * x + y * y + depth * depth <= reach**2:
        return 0.0, 0.0, 0.0
    scale = focal / depth
    u, v = x * scale + width / 2, y * scale + height / 2
    inside = u >= 0 and u < width and v >= 0 and v < height
    return u, v, depth if inside else 0.0


@kernel
def may_add(visible: Any, points: Any, pose: Any, side: Any, focal: Any, reach: Any) -> Any:
    """Return True if an image of `side` × `side` pixels could show a point that is not marked yet."""
    for i in range(len(points)):
        if not visible[i] and _project_point(points[i], pose, focal, reach, side, side)[2] > 0:
            return True
    return False


@kernel
def mark_shown(
    visible: Any, points: Any, pose: Any, depths: Any, focal: Any, reach: Any, slack: Any, per_metre: Any
) -> None:  # fmt: skip
    """Mark the visible points in `visible`, (n,) bool; other entries are unchanged."""
    height, width = depths.shape
    for i in range(len(points)):
        if visible[i]:
            continue
        u, v, depth = _project_point(points[i], pose, focal, reach, width, height)
        if not depth > 0:
            continue
        # The farthest of the four surrounding pixels, because a slanted surface has several depths.
        left, top = max(int(np.floor(u - 0.5)), 0), max(int(np.floor(v - 0.5)), 0)
        right, below = min(left + 1, width - 1), min(top + 1, height - 1)
        surface_depth = max(
            max(depths[top, left], depths[top, right]),
            max(depths[below, left], depths[below, right]),
        )
        visible[i] = np.isfinite(surface_depth) and depth <= surface_depth * per_metre + slack


@kernel
def mark_in_frustums(
    visible: Any,  # (k, n) bool, modified in place
    candidates: Any,  # (n,) bool, the points to test
    points: Any,  # (n, 3) metres, world frame
    poses: Any,  # (k, 4, 4) camera poses; see Camera
    across: Any,
    upwards: Any,
) -> None:
    """Mark which candidate points are in the frustum of which camera; `across` and `upwards` are tangents of half its
    angles.
    """
    for k in range(len(poses)):
        pose = poses[k]
        for i in range(len(points)):
            if not candidates[i]:
                continue
            x, y, z = (
                points[i, 0] - pose[0, 3],
                points[i, 1] - pose[1, 3],
                points[i, 2] - pose[2, 3],
            )
            depth = x * pose[0, 2] + y * pose[1, 2] + z * pose[2, 2]
            right = x * pose[0, 0] + y * pose[1, 0] + z * pose[2, 0]
            down = x * pose[0, 1] + y * pose[1, 1] + z * pose[2, 1]
            visible[k, i] = abs(right) < across * depth and abs(down) < upwards * depth


@kernel
def face_areas(points: Any, faces: Any) -> Any:
    """Return the areas of triangles, (m,) square metres, from float32 coordinates."""
    areas = np.empty(len(faces))
    for face in range(len(faces)):
        a, b, c = faces[face, 0], faces[face, 1], faces[face, 2]
        x1, x2 = points[b, 0] - points[a, 0], points[c, 0] - points[a, 0]
        y1, y2 = points[b, 1] - points[a, 1], points[c, 1] - points[a, 1]
        z1, z2 = points[b, 2] - points[a, 2], points[c, 2] - points[a, 2]
        x, y, z = y1 * z2 - z1 * y2, z1 * x2 - x1 * z2, x1 * y2 - y1 * x2
        areas[face] = np.sqrt(x * x + y * y + z * z) / np.float32(2)
    return areas


@kernel
def tally_pixels(
    groups: Any,
    pieces: Any,  # (H * W,) piece at each pixel, -1 for none
    angle: Any,  # (H * W,) solid angle of each pixel, or empty to skip them
    count: Any,
) -> Any:
    """Return the number of pixels of each group, (count,), and their total solid angle, (count,) steradians.

    Group 0, which is in no box, is not counted.
    """
    areas, angles = np.zeros(count), np.zeros(count)
    current, area, total = 0, 0.0, 0.0  # running totals of the current group
    for pixel in range(len(pieces)):
        group = groups[pieces[pixel]]
        if group != current:
            areas[current], angles[current] = area, total
            current, area, total = group, areas[group], angles[group]
        if group:
            area += 1.0
            if len(angle):
                total += angle[pixel]
    areas[current], angles[current] = area, total
    return areas, angles


@kernel
def angle_of_faces(
    points: Any,  # (n, 3) metres
    faces: Any,  # (m, 3)
    face_indices: Any,
    matrix: Any,
    near: Any,
    width: Any,  # image width in pixels
    height: Any,  # image height in pixels
    focal: Any,  # focal length in pixels
) -> Any:
    """Return the solid angle, in steradians, of the pixels covered by the given faces of a mesh, drawn alone."""
    mask = np.empty((height, width), np.bool_)
    cover(points.T, faces, face_indices, matrix, near, mask)
    total = 0.0
    for row in range(height):
        below = (row + 0.5 - height / 2) / focal
        for column in range(width):
            if mask[row, column]:
                right = (column + 0.5 - width / 2) / focal
                squares = 1 + right**2 + below**2
                total += 1 / (squares * np.sqrt(squares) * focal**2)
    return total
