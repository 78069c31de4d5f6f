"""Convert scanner intensities of any scale to grey levels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Lower-case column names that programs use for the measured reflection of a point.
INTENSITY_NAMES = ("intensity", "scalar_intensity", "reflectance", "scalar_reflectance")

GREY_QUANTILES = (0.02, 0.98)  # quantiles that become the darkest and the brightest grey
DARKEST, BRIGHTEST = 25.0, 235.0  # grey levels
SAMPLED_POINTS = 65536  # intensities from which the quantiles are estimated


def stretch_contrast(intensity: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Return intensities stretched to grey levels from DARKEST to BRIGHTEST, (n,); None if they are constant or
    missing.
    """
    valid = intensity[np.isfinite(intensity)]
    if not len(valid):
        return None
    low, high = np.quantile(
        valid[:: max(1, len(valid) // SAMPLED_POINTS)].astype(np.float64), GREY_QUANTILES
    )
    if not high > low:
        low, high = float(valid.min()), float(valid.max())
    if not high > low:
        return None
    share = np.clip((np.nan_to_num(intensity, nan=low) - low) / (high - low), 0, 1)
    return np.asarray(DARKEST + (BRIGHTEST - DARKEST) * share, np.float64)


def intensity_to_grey(intensity: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Return intensities, (n,), as grey colours, (n, 3); None if they are constant or missing."""
    grey = stretch_contrast(intensity.astype(np.float32))
    return None if grey is None else np.rint(grey).astype(np.uint8)[:, None].repeat(3, axis=1)
