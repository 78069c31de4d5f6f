"""Projection matrices, which convert a camera to the form used by the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import NEAR_METRES
from render_agent.scans.camera import Camera, FloatArray, MapCamera


@dataclass(frozen=True, eq=False)
class Projection:
    """A camera and an image size in the form used by the kernels."""

    matrix: FloatArray
    """(4, 4) float64, maps (x, y, z, 1) in metres, world frame, to (u w, v w, w, depth): the homogeneous
    pixel, and the depth in metres.
    """
    perspective: bool  # True if w is the depth; otherwise w is 1 (orthographic)
    near: float  # near plane in metres; nothing closer is drawn


def projection(camera: Camera | MapCamera, width: int, height: int) -> Projection:
    """Return the projection of `camera` for an image of `width` × `height` pixels."""
    if isinstance(camera, MapCamera):
        return Projection(_map_matrix(camera, width, height), False, 0.0)
    turn = camera.pose[:3, :3].T
    local, matrix = np.empty((3, 4)), np.empty((4, 4))
    local[:, :3], local[:, 3] = turn, -turn @ np.asarray(camera.position)
    matrix[:3], matrix[3] = camera.intrinsics(width, height) @ local, local[2]
    return Projection(matrix, True, NEAR_METRES)


def _map_matrix(camera: MapCamera, width: int, height: int) -> FloatArray:
    scale = 1 / camera.metres_per_pixel
    x, y = camera.centre
    return np.array(
        [
            [scale, 0, 0, width / 2 - x * scale],
            [0, -scale, 0, height / 2 + y * scale],
            [0, 0, 0, 1],
            [0, 0, -1, camera.height],
        ]
    )


def focal_scale(camera: Camera | MapCamera, height: int) -> float:
    """Return pixels per metre (at 1 m depth for a perspective camera)."""
    if isinstance(camera, MapCamera):
        return 1 / camera.metres_per_pixel
    return camera.focal(height)


def box_corners(points: NDArray[np.float32]) -> FloatArray:
    """Return the corners, (8, 3) metres, of the bounding box of points, (n, 3)."""
    low, high = points.min(axis=0), points.max(axis=0)
    return np.array(
        [np.where([i & 1, i & 2, i & 4], high, low) for i in range(8)], dtype=np.float64
    )


def far_depth(corners: FloatArray, view: Projection) -> float:
    """Return a depth in metres beyond everything inside the box with these corners, (8, 3)."""
    depths = corners @ view.matrix[3, :3] + view.matrix[3, 3]
    return max(float(depths.max()) * 1.01, view.near + 1.0)


def points_under(
    camera: Camera | MapCamera,
    u: NDArray[np.intp],  # columns, (n,)
    v: NDArray[np.intp],  # rows, (n,)
    depth: FloatArray,  # depths as in a frame, (n,) metres
    size: tuple[int, int],  # width and height of the image in pixels
) -> FloatArray:
    """Return the world points at the given pixels, (n, 3) metres."""
    right, down = u + 0.5 - size[0] / 2, v + 0.5 - size[1] / 2
    if isinstance(camera, MapCamera):
        x = camera.centre[0] + right * camera.metres_per_pixel
        y = camera.centre[1] - down * camera.metres_per_pixel
        return np.column_stack([x, y, camera.height - depth])
    focal = camera.focal(size[1])
    local = np.column_stack([right / focal, down / focal, np.ones(len(u))]) * depth[:, None]
    points: FloatArray = local @ camera.pose[:3, :3].T + np.array(camera.position)
    return points


def pixel_points(
    depth: NDArray[np.float32],  # (H, W) metres, as in a frame
    camera: Camera | MapCamera,
    far: float = np.inf,  # surface at this depth or beyond is ignored
) -> FloatArray:
    """Return the world points of an image's pixels, row by row, (n, 3) metres."""
    v, u = np.nonzero(depth < far)
    return points_under(camera, u, v, depth[v, u].astype(np.float64), depth.shape[::-1])
