"""Compiled kernels that count pixels and points for visibility; imported where first used."""

from __future__ import annotations

from typing import Any

import numpy as np

from render_agent.render.rasteriser.kernels import inlined_kernel, kernel
from render_agent.render.rasteriser.zbuffer import cover


@inlined_kernel
def _placed(point: Any, pose: Any, focal: Any, reach: Any, width: Any, height: Any) -> Any:
    """Return the pixel (u, v) of a point, (3,), in a picture and its depth; a depth of 0 where it is not in it.

    Arguments are those of `mark_shown`.
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
    """Return whether `mark_shown` may mark any point with a picture of `side` × `side` pixels, whatever that shows."""
    for i in range(len(points)):
        if not visible[i] and _placed(points[i], pose, focal, reach, side, side)[2] > 0:
            return True
    return False


@kernel
def mark_shown(
    visible: Any, points: Any, pose: Any, depths: Any, focal: Any, reach: Any, slack: Any, per_metre: Any
) -> None:  # fmt: skip
    """Mark, in `visible`, (n,) bool, the points that show in a picture; others stay as they are.

    points: (n, 3) metres, world frame. pose: (4, 4), see Camera. depths: (H, W) float32 metres. focal: pixels. reach:
    metres, beyond which nothing shows. slack, per_metre: float32; a point may lie behind the surface by the first,
    where the depth is multiplied by the second.
    """
    height, width = depths.shape
    for i in range(len(points)):
        if visible[i]:
            continue
        u, v, depth = _placed(points[i], pose, focal, reach, width, height)
        if not depth > 0:
            continue
        # of the four pixels around it the farthest, as a slanting surface has more than one depth
        left, top = max(int(np.floor(u - 0.5)), 0), max(int(np.floor(v - 0.5)), 0)
        right, below = min(left + 1, width - 1), min(top + 1, height - 1)
        farthest = max(
            max(depths[top, left], depths[top, right]),
            max(depths[below, left], depths[below, right]),
        )
        visible[i] = np.isfinite(farthest) and depth <= farthest * per_metre + slack


@kernel
def tally(groups: Any, pieces: Any, angle: Any, count: Any) -> Any:
    """Return how many pixels each group has, (count,), and their solid angles together, (count,) steradians.

    Nothing of group 0, which lies in no box. groups: (p + 1,) the group of each piece of surface, the last that of no
    piece. pieces: (H * W,) the piece of each
    pixel, -1 of none. angle: (H * W,) of each pixel, none where that is empty.
    """
    areas, angles = np.zeros(count), np.zeros(count)
    last, area, total = 0, 0.0, 0.0  # of the group that the pixels before were of
    for pixel in range(len(pieces)):
        group = groups[pieces[pixel]]
        if group != last:
            areas[last], angles[last] = area, total
            last, area, total = group, areas[group], angles[group]
        if group:
            area += 1.0
            if len(angle):
                total += angle[pixel]
    areas[last], angles[last] = area, total
    return areas, angles


@kernel
def angle_of_faces(
    points: Any, faces: Any, which: Any, matrix: Any, near: Any, width: Any, height: Any, focal: Any
) -> Any:
    """Return the solid angle, steradians, of the pixels that some faces of a mesh cover with nothing else there.

    points: (n, 3) metres. faces: (m, 3), of which those in `which` are drawn, all with finite corners. matrix, near: see
    Projection. focal: pixels.
    """
    covered = np.empty((height, width), np.bool_)
    cover(points.T, faces, which, matrix, near, covered)
    # a quarter of the picture tells the others: distances from its middle are the same on both sides
    angles = np.empty(((height + 1) // 2, (width + 1) // 2))
    for row in range(len(angles)):
        below = (row + 0.5 - height / 2) / focal
        for column in range(angles.shape[1]):
            right = (column + 0.5 - width / 2) / focal
            squares = 1 + right**2 + below**2
            angles[row, column] = 1 / (squares * np.sqrt(squares) * focal**2)
    total = 0.0
    for row in range(height):
        beside = min(row, height - 1 - row)
        for column in range(width):
            if covered[row, column]:
                total += angles[beside, min(column, width - 1 - column)]
    return total
