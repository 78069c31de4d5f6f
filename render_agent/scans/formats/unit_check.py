"""Whether a scan is as large as a room can be, and in which unit its file is likelier to be where it is not."""

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

LARGEST_METRES = 1000.0
"""A hall is not wider than this, in metres; a scan that is was written in other units."""

WIDEST_METRES = 200.0
HIGHEST_METRES = 50.0
"""Metres: a scan that is wider or higher is no room, unless its unit was declared."""

NARROWEST_METRES = 0.4
"""Metres: neither is one that is smaller."""

SMALLEST_METRES = 0.2
"""Metres: nor one that is smaller than this, whatever was declared: a camera keeps so far from what it faces."""

ROOM_HEIGHT_METRES = 2.6
"""Metres: how high rooms usually are."""

LIKELY_WIDTH_METRES = (1.5, 60.0)
"""Metres: how wide a scan is that a suggested unit gives."""

FEET_HIGH = (7.0, 12.0)
"""Heights of rooms in feet; in inches a room would be too high to be one in metres."""

QUANTILES = (0.01, 0.99)
SAMPLED_POINTS = 65536


def refuse_too_wide(points: NDArray[Any], path: Path, metres: float, *, declared: bool) -> None:
    """SceneError where a scan is far wider than a room, outliers aside.

    points: (n, 3), metres. metres: how long the unit of its file was taken to be. declared: whether the unit was given
    with `--unit`.
    """
    low, high = np.quantile(points[:: max(1, len(points) // SAMPLED_POINTS)], QUANTILES, axis=0)
    size = (high - low).astype(np.float64)
    if _too_large(size, declared=declared):
        raise _impossible(size, path, metres, declared=declared)


def refuse_impossible(measured: Extent, path: Path, metres: float, *, declared: bool) -> None:
    """SceneError where a room is as large or as small as no room is; arguments as in `refuse_too_wide`."""
    size = measured.bounds[1] - measured.bounds[0]
    least = SMALLEST_METRES if declared else NARROWEST_METRES
    if size.max() <= least or _too_large(size, declared=declared):
        raise _impossible(size, path, metres, declared=declared)


def unit_note(measured: Extent) -> str | None:
    """Return a sentence where a room that was taken to be in metres is as many metres high as rooms are feet."""
    height = measured.ceiling - measured.floor
    if not FEET_HIGH[0] <= height <= FEET_HIGH[1]:
        return None
    return (
        f"its ceiling lies {height:.1f} m above its floor: if the file is in feet, give --unit ft"
    )


def side_note(measured: Extent) -> str | None:
    """Return a sentence where a scan whose upright axis was taken to be z may lie on its side."""
    x, y, z = measured.bounds[1] - measured.bounds[0]
    if not 2.0 <= y <= 3.6 or z < max(3.6, 1.2 * y) or x < y:
        return None
    return f"it is {y:.1f} m along y and {z:.1f} m along z: if it lies on its side, give --up y"


def _too_large(size: NDArray[np.float64], *, declared: bool) -> bool:
    """Whether a scan of this size, (3,) metres, is larger than rooms are."""
    if declared:
        return bool(size.max() > LARGEST_METRES)
    return bool(size.max() > WIDEST_METRES or size[2] > HIGHEST_METRES)


def _impossible(
    size: NDArray[np.float64], path: Path, metres: float, *, declared: bool
) -> SceneError:
    sides = (f"{side:,.0f}" if side >= 100 else f"{side:.3g}" for side in size)
    wide = "it is " + " x ".join(sides) + " m large, which no room is"
    unit = _likely_unit(size / metres)
    remedy = "give its unit, such as --unit mm" if size.max() > 1 else "export it in metres"
    if declared:
        remedy = "export it in metres, or give another --unit"
    if unit is not None:
        then = " x ".join(f"{side:.3g}" for side in size / metres * METRES[unit])
        remedy = f"if it is in {UNIT_WORDS[unit]}, give --unit {unit} ({then} m)"
    if not declared and SMALLEST_METRES < size.max() <= LARGEST_METRES:
        remedy += "; --unit m says that metres are meant"
    return unreadable(path, wide, remedy)


def _likely_unit(size: NDArray[np.float64]) -> Unit | None:
    """Return the unit in which a scan of this size, (3,) in units of its file, is most like a room."""
    narrowest, widest = LIKELY_WIDTH_METRES
    fits = [unit for unit, metres in METRES.items() if narrowest <= size.max() * metres <= widest]
    height = max(float(size[2]), 1e-12)
    return min(
        fits, key=lambda unit: abs(log(height * METRES[unit] / ROOM_HEIGHT_METRES)), default=None
    )
