"""Sort points and faces along a Morton curve, so that neighbours are close in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.rasteriser.kernels import kernel

CELLS_PER_AXIS = 1024  # ten bits per axis, giving 30-bit codes


@kernel
def _spread_bits(value: Any) -> Any:
    """Insert two zero bits between the ten bits of `value`."""
    value = (value | (value << 16)) & 0x030000FF
    value = (value | (value << 8)) & 0x0300F00F
    value = (value | (value << 4)) & 0x030C30C3
    return (value | (value << 2)) & 0x09249249


@kernel
def _code(x: Any, y: Any, z: Any, low: Any, scale: Any) -> Any:
    top = CELLS_PER_AXIS - 1.0
    i = np.int64(min(max((x - low[0]) * scale[0], 0.0), top))
    j = np.int64(min(max((y - low[1]) * scale[1], 0.0), top))
    k = np.int64(min(max((z - low[2]) * scale[2], 0.0), top))
    return np.uint32(_spread_bits(i) | (_spread_bits(j) << 1) | (_spread_bits(k) << 2))


@kernel
def point_codes(points: Any, low: Any, scale: Any) -> Any:
    """Return the Morton codes of points, (n,) uint32; points are (n, 3) in metres."""
    codes = np.empty(len(points), np.uint32)
    for i in range(len(points)):
        codes[i] = _code(points[i, 0], points[i, 1], points[i, 2], low, scale)
    return codes


@kernel
def face_codes(points: Any, faces: Any, low: Any, scale: Any) -> Any:
    """Return the Morton codes of the centroids of faces, (m,) uint32."""
    codes = np.empty(len(faces), np.uint32)
    third = 1.0 / 3.0
    for i in range(len(faces)):
        a, b, c = faces[i, 0], faces[i, 1], faces[i, 2]
        x = (points[a, 0] + points[b, 0] + points[c, 0]) * third
        y = (points[a, 1] + points[b, 1] + points[c, 1]) * third
        z = (points[a, 2] + points[b, 2] + points[c, 2]) * third
        codes[i] = _code(x, y, z, low, scale)
    return codes


def sorted_order(codes: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Return the stable order that sorts codes, (n,) int32."""
    # Faster than a stable argsort, because numpy sorts integers very quickly.
    keys = codes.astype(np.uint64) << np.uint64(32) | np.arange(len(codes), dtype=np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int32)


def grid_of(bounds: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest corner, (3,) metres, and the cells per metre, (3,), of a curve that covers `bounds`."""
    size = np.maximum(bounds[1] - bounds[0], 1e-6)
    return np.ascontiguousarray(bounds[0], float), CELLS_PER_AXIS / np.full(3, size.max())
