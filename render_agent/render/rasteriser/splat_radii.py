"""Chooses the size of a cloud's splats, block by block, from the distances between neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.kernels import kernel
from render_agent.scans.camera import FloatArray

NEIGHBOUR = 8  # the spacing is the distance to this nearest neighbour
SAMPLES_PER_BLOCK = 9
WINDOW_BLOCKS = 32  # blocks on either side along the curve in which neighbours are searched
RADIUS_SPACINGS = 1.0  # half the side of a splat in spacings
FALLBACK_METRES = 0.02  # half the side of splats in clouds with too few points to measure a spacing

# Splat sizes of a block differ from those of the median block by a factor of at most SPREAD_RATIO. They may be up to
# FAR_RATIO times larger if they stay below FAR_METRES, because walls far from the scanner are sparse.
SPREAD_RATIO = 4.0
FAR_RATIO = 16.0
FAR_METRES = 0.12


def splat_radii(
    points: NDArray[np.float32],  # (3, n) metres, in block order
    starts: NDArray[np.int32],
    boxes: FloatArray,  # bounding box of each block, (b, 6)
) -> FloatArray:
    """Return half the side of each block's splats, (b,) metres.

    Scans are dense near the scanner and sparse far from it, so each block has its own radius. Other blocks limit the
    radius of blocks with only stray points.
    """
    if points.shape[1] <= NEIGHBOUR:
        return np.full(len(starts) - 1, FALLBACK_METRES)
    distances = _block_spacings(points, starts, boxes)
    valid = distances[distances > 0]
    if not len(valid):
        return np.full(len(starts) - 1, FALLBACK_METRES)
    middle = float(np.median(valid))
    max_radius = max(SPREAD_RATIO * middle, min(FAR_RATIO * middle, FAR_METRES))
    radii: FloatArray = RADIUS_SPACINGS * np.clip(distances, middle / SPREAD_RATIO, max_radius)
    return radii


@kernel
def _gap(box: Any, x: Any, y: Any, z: Any) -> Any:
    """Return the squared distance from a point to a box, in square metres."""
    dx = max(box[0] - x, 0.0, x - box[3])
    dy = max(box[1] - y, 0.0, y - box[4])
    dz = max(box[2] - z, 0.0, z - box[5])
    return dx * dx + dy * dy + dz * dz


@kernel
def _search(points: Any, start: Any, stop: Any, x: Any, y: Any, z: Any, best: Any) -> None:
    """Insert the squared distances of points start … stop-1 into `best`, in ascending order."""
    for i in range(start, stop):
        dx, dy, dz = points[0, i] - x, points[1, i] - y, points[2, i] - z
        distance = dx * dx + dy * dy + dz * dz
        if distance >= best[-1]:
            continue
        slot = len(best) - 1
        while slot > 0 and best[slot - 1] > distance:
            best[slot] = best[slot - 1]
            slot -= 1
        best[slot] = distance


@kernel
def _block_spacings(points: Any, starts: Any, boxes: Any) -> Any:
    """Return each block's median distance from a sample to its eighth neighbour, (b,) metres."""
    blocks = len(starts) - 1
    spacings = np.empty(blocks, np.float64)
    squared_distances = np.empty(SAMPLES_PER_BLOCK, np.float64)
    best = np.empty(NEIGHBOUR + 1, np.float64)
    for block in range(blocks):
        size = starts[block + 1] - starts[block]
        for sample in range(SAMPLES_PER_BLOCK):
            i = starts[block] + size * (2 * sample + 1) // (2 * SAMPLES_PER_BLOCK)
            x, y, z = np.float64(points[0, i]), np.float64(points[1, i]), np.float64(points[2, i])
            best[:] = np.inf
            _search(points, starts[block], starts[block + 1], x, y, z, best)
            for neighbour_block in range(
                max(0, block - WINDOW_BLOCKS), min(blocks, block + WINDOW_BLOCKS + 1)
            ):
                if neighbour_block != block and _gap(boxes[neighbour_block], x, y, z) < best[-1]:
                    _search(
                        points, starts[neighbour_block], starts[neighbour_block + 1], x, y, z, best
                    )
            squared_distances[sample] = best[-1]
        spacings[block] = np.sqrt(np.median(squared_distances))
    return spacings
