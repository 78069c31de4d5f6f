"""Check the up axis and the unit that were assumed of a scan file, and suggest others if it looks unlike a room."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.extent import Extent
from render_agent.scans.file_frame import METRES, UNIT_WORDS, Axis, Unit
from render_agent.scans.formats.cleaning import Scan, unreadable, upright_turn
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

MAX_DECLARED_METRES = 1000.0  # no scan may be wider, even with a declared unit

# Limits for scans whose unit was not declared.
MAX_WIDTH_METRES = 200.0
MAX_HEIGHT_METRES = 50.0
MIN_WIDTH_METRES = 0.4

# No scan may be smaller, even with a declared unit: a camera keeps this clearance.
MIN_DECLARED_METRES = 0.2
ROOM_HEIGHT_METRES = 2.6  # typical
LIKELY_WIDTH_METRES = (1.5, 60.0)  # plausible widths for a suggested unit
# Room heights in feet that are also possible in metres; in inches they are not.
ROOM_HEIGHTS_FEET = (7.0, 12.0)

QUANTILES = (0.01, 0.99)
SAMPLED_POINTS = 65536


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
    """Return the height of triangles, (k, 3, 3), the area of level ones at the bottom, and its share of the plan."""
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


def refuse_too_wide(
    points: NDArray[Any],  # (n, 3) metres
    path: Path,
    metres: float,  # length of the file's unit in metres, as it was interpreted
    *,
    declared: bool,
) -> None:
    """Raise SceneError if a scan is far too wide for a room, ignoring outliers."""
    low, high = np.quantile(points[:: max(1, len(points) // SAMPLED_POINTS)], QUANTILES, axis=0)
    size = (high - low).astype(np.float64)
    if _too_large(size, declared=declared):
        raise _impossible(size, path, metres, declared=declared)


def refuse_impossible(extent: Extent, path: Path, metres: float, *, declared: bool) -> None:
    """Raise SceneError if no room can be this large or small; arguments as in `refuse_too_wide`."""
    size = extent.bounds[1] - extent.bounds[0]
    min_size = MIN_DECLARED_METRES if declared else MIN_WIDTH_METRES
    if size.max() <= min_size or _too_large(size, declared=declared):
        raise _impossible(size, path, metres, declared=declared)


def unit_note(measured: Extent) -> str | None:
    """Return a hint if a scan assumed to be in metres could be in feet, judging by its height."""
    height = measured.ceiling - measured.floor
    if not ROOM_HEIGHTS_FEET[0] <= height <= ROOM_HEIGHTS_FEET[1]:
        return None
    return f"the ceiling is {height:.1f} m above the floor; if the file is in feet, pass --unit ft"


def _too_large(size: NDArray[np.float64], *, declared: bool) -> bool:
    """Return True if a scan of this size, (3,) metres, is too large for a room."""
    if declared:
        return bool(size.max() > MAX_DECLARED_METRES)
    return bool(size.max() > MAX_WIDTH_METRES or size[2] > MAX_HEIGHT_METRES)


def _impossible(
    size: NDArray[np.float64], path: Path, metres: float, *, declared: bool
) -> SceneError:
    sides = (f"{side:,.0f}" if side >= 100 else f"{side:.3g}" for side in size)
    reason = "its size, " + " x ".join(sides) + " m, is impossible for a room"
    unit = _likely_unit(size / metres)
    remedy = "pass its unit, such as --unit mm" if size.max() > 1 else "export it in metres"
    if declared:
        remedy = "export it in metres, or pass another --unit"
    if not declared and size.max() * METRES["mm"] > MAX_DECLARED_METRES:
        remedy = "it is damaged, or read in the wrong byte order: export it again"
    if unit is not None:
        converted = " x ".join(f"{side:.3g}" for side in size / metres * METRES[unit])
        remedy = f"if it is in {UNIT_WORDS[unit]}, pass --unit {unit} ({converted} m)"
    if not declared and MIN_DECLARED_METRES < size.max() <= MAX_DECLARED_METRES:
        remedy += "; if it really is in metres, pass --unit m"
    return unreadable(path, reason, remedy)


def _likely_unit(size: NDArray[np.float64]) -> Unit | None:
    """Return the unit that makes a scan of this size, (3,) in file units, most similar to a room; None if none does."""
    narrowest, widest = LIKELY_WIDTH_METRES
    fits = [unit for unit, metres in METRES.items() if narrowest <= size.max() * metres <= widest]
    height = max(float(size[2]), 1e-12)
    return min(
        fits, key=lambda unit: abs(log(height * METRES[unit] / ROOM_HEIGHT_METRES)), default=None
    )
