"""Check that a scan has the size of a room, and suggest the likely unit if it has not."""

from __future__ import annotations

from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.extent import Extent
from render_agent.scans.file_frame import METRES, UNIT_WORDS, Unit
from render_agent.scans.formats.cleaning import unreadable

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
