"""Choose the up axis of a mesh whose file does not specify it, or suggest another one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.extent import Extent
from render_agent.scans.file_frame import Axis
from render_agent.scans.formats.cleaning import Scan, upright_turn
from render_agent.scans.free_space.surface import areas_and_normals

OTHER: dict[Axis, Axis] = {"y": "z", "z": "y"}  # the axes that exporters confuse

SAMPLED_FACES = 200_000
LEVEL_COSINE = 0.9  # of the angle between the normal of a level face and the up axis
BOTTOM_SHARE = 0.2  # of the height; what is level in it may be the floor
# The other axis is chosen if the level surface at its bottom is larger by this factor, covers this share of its ground
# plan, and if the scan is higher than a room along the usual axis, and lower but high enough along the other one.
MIN_RATIO = 1.5
MIN_COVERED_SHARE = 0.5
MAX_ROOM_METRES = 3.6
MIN_ROOM_METRES = 2.0


def choose_up(scan: Scan, usual: Axis, metres: float) -> tuple[Axis, str | None]:
    """Return the up axis of a scan with the axes of its file and the unit `metres`, and a note if it is not `usual`."""
    other = OTHER.get(usual)
    if other is None or scan.faces is None or not len(scan.faces):
        return usual, None
    faces = np.asarray(scan.faces[:: max(1, len(scan.faces) // SAMPLED_FACES)])
    if faces.min() < 0 or faces.max() >= len(scan.points):  # reported when the scan is cleaned
        return usual, None
    with np.errstate(invalid="ignore", over="ignore"):
        corners = scan.points[faces] * metres
    corners = corners[np.isfinite(corners).all(axis=(1, 2))]
    if not len(corners):
        return usual, None
    floors = {axis: _floor(corners @ upright_turn(axis).T) for axis in (usual, other)}
    height, area, _ = floors[usual]
    other_height, other_area, covered_share = floors[other]
    is_clear = other_area >= MIN_RATIO * area and covered_share >= MIN_COVERED_SHARE
    if not is_clear or not MIN_ROOM_METRES <= other_height < height or height <= MAX_ROOM_METRES:
        return usual, None
    return other, (
        f"assumed {other} up instead of {usual}, because the level surface at the bottom is {other_area / max(area, 1e-9):.1f}"
        f" times as large; override with --up {usual}"
    )


def _floor(corners: NDArray[Any]) -> tuple[float, float, float]:
    """Return the height of triangles, (k, 3, 3) with z up, the area of level ones at the bottom, and its share of the plan."""
    low, high = np.quantile(corners.reshape(-1, 3), (0.01, 0.99), axis=0)
    areas, normals = areas_and_normals(corners)
    at_bottom = corners[:, :, 2].mean(axis=1) <= low[2] + BOTTOM_SHARE * (high[2] - low[2])
    area = float(areas[at_bottom & (np.abs(normals[:, 2]) > LEVEL_COSINE)].sum())
    width, depth, height = (high - low).tolist()
    return height, area, area / max(width * depth, 1e-9)


def side_note(measured: Extent, up: Axis) -> str | None:
    """Return a hint if a scan that was read with this up axis may be lying on its side."""
    x, y, z = measured.bounds[1] - measured.bounds[0]
    other = OTHER.get(up)
    if other is None or not 2.0 <= y <= 3.6 or z < max(3.6, 1.2 * y) or x < y:
        return None
    return f"it measures {y:.1f} m along {other} and {z:.1f} m along {up}; if it lies on its side, pass --up {other}"
