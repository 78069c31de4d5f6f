"""Drawing points into a depth buffer as squares that face the camera, and filling what stays open.

The buffer is that of `zbuffer`. A square has the depth of its point, plus a little that grows from
its middle outwards, so that a pixel goes to the nearest point's square and not to whichever lies a
hair in front; equals go to the point that comes first in block order. Then two passes look at each pixel's eight neighbours: where at least five of them
are clearly in front of it, the pixel is a gap between points, and takes the furthest of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.blocks import POINTS_PER_BLOCK, CloudBlocks, cloud_blocks
from render_agent.render.rasteriser.kernels import kernel
from render_agent.render.rasteriser.zbuffer import clear, hidden
from render_agent.scans.camera import FloatArray
from render_agent.scans.scene import Scene

ENOUGH_NEIGHBOURS = 5
"""Neighbours in front that make a pixel a gap."""

GAP_SHARE = 0.03
"""What is clearly in front in perspective: 3 % of the depth (and more than two splats)."""


FINE_PIXELS = 1.0
"""Half the side of a splat in pixels; where it is at most so much at its nearest, four points become one."""


@kernel
def draw_points(
    points: Any, starts: Any, radii: Any, block_size: Any,
    blocks: Any, rectangles: Any, block_keys: Any, matrix: Any, perspective: Any, near: Any,
    scale: Any, first_row: Any, last_row: Any, keys: Any, nearest: Any,
) -> None:  # fmt: skip
    """Draw the visible blocks, front to back, into one band of the buffer.

    points, starts: see CloudLevels; radii: see CloudBlocks; blocks … block_keys: see Visible; matrix …
    near: see Projection.
    scale: pixels per metre (at a depth of one metre in perspective). keys: (H, W) float32, -inf
    where nothing is yet. nearest: (H, W) int32, position of the nearest point in block order.
    """
    clear(keys, nearest, first_row, last_row)
    m = matrix
    width = np.float64(keys.shape[1])
    band_top, band_bottom = np.float64(first_row), np.float64(last_row)
    for i in range(len(blocks)):
        if hidden(keys, rectangles[i], first_row, last_row, block_keys[i]):
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
            half = max(radius * scale * shrink, 0.5)
            if v + half <= band_top or v - half >= band_bottom:
                continue
            u = (m[0, 0] * x + m[0, 1] * y + m[0, 2] * z + m[0, 3]) * shrink
            if u + half <= 0.0 or u - half >= width:
                continue
            key = shrink if perspective else -depth
            # a square of one pixel has no outer part to set back
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
    """Draw one square around (u, v), set back by `back` times the squared pixels from its middle."""
    width = np.float64(keys.shape[1])
    top = np.int64(np.ceil(max(v - half, np.float64(first_row)) - 0.5))
    bottom = np.int64(np.ceil(min(v + half, np.float64(last_row)) - 0.5))
    left = np.int64(np.ceil(max(u - half, 0.0) - 0.5))
    right = np.int64(np.ceil(min(u + half, width) - 0.5))
    for row in range(top, bottom):
        dv = row + 0.5 - v
        for column in range(left, right):
            du = column + 0.5 - u
            here = np.float32(key - back * (du * du + dv * dv))
            seen = keys[row, column]
            before = nearest[row, column]
            # without a branch, since most squares lie behind others and which do is anyone's guess
            wins = (here > seen) | ((here == seen) & (point < before))
            keys[row, column] = here if wins else seen
            nearest[row, column] = point if wins else before


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
    filled_keys: Any, filled: Any,
) -> None:  # fmt: skip
    """Write one band of the buffer with its gaps between points filled.

    step: metres, the least difference in depth that is clearly in front. The buffer before is
    keys and nearest, the buffer after filled_keys and filled, all (H, W).
    """
    height, width = keys.shape
    for row in range(first_row, last_row):
        for column in range(width):
            key = keys[row, column]
            filled_keys[row, column] = key
            filled[row, column] = nearest[row, column]
            limit = _in_front(key, perspective, step)
            # five of eight neighbours are never all at the corners
            if (
                keys[max(row - 1, 0), column] <= limit
                and keys[min(row + 1, height - 1), column] <= limit
                and keys[row, max(column - 1, 0)] <= limit
                and keys[row, min(column + 1, width - 1)] <= limit
            ):
                continue
            count = 0
            furthest = np.float32(np.inf)
            source = nearest[row, column]
            for r in range(max(row - 1, 0), min(row + 2, height)):
                for c in range(max(column - 1, 0), min(column + 2, width)):
                    other = keys[r, c]
                    if other > limit:
                        count += 1
                        if other < furthest:
                            furthest = other
                            source = nearest[r, c]
            if count >= ENOUGH_NEIGHBOURS:
                filled_keys[row, column] = furthest
                filled[row, column] = source


@kernel
def colour_points(
    points: Any, point_colours: Any, order: Any, matrix: Any, background: Any,
    first_row: Any, last_row: Any, keys: Any, nearest: Any, colours: Any,
) -> None:  # fmt: skip
    """Turn one band of the buffer into a picture, in place.

    colours: (H, W, 3) uint8 is written; keys become the depths of the points in metres (inf where
    nothing is), nearest becomes the scene's point index.
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


FEWER = 4
"""Points of one level that one point of the next stands for."""

LEVELS = 5
"""With those of level 0; of a block's 512 points the last level has two."""

REACH_RADII = 2.0
"""The curve jumps from one wall to the next: what lies further away than so many splats has no part in a
point's colour."""

AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class CloudLevels:
    """All levels of a cloud, one behind the other.

    blocks: the cloud's blocks; a block's points on a level are FEWER times fewer than on that below it.
    points: (3, n) float32, metres, colours: (n, 3) uint8, order: (n,) int32, the scene's index of each
    point, of all levels. starts: (LEVELS + 1,) int64, where each level begins.
    """

    blocks: CloudBlocks
    points: NDArray[np.float32]
    colours: NDArray[np.uint8]
    order: NDArray[np.int32]
    starts: NDArray[np.int64]


def cloud_levels(scene: Scene) -> CloudLevels:
    """Return the levels of a cloud."""
    blocks = cloud_blocks(scene)
    indices = np.arange(len(blocks.order))
    shades = blocks.colours.astype(np.float32)
    chosen, colours = [indices], [blocks.colours]
    for level in range(LEVELS - 1):
        reach = REACH_RADII * 2**level * blocks.radii
        indices, shades = _next(blocks.points, indices, shades, reach)
        chosen.append(indices)
        colours.append(np.rint(shades).astype(np.uint8))
    picked = np.concatenate(chosen)
    starts = np.cumsum([0, *(len(level) for level in chosen)])
    return CloudLevels(
        blocks,
        np.ascontiguousarray(blocks.points[:, picked]),
        np.concatenate(colours),
        blocks.order[picked],
        starts.astype(np.int64),
    )


def _next(
    points: NDArray[np.float32],
    indices: NDArray[np.int64],
    shades: NDArray[np.float32],
    reach: FloatArray,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the points of the next level, (k,) into `points` (3, n), and their colours, (k, 3).

    reach: (b,) metres, by block: what lies further from a point than this is no part of its surface.
    """
    count = -(-len(indices) // FEWER)
    found, means = np.empty(count, np.int64), np.empty((count, 3), np.float32)
    for first in range(0, count, AT_A_TIME):
        part = np.arange(first * FEWER, min(first + AT_A_TIME, count) * FEWER)
        # the last four may be fewer: the last of them counts again
        fours = np.minimum(part, len(indices) - 1).reshape(-1, FEWER)
        places = points[:, indices[fours]]
        away = ((places - places.mean(axis=2, keepdims=True)) ** 2).sum(axis=0)
        nearest = away.argmin(axis=1)
        rows = slice(first, first + len(fours))
        found[rows] = indices[fours[np.arange(len(fours)), nearest]]
        chosen = found[rows]
        gaps = ((places - points[:, chosen, None]) ** 2).sum(axis=0)
        near = gaps <= (reach[chosen // POINTS_PER_BLOCK] ** 2)[:, None]
        total = (shades[fours] * near[:, :, None]).sum(axis=1)
        means[rows] = total / near.sum(axis=1)[:, None]
    return found, means


assert POINTS_PER_BLOCK % FEWER ** (LEVELS - 1) == 0
