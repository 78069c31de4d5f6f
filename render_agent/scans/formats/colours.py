"""Convert colours and scanner intensities of any range to bytes, judging by the values of whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Floating-point values may exceed their maximum slightly after filtering.
MAX_SHARE = 1.01

# Lower-case column names that programs use for the measured reflection of a point.
INTENSITY_NAMES = ("intensity", "scalar_intensity", "reflectance", "scalar_reflectance")

GREY_QUANTILES = (0.02, 0.98)  # quantiles that become the darkest and the brightest grey
DARKEST, BRIGHTEST = 25.0, 235.0  # grey levels
SAMPLED_POINTS = 65536  # intensities from which the quantiles are estimated


def colour_bits(top: float, *, are_integers: bool = False) -> int:
    """Return the bits per channel of colours whose maximum is `top`: 8, 16, 32 (integers only), or 0 for values from 0 to 1."""
    if top <= MAX_SHARE and not are_integers:
        return 0
    if are_integers and top > 65535:
        return 32
    return 16 if top > 255 * (1 if are_integers else MAX_SHARE) else 8


def colour_bytes(colours: NDArray[Any], bits: int | None = None) -> NDArray[np.uint8]:
    """Convert colours of any shape with `bits` as in `colour_bits`, None for their own, to uint8; NaN becomes 0."""
    if bits is None:
        top = float(np.nan_to_num(colours, posinf=0.0).max(initial=0))
        bits = colour_bits(top, are_integers=colours.dtype.kind in "iu")
    if colours.dtype == np.uint8 and bits == 8:
        return colours
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values are clipped
        levels = np.nan_to_num(colours.astype(np.float32) * (255 if bits == 0 else 1))
        levels = np.clip(np.rint(levels), 0, 2.0 ** (bits or 8) - 1)
    # Writers scale 8 bits by 256 or by 257; the upper byte is right in both cases.
    return np.asarray(np.minimum(levels // 2 ** max(bits - 8, 0), 255), np.uint8)


def stretch_contrast(intensity: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Return intensities as grey levels from DARKEST to BRIGHTEST, (n,); None if they are constant or missing."""
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
