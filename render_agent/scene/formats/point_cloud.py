"""Point clouds: their normals, and thinning those of too many points; the door to Open3D."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scene.formats.cleaning import Scan
from render_agent.scene.free_space.surface import cell_keys

MAX_POINTS = 20_000_000
"""Clouds of more points are thinned."""

THINNED_CELL_METRES = 0.01
"""Metres: of a cloud that is thinned, the points in such a cell become their mean, first of all."""

NEIGHBOURS = 16
"""Points from which a normal is estimated."""

MAX_NORMALS = 300_000
"""Of larger clouds, the points in a cell share a normal."""

FINEST_SHARED_METRES = 0.02
COARSER_FACTOR = 1.5
"""Cells begin at FINEST_SHARED_METRES and grow by COARSER_FACTOR until they are few enough."""


def thinned(scan: Scan, most: int = MAX_POINTS) -> Scan:
    """Return a cloud of at most `most` points: the means of the points in cells, and of their colours."""
    cell = THINNED_CELL_METRES
    while len(scan.points) > most:
        scan = _means(scan, cell)
        cell *= COARSER_FACTOR
    return scan


def _means(scan: Scan, cell: float) -> Scan:
    open3d = imported_open3d()
    cloud = open3d.t.geometry.PointCloud(open3d.core.Tensor(scan.points))
    if scan.colours is not None:
        cloud.point.colors = open3d.core.Tensor(scan.colours.astype(np.float32))
    cloud = cloud.voxel_down_sample(cell)
    colours = None
    if scan.colours is not None:
        colours = np.rint(cloud.point.colors.numpy()).astype(np.uint8)
    return replace(scan, points=cloud.point.positions.numpy(), colours=colours)


def cloud_normals(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return unit normals, (n, 3), of either sign, estimated from each point's neighbours.

    points: (n, 3) metres.
    """
    sites: NDArray[Any] = points
    shared: NDArray[np.intp] | None = None
    cell = FINEST_SHARED_METRES
    while len(sites) > MAX_NORMALS:
        keys = cell_keys(points, cell)
        _, first, shared = np.unique(keys, return_index=True, return_inverse=True)
        sites = points[first]
        cell *= COARSER_FACTOR
    open3d = imported_open3d()
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(sites.astype(np.float64)))
    cloud.estimate_normals(open3d.geometry.KDTreeSearchParamKNN(NEIGHBOURS))
    normals = np.asarray(cloud.normals).astype(np.float32)
    return normals if shared is None else normals[shared]


def imported_open3d() -> ModuleType:
    """Return Open3D. SceneError where it does not load."""
    try:
        import open3d
    except (ImportError, OSError) as error:
        raise SceneError(
            f"a point cloud without colours, or one of more than {MAX_POINTS:,} points, needs"
            f" Open3D, which does not load here ({error}): on Debian, apt-get install libgl1"
            " libgomp1 libusb-1.0-0"
        ) from error
    return open3d
