"""Colours for scans that have none, so that their shape can be seen; the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.formats.point_cloud import cloud_normals
from render_agent.scene.free_space.surface import areas_and_normals, corners_of

LIGHT = np.array([0.48, 0.30, 0.82], np.float32)
"""Three directions are told apart by how far they agree with the light: floors, and two walls."""

DARKEST, BRIGHTEST = 70.0, 235.0

LOW = np.array([0.82, 0.92, 1.00], np.float32)
HIGH = np.array([1.00, 0.93, 0.80], np.float32)
"""Tints of the lowest and the highest points of a cloud."""


def shaded_mesh(points: NDArray[np.float32], faces: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return colours, (n, 3) uint8, of a mesh: grey, lighter where it faces the light."""
    return _grey(_vertex_normals(points, faces))[:, None].repeat(3, axis=1).astype(np.uint8)


def shaded_cloud(points: NDArray[np.float32], low: float, high: float) -> NDArray[np.uint8]:
    """Return colours, (n, 3) uint8, of a cloud: by its normals, tinted from `low` to `high` metres."""
    height = np.clip((points[:, 2] - low) / max(high - low, 1e-6), 0, 1).astype(np.float32)
    tint = LOW + height[:, None] * (HIGH - LOW)
    colours: NDArray[np.uint8] = (_grey(cloud_normals(points))[:, None] * tint).astype(np.uint8)
    return colours


def _grey(normals: NDArray[Any]) -> NDArray[np.float32]:
    """Return brightness, (n,), by how far normals (n, 3), of either sign, agree with the light."""
    agreement = (np.abs(normals.astype(np.float32)) @ LIGHT) / np.linalg.norm(LIGHT)
    grey = DARKEST + (BRIGHTEST - DARKEST) * np.clip(agreement, 0, 1)
    return np.asarray(grey, np.float32)


def _vertex_normals(points: NDArray[np.float32], faces: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return unit normals, (n, 3), of vertices: of their faces, weighted by area."""
    sums = np.zeros((len(points), 3))
    first = 0
    for corners in corners_of(points, faces):
        areas, normals = areas_and_normals(corners)
        weighted = normals * areas[:, None]
        for corner in range(3):
            at = faces[first : first + len(corners), corner]
            for axis in range(3):
                sums[:, axis] += np.bincount(at, weighted[:, axis], minlength=len(points))
        first += len(corners)
    length = np.linalg.norm(sums, axis=1)
    return np.asarray(sums / np.maximum(length, 1e-20)[:, None], np.float32)
