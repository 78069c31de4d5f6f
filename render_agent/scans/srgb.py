"""Conversion between sRGB levels and linear light (IEC 61966-2-1)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOE = 0.0031308  # linear light below this is encoded linearly
# entries of the inverse table; the darkest sRGB levels are five entries apart
LIGHT_STEPS = 1 << 14


def to_linear(levels: NDArray[Any]) -> NDArray[np.float64]:
    """Convert sRGB levels, uint8 0 to 255 or float 0 to 1, to linear light from 0 to 1."""
    shares = np.asarray(levels, np.float64)
    if np.asarray(levels).dtype == np.uint8:
        shares = shares / 255
    return np.where(shares <= 12.92 * TOE, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def to_srgb(light: NDArray[Any]) -> NDArray[np.uint8]:
    """Convert linear light to sRGB levels, uint8; values outside 0 to 1 are clipped."""
    light = np.clip(np.nan_to_num(np.asarray(light, np.float64)), 0, 1)
    shares = np.where(light <= TOE, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.asarray(np.floor(shares * 255 + 0.5), np.uint8)


LIGHT_OF_LEVEL = to_linear(np.arange(256, dtype=np.uint8)).astype(np.float32)  # (256,)
LEVEL_OF_LIGHT = to_srgb((np.arange(LIGHT_STEPS + 1)) / LIGHT_STEPS)  # (LIGHT_STEPS + 1,) uint8
