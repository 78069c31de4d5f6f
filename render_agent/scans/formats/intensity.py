"""The intensities of a scanner, of whatever scale, as greys."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

INTENSITY_NAMES = ("intensity", "scalar_intensity", "reflectance", "scalar_reflectance")
"""Names, in small letters, under which programs write what a scanner measured of each point's reflection."""

STRETCH = (0.02, 0.98)
"""Quantiles of the intensities that become the darkest and the brightest grey."""

DARKEST, BRIGHTEST = 25.0, 235.0

SAMPLED = 65536
"""Of more intensities, every k-th is looked at."""


def stretched(intensity: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Return intensities as greys from DARKEST to BRIGHTEST, (n,); None where they tell nothing."""
    known = intensity[np.isfinite(intensity)]
    if not len(known):
        return None
    low, high = np.quantile(known[:: max(1, len(known) // SAMPLED)].astype(np.float64), STRETCH)
    if not high > low:
        low, high = float(known.min()), float(known.max())
    if not high > low:
        return None
    share = np.clip((np.nan_to_num(intensity, nan=low) - low) / (high - low), 0, 1)
    return np.asarray(DARKEST + (BRIGHTEST - DARKEST) * share, np.float64)


def greys(intensity: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Return intensities, (n,), as greys (n, 3); None where they tell nothing."""
    grey = stretched(intensity.astype(np.float32))
    return None if grey is None else np.rint(grey).astype(np.uint8)[:, None].repeat(3, axis=1)
