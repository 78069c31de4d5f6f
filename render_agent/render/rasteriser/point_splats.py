"""Draws points into a depth buffer, and fills the gaps between them.

The buffer is that of `zbuffer`. Points are squares that face the camera. Points of a cloud without captured colours are
discs along the surface instead, because such a cloud shows only shapes. Its sparse points are drawn smaller if they are
near, because large discs would hide the space between them. A square or disc has the depth of its point plus an offset
that grows from its centre outwards, so that a pixel shows the nearest point rather than one that is marginally closer
to the camera. Ties go to the first point in block order. Then two passes examine the eight neighbours of each pixel: if
at least five are clearly in front of it, the pixel is a gap and takes the farthest of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.blocks import POINTS_PER_BLOCK, cloud_blocks
from render_agent.render.rasteriser.kernels import kernel
from render_agent.render.rasteriser.zbuffer import clear, is_hidden
from render_agent.scans.camera import FloatArray
from render_agent.scans.scene import Scene

ENOUGH_NEIGHBOURS = 5  # neighbours in front that make a pixel a gap
# Relative depth difference, in perspective, that is clearly in front (if more than two splats).
GAP_SHARE = 0.03
# Splats with at most this half side, at their nearest, are drawn from the next coarser level.
FINE_PIXELS = 1.0
# Discs with more than TYPICAL_RADII times the median radius are at most NEAR_SHARE of the image width in radius.
TYPICAL_RADII, NEAR_SHARE = 1.5, 1 / 80


@kernel
def draw_points(
    points: Any, normals: Any, starts: Any, radii: Any, typical: Any, block_size: Any,
    blocks: Any, rectangles: Any, block_keys: Any, matrix: Any, perspective: Any, near: Any,
    scale: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw the visible blocks into a band of rows like `zbuffer.draw_faces`; `nearest` is the point's position in block
    order.
    """
    clear(keys, nearest, first_row, last_row)
    m = matrix
    width, height = np.float64(keys.shape[1]), np.float64(keys.shape[0])
    band_top, band_bottom = np.float64(first_row), np.float64(last_row)
    discs = normals.shape[1] > 0
    axes = np.empty((3, 3))  # right, down and forward
    for axis in range(3):
        axes[2, axis] = m[3, axis]
        axes[0, axis] = (m[0, axis] - perspective * width / 2 * m[3, axis]) / scale
        axes[1, axis] = (m[1, axis] - perspective * height / 2 * m[3, axis]) / scale
    for i in range(len(blocks)):
        if is_hidden(keys, rectangles[i], first_row, last_row, block_keys[i]):
            continue
        radius = radii[blocks[i]]
        closest = radius * scale * (block_keys[i] if perspective else 1.0)
        level = 0
        size = block_size
        while level < len(starts) - 2 and closest <= FINE_PIXELS:
            level += 1
            size //= 4
            radius *= 2.0
            closest *= 2.0
        start = starts[level] + blocks[i] * size
        for point in range(start, min(start + size, starts[level + 1])):
            x = np.float64(points[0, point])
            y = np.float64(points[1, point])
            z = np.float64(points[2, point])
            depth = m[3, 0] * x + m[3, 1] * y + m[3, 2] * z + m[3, 3]
            if depth < near:
                continue
            shrink = 1.0 / depth if perspective else 1.0
            v = (m[1, 0] * x + m[1, 1] * y + m[1, 2] * z + m[1, 3]) * shrink
            half = radius * scale * shrink
            if discs:
                half = min(half, max(typical * scale * shrink, NEAR_SHARE * width))
            half = max(half, 0.5)
            if v + half <= band_top or v - half >= band_bottom:
                continue
            u = (m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3]) * shrink
            if u + half <= 0.0 or u - half >= width:
                continue
            key = shrink if perspective else -depth
            if discs and half > 0.5:
                n0, n1, n2 = 0.0, 0.0, 0.0
                for axis in range(3):
                    n0 += axes[0, axis] * normals[axis, point]
                    n1 += axes[1, axis] * normals[axis, point]
                    n2 += axes[2, axis] * normals[axis, point]
                _disc(
                    u, v, half, depth, perspective, n0, n1, n2, scale, point, first_row, last_row, keys, nearest
                )  # fmt: skip
                continue
            # a one-pixel square has no outer part to push back
            back = 0.0
            if half > 0.5:
                outer = 1.0 / (depth + radius) if perspective else -depth - radius
                back = (key - outer) / (2.0 * half * half)
            _square(u, v, half, key, back, point, first_row, last_row, keys, nearest)


@kernel
def _square(
    u: Any, v: Any, half: Any, key: Any, back: Any, point: Any,
    first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw one square around (u, v); its key decreases by `back` times the squared distance from the centre."""
    width = np.float64(keys.shape[1])
    top = np.int64(np.ceil(max(v - half, np.float64(first_row)) - 0.5))
    bottom = np.int64(np.ceil(min(v + half, np.float64(last_row)) - 0.5))
    left = np.int64(np.ceil(max(u - half, 0.0) - 0.5))
    right = np.int64(np.ceil(min(u + half, width) - 0.5))
    for row in range(top, bottom):
        dv = row + 0.5 - v
        for column in range(left, right):
            du = column + 0.5 - u
            pixel_key = np.float32(key - back * (du * du + dv * dv))
            old_key = keys[row, column]
            before = nearest[row, column]
            # branchless, because hidden squares cannot be predicted
            wins = (pixel_key > old_key) | ((pixel_key == old_key) & (point < before))
            keys[row, column] = pixel_key if wins else old_key
            nearest[row, column] = point if wins else before


@kernel
def _disc(
    u: Any, v: Any, half: Any, depth: Any, perspective: Any, n0: Any, n1: Any, n2: Any, scale: Any, point: Any,
    first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw one disc around (u, v), perpendicular to the normal (n0, n1, n2) in the camera frame.

    Its depth is that of its plane plus half its radius at the rim. A disc seen edge-on is one pixel.
    """
    height, width = keys.shape
    zoom = depth / scale if perspective else 1.0 / scale  # metres per pixel at the centre
    radius = half * zoom
    x, y = (u - width / 2) * zoom, (v - height / 2) * zoom
    offset = n0 * x + n1 * y + n2 * depth
    top = np.int64(np.ceil(max(v - half, np.float64(first_row)) - 0.5))
    bottom = np.int64(np.ceil(min(v + half, np.float64(last_row)) - 0.5))
    left = np.int64(np.ceil(max(u - half, 0.0) - 0.5))
    right = np.int64(np.ceil(min(u + half, np.float64(width)) - 0.5))
    for row in range(top, bottom):
        for column in range(left, right):
            if abs(column + 0.5 - u) <= 0.5 and abs(row + 0.5 - v) <= 0.5:
                pixel_key = np.float32(1.0 / depth if perspective else -depth)
            else:
                if perspective:
                    a, b = (column + 0.5 - width / 2) / scale, (row + 0.5 - height / 2) / scale
                    slope = n0 * a + n1 * b + n2
                    if slope == 0.0:
                        continue
                    z = offset / slope
                    a, b = a * z - x, b * z - y
                else:
                    a, b = (column + 0.5 - u) * zoom, (row + 0.5 - v) * zoom
                    if n2 == 0.0:
                        continue
                    z = depth - (n0 * a + n1 * b) / n2
                squared_distance = a * a + b * b + (z - depth) * (z - depth)
                if not squared_distance <= radius * radius:
                    continue
                z += squared_distance / (2.0 * radius)
                pixel_key = np.float32(1.0 / z if perspective else -z)
            old_key = keys[row, column]
            if pixel_key > old_key or (pixel_key == old_key and point < nearest[row, column]):
                keys[row, column] = pixel_key
                nearest[row, column] = point


@kernel
def _in_front(key: Any, perspective: Any, step: Any) -> Any:
    """Return the key above which a neighbour is clearly in front of a pixel."""
    if key == -np.inf:
        return key
    if not perspective:
        return np.float32(key + step)
    share = max(GAP_SHARE, step * key)
    return np.float32(key / (1.0 - share)) if share < 0.9 else np.float32(np.inf)


@kernel
def fill_gaps(
    keys: Any, nearest: Any, perspective: Any, step: Any, first_row: Any, last_row: Any,
    filled_keys: Any, filled_nearest: Any,
) -> None:  # fmt: skip
    """Write one band of the buffer with the gaps between points filled.

    `step` is the smallest depth difference, in metres, that is clearly in front. Reads `keys` and `nearest`, and writes
    `filled_keys` and `filled_nearest`, all (H, W).
    """
    height, width = keys.shape
    for row in range(first_row, last_row):
        for column in range(width):
            key = keys[row, column]
            filled_keys[row, column] = key
            filled_nearest[row, column] = nearest[row, column]
            limit = _in_front(key, perspective, step)
            # Five of eight neighbours cannot all be corners, so one of these four must be in front.
            if (
                keys[max(row - 1, 0), column] <= limit
                and keys[min(row + 1, height - 1), column] <= limit
                and keys[row, max(column - 1, 0)] <= limit
                and keys[row, min(column + 1, width - 1)] <= limit
            ):
                continue
            count = 0
            farthest_key = np.float32(np.inf)
            source = nearest[row, column]
            for r in range(max(row - 1, 0), min(row + 2, height)):
                for c in range(max(column - 1, 0), min(column + 2, width)):
                    neighbour_key = keys[r, c]
                    if neighbour_key > limit:
                        count += 1
                        if neighbour_key < farthest_key:
                            farthest_key = neighbour_key
                            source = nearest[r, c]
            if count >= ENOUGH_NEIGHBOURS:
                filled_keys[row, column] = farthest_key
                filled_nearest[row, column] = source


@kernel
def colour_points(
    points: Any, point_colours: Any, order: Any, matrix: Any, background: Any,
    first_row: Any, last_row: Any, keys: Any, nearest: Any, colours: Any,
) -> None:  # fmt: skip
    """Turn one band of the buffer into an image, in place.

    `colours`, (H, W, 3) uint8, is written. `keys` become the depths of the points in metres (inf for the background),
    and `nearest` becomes the scene's point index.
    """
    for row in range(first_row, last_row):
        for column in range(keys.shape[1]):
            point = nearest[row, column]
            if point < 0:
                keys[row, column] = np.inf
                for channel in range(3):
                    colours[row, column, channel] = background[channel]
                continue
            for channel in range(3):
                colours[row, column, channel] = point_colours[point, channel]
            depth = matrix[3, 3]
            for axis in range(3):
                depth += matrix[3, axis] * np.float64(points[axis, point])
            keys[row, column] = depth
            nearest[row, column] = order[point]


MERGED_POINTS = 4  # points of a level that are merged into one point of the next level
LEVELS = 5  # including level 0; a block's 512 points become two on the last level
# Points more than this many splat radii apart are not averaged, because they are on different surfaces.
REACH_RADII = 2.0


@dataclass(frozen=True, eq=False)
class CloudLevels:
    """All levels of detail of a cloud, concatenated. On each level, a block has 1 / MERGED_POINTS of the points of the
    previous level.
    """

    points: NDArray[np.float32]  # (3, n) float32, metres
    normals: NDArray[np.int8]  # (3, n) int8, see Scene; (3, 0) if the colours were captured
    colours: NDArray[np.uint8]  # (n, 3) uint8
    order: NDArray[np.int32]  # (n,) int32, the scene's index of each point
    starts: NDArray[np.int64]  # (LEVELS + 1,) int64, where each level starts
    radii: FloatArray  # (b,) float64, see CloudBlocks
    boxes: FloatArray  # (b, 6) float64, see CloudBlocks


def cloud_levels(scene: Scene) -> CloudLevels:
    blocks = cloud_blocks(scene)
    indices = np.arange(len(blocks.order))
    shades = blocks.colours.astype(np.float32)
    levels, colours = [], [blocks.colours]
    for level in range(LEVELS - 1):
        count = -(-len(indices) // MERGED_POINTS)
        merged, means = np.empty(count, np.int64), np.empty((count, 3), np.float32)
        limits = (REACH_RADII * 2**level * blocks.radii) ** 2
        _merge(blocks.points, indices, shades, limits, POINTS_PER_BLOCK, merged, means)
        indices, shades = merged, means
        levels.append(indices)
        colours.append(np.rint(shades).astype(np.uint8))
    coarse = np.concatenate(levels)
    order = np.concatenate([blocks.order, blocks.order[coarse]])
    normals = np.empty((0, 3), np.int8) if scene.normals is None else scene.normals[order]
    return CloudLevels(
        np.hstack([blocks.points, blocks.points[:, coarse]]),
        np.ascontiguousarray(normals.T),
        np.concatenate(colours),
        order,
        np.cumsum([0, *map(len, colours)]).astype(np.int64),
        blocks.radii,
        blocks.boxes,
    )


@kernel
def _merge(
    points: Any, indices: Any, shades: Any, limits: Any, block_size: Any, merged: Any, means: Any
) -> None:
    """Write the points of the next level, as indices into `points`, (3, n), to `merged`, (k,), and their colours to
    `means`, (k, 3).

    `limits` is the squared distance in square metres, per block, beyond which points are on other surfaces.
    """
    four, quarter = np.empty(MERGED_POINTS, np.int64), np.float32(1 / MERGED_POINTS)
    for group in range(len(merged)):
        x = y = z = np.float32(0.0)
        for i in range(MERGED_POINTS):
            # The last group may be smaller, so its last point is repeated.
            four[i] = min(group * MERGED_POINTS + i, len(indices) - 1)
            point = indices[four[i]]
            x, y, z = x + points[0, point], y + points[1, point], z + points[2, point]
        x, y, z = x * quarter, y * quarter, z * quarter
        nearest, parent = np.float32(np.inf), np.int64(0)
        for i in range(MERGED_POINTS):
            point = indices[four[i]]
            dx, dy, dz = points[0, point] - x, points[1, point] - y, points[2, point] - z
            gap = dx * dx + dy * dy + dz * dz
            if gap < nearest:
                nearest, parent = gap, point
        merged[group] = parent
        red = green = blue = np.float32(0.0)
        count = 0
        for i in range(MERGED_POINTS):
            point = indices[four[i]]
            dx, dy = points[0, point] - points[0, parent], points[1, point] - points[1, parent]
            dz = points[2, point] - points[2, parent]
            if dx * dx + dy * dy + dz * dz <= limits[parent // block_size]:
                shade = shades[four[i]]
                red, green, blue = red + shade[0], green + shade[1], blue + shade[2]
                count += 1
        means[group, 0], means[group, 1], means[group, 2] = red / count, green / count, blue / count


assert POINTS_PER_BLOCK % MERGED_POINTS ** (LEVELS - 1) == 0
