"""Thin point clouds, and shade those without colours by estimated normals. The only module that imports Open3D."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import RenderAgentError, SceneError
from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.formats.shading import grey
from render_agent.scans.free_space.surface import cell_keys

MAX_POINTS = 20_000_000  # larger clouds are thinned
THINNED_CELL_METRES = 0.01  # initial cell; the points in a cell are replaced by their mean
CELLS_PER_SIDE = 1 << 20  # cells from the middle of a cloud outwards; points beyond are dropped
SAMPLED_POINTS = 65536  # points from which the middle is estimated
NEIGHBOURS = 16  # points per normal estimate
MAX_NORMALS = 300_000  # in larger clouds, the points in a cell share a normal

# Cells for shared normals start at MIN_SHARED_METRES and grow by COARSER_FACTOR until there are few enough.
MIN_SHARED_METRES = 0.02
COARSER_FACTOR = 1.5


def thin_cloud(scan: Scan, max_points: int = MAX_POINTS) -> Scan:
    """Thin a cloud to at most `max_points` points by averaging positions and colours per cell."""
    cell = THINNED_CELL_METRES
    while len(scan.points) > max_points:
        values = np.empty((len(scan.points), 0)) if scan.colours is None else scan.colours
        points, means = cell_means(scan.points, values.astype(np.float32), cell)
        colours = None if scan.colours is None else np.rint(means).astype(np.uint8)
        scan = replace(scan, points=points.astype(scan.points.dtype), colours=colours)
        cell *= COARSER_FACTOR
    return scan


def cell_means(
    # (n, 3), finite, in any unit. Points too far out to be part of a room are dropped.
    points: NDArray[Any],
    values: NDArray[np.float32],  # (n, k); NaN entries are ignored
    cell: float,
) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the mean positions, (c, 3) float64, and values, (c, k), per cubic cell; NaN if all of its values are."""
    middle = np.median(points[:: max(1, len(points) // SAMPLED_POINTS)], axis=0).astype(np.float64)
    keys = np.zeros(len(points), np.int64)
    inside = np.ones(len(points), bool)
    for axis in range(3):
        steps = np.floor((points[:, axis] - middle[axis]) / cell) + CELLS_PER_SIDE
        inside &= (steps >= 0) & (steps < 2 * CELLS_PER_SIDE)
        keys = keys * (2 * CELLS_PER_SIDE) + np.clip(steps, 0, 2 * CELLS_PER_SIDE - 1).astype(
            np.int64
        )
    order = np.argsort(keys, kind="stable")
    order = order[inside[order]]
    firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    counts = np.diff(firsts, append=len(order))
    means = np.empty((len(firsts), 3))
    for axis in range(3):
        coordinates = points[order, axis] - middle[axis]
        means[:, axis] = np.add.reduceat(coordinates, firsts) / counts + middle[axis]
    mixed = np.empty((len(firsts), values.shape[1]), np.float32)
    for channel in range(values.shape[1]):
        sorted_values = values[order, channel].astype(np.float64)
        num_valid = np.add.reduceat((~np.isnan(sorted_values)).astype(np.int64), firsts)
        with np.errstate(invalid="ignore"):  # 0/0 gives NaN for cells without a value
            mixed[:, channel] = np.add.reduceat(np.nan_to_num(sorted_values), firsts) / num_valid
    return means, mixed


def cloud_normals(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Estimate unit normals, (n, 3) with arbitrary sign, of points, (n, 3) in metres, from their neighbours."""
    sites: NDArray[Any] = points
    cell_of_point: NDArray[np.intp] | None = None
    cell = MIN_SHARED_METRES
    while len(sites) > MAX_NORMALS:
        keys = cell_keys(points, cell)
        _, first, cell_of_point = np.unique(keys, return_index=True, return_inverse=True)
        sites = points[first]
        cell *= COARSER_FACTOR
    open3d = import_open3d("a point cloud without colours", SceneError)
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(sites.astype(np.float64)))
    cloud.estimate_normals(open3d.geometry.KDTreeSearchParamKNN(NEIGHBOURS))
    normals = np.asarray(cloud.normals).astype(np.float32)
    return normals if cell_of_point is None else normals[cell_of_point]


def import_open3d(use: str, kind: type[RenderAgentError]) -> ModuleType:
    """Import Open3D; raise `kind`, naming the feature `use`, if it cannot be loaded."""
    try:
        import open3d
    except (ImportError, OSError) as error:
        raise kind(
            f"{use} needs Open3D, which cannot be loaded ({error}). On Debian or Ubuntu, run: apt-get"
            " install libgl1 libgomp1 libusb-1.0-0"
        ) from error
    return open3d


LOW_TINT = np.array([0.82, 0.92, 1.00], np.float32)  # tint of a cloud's lowest points
HIGH_TINT = np.array([1.00, 0.93, 0.80], np.float32)  # tint of its highest points


def shaded_colours(
    points: NDArray[np.float32], normals: NDArray[np.float32], low: float, high: float
) -> NDArray[np.uint8]:
    """Return colours, (n, 3) uint8, for a cloud: shaded by normals and tinted by height from `low` to `high` (metres)."""
    height = np.clip((points[:, 2] - low) / max(high - low, 1e-6), 0, 1).astype(np.float32)
    tint = LOW_TINT + height[:, None] * (HIGH_TINT - LOW_TINT)
    colours: NDArray[np.uint8] = (grey(normals)[:, None] * tint).astype(np.uint8)
    return colours
