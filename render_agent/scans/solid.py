"""The solid surface of a splat: its opaque Gaussians with neighbours, and samples of them.

The other Gaussians are floaters and haze. They are rendered, but they neither block movement nor enlarge the room.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene

# Gaussians with less opacity are haze; three in a row let a third of the light through.
SOLID_OPACITY = 0.3

# Minimum number of neighbours of similar size in the 27 cells around a Gaussian. Gaussians of closed surfaces have more
# than 15; a floater is isolated or in a small group.
MIN_NEIGHBOURS = 8

# Smallest cell; a cell is at least twice the Gaussian's largest standard deviation.
CELL_METRES = 0.1
# Gaussians within this factor of the cell's size limit are of similar size.
SIMILAR_SIZE_RATIO = 2.0
MAX_GAUSSIAN_METRES = 1.0  # Gaussians with a larger standard deviation are sky or haze
MAX_SAMPLES_ACROSS = 24  # samples along each side of a Gaussian


def find_solid(
    points: NDArray[Any],  # centres, (n, 3) metres
    gaussians: Gaussians,
) -> NDArray[np.bool_]:
    """Return which Gaussians are surface, (n,) bool. If none has enough neighbours, all opaque ones are."""
    sizes = 2 * gaussians.scales.max(axis=1)
    opaque = np.flatnonzero(
        (gaussians.opacities >= SOLID_OPACITY) & (sizes < 2 * MAX_GAUSSIAN_METRES)
    )
    is_solid: NDArray[np.bool_] = np.zeros(len(points), bool)
    cell, smallest = CELL_METRES, -np.inf
    while smallest < 2 * MAX_GAUSSIAN_METRES:
        indices = opaque[(sizes[opaque] > smallest) & (sizes[opaque] <= cell)]
        similar = opaque[sizes[opaque] > (cell / SIMILAR_SIZE_RATIO if smallest > 0 else 0)]
        is_solid[indices[_counts(points, indices, similar, cell) > MIN_NEIGHBOURS]] = True
        smallest, cell = cell, 2 * cell
    if not is_solid.any():
        is_solid[opaque] = True
    return is_solid if is_solid.any() else np.ones(len(points), bool)


def _counts(
    points: NDArray[Any], indices: NDArray[np.intp], others: NDArray[np.intp], cell: float
) -> NDArray[np.int64]:
    """Return the number of `others` in the 27 cells around each of `indices`, (k,), including itself."""
    if not len(indices) or not len(others):
        return np.zeros(len(indices), np.int64)
    low = points[others].min(axis=0) - 2 * cell
    cells, counts = np.unique(_keys(points[others], low, cell), return_counts=True)
    unique_keys, inverse = np.unique(_keys(points[indices], low, cell), return_inverse=True)
    sums = np.zeros(len(unique_keys), np.int64)
    for step in np.ndindex(3, 3, 3):
        x, y, z = (int(part) - 1 for part in step)
        keys = unique_keys + ((x << 42) + (y << 21) + z)
        at = np.minimum(np.searchsorted(cells, keys), len(cells) - 1)
        sums += np.where(cells[at] == keys, counts[at], 0)
    around: NDArray[np.int64] = sums[inverse]
    return around


def _keys(points: NDArray[Any], low: NDArray[Any], cell: float) -> NDArray[np.int64]:
    """Return the cell key of each point, (n, 3); neighbouring cells differ by a power of two per axis."""
    steps = np.clip((points - low) / cell, 0, (1 << 20) - 1).astype(np.int64)
    keys: NDArray[np.int64] = steps[:, 0] << 42 | steps[:, 1] << 21 | steps[:, 2]
    return keys


def sample_solid(
    points: NDArray[np.float32],  # centres, (n, 3) metres
    gaussians: Gaussians,
    spacing: float,
) -> NDArray[np.float32]:
    """Return samples of a splat's surface, (s, 3) metres, on the opaque part of its Gaussians' discs."""
    is_solid = find_solid(points, gaussians) if gaussians.solid is None else gaussians.solid
    points, gaussians = points[is_solid], gaussians.where(is_solid)
    order = np.argsort(-gaussians.scales, axis=1)[:, :2]
    reach = np.sqrt(2 * np.log(np.maximum(gaussians.opacities / SOLID_OPACITY, 1)))
    sides = np.take_along_axis(gaussians.scales, order, axis=1) * reach[:, None]
    counts = np.minimum(2 * np.ceil(sides / spacing - 0.5).clip(0) + 1, MAX_SAMPLES_ACROSS).astype(
        int
    )
    parts = []
    for pair in np.unique(counts, axis=0):
        indices = np.flatnonzero((counts == pair).all(axis=1))
        steps = [np.linspace(-1, 1, count) if count > 1 else np.zeros(1) for count in pair]
        places = np.stack(np.meshgrid(*steps), axis=-1).reshape(-1, 2).astype(np.float32)
        places = places[(places**2).sum(axis=1) <= 1 + 1e-6]
        if len(places) == 1:
            parts.append(points[indices])
            continue
        for index in np.array_split(indices, max(1, len(indices) * len(places) // (1 << 20))):
            axes = _axes(gaussians.rotations[index])
            half_sides = (
                np.take_along_axis(axes, order[index][:, None], axis=2) * sides[index][:, None]
            )
            parts.append(
                (points[index, None] + places @ half_sides.transpose(0, 2, 1)).reshape(-1, 3)
            )
    return np.concatenate(parts).astype(np.float32, copy=False)


def _axes(rotations: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rotation matrices, (n, 3, 3), of unit quaternions (n, 4); columns are the Gaussians' axes."""
    w, x, y, z = rotations.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows, np.float32).transpose(2, 0, 1)


def surface_points(scene: Scene, spacing: float) -> NDArray[np.float32]:
    """Return surface points of a scene, (s, 3) metres: its points, or samples of a splat."""
    if scene.gaussians is None:
        return scene.points
    return sample_solid(scene.points, scene.gaussians, spacing)
