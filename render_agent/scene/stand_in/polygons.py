"""Polygons cut into triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Polygons = dict[int, NDArray[Any]]
"""Faces by their number of corners k: (n, k) vertex indices each."""


def triangles(polygons: Polygons) -> NDArray[Any]:
    """Return polygons as triangles, (m, 3) vertex indices: each is cut as a fan from its first corner.

    Polygons of fewer than three corners have no surface and are left out.
    """
    parts = [np.empty((0, 3), np.int32)]
    for corners, faces in sorted(polygons.items()):
        if corners == 3:
            parts.append(faces)
        elif corners > 3:
            fan = [(0, corner, corner + 1) for corner in range(1, corners - 1)]
            parts.append(faces[:, np.array(fan)].reshape(-1, 3))
    solid = [part for part in parts if len(part)]
    return solid[0] if len(solid) == 1 else np.concatenate(solid or parts)
