"""Colours as a screen shows them (sRGB) and as light adds up (linear)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOE = 0.0031308
"""Of linear light below this the curve of IEC 61966-2-1 is a straight line."""

LIGHT_STEPS = 1 << 14
"""Steps of linear light that are told apart; the darkest levels of a screen are five of them apart."""


def linear(levels: NDArray[Any]) -> NDArray[np.float64]:
    """Return the linear light, 0 to 1, of a screen's levels: bytes of 0 to 255, or numbers of 0 to 1."""
    shares = np.asarray(levels, np.float64)
    if np.asarray(levels).dtype == np.uint8:
        shares = shares / 255
    return np.where(shares <= 12.92 * TOE, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def screen(light: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the levels, uint8, with which a screen shows linear light of 0 to 1; the rest is cut off."""
    light = np.clip(np.nan_to_num(np.asarray(light, np.float64)), 0, 1)
    shares = np.where(light <= TOE, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.asarray(np.floor(shares * 255 + 0.5), np.uint8)


LIGHT_OF_LEVEL = linear(np.arange(256, dtype=np.uint8)).astype(np.float32)
"""(256,) the linear light of every level."""

LEVEL_OF_LIGHT = screen((np.arange(LIGHT_STEPS + 1)) / LIGHT_STEPS)
"""(LIGHT_STEPS + 1,) uint8, the level of every step of linear light."""
