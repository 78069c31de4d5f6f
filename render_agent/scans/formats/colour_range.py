"""Convert colours of any range to bytes, judging by the type and the maximum of whole columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

# Floating-point values may exceed their maximum slightly after filtering.
MAX_SHARE = 1.01


def colour_bits(top: float, *, are_integers: bool = False) -> int:
    """Return the bits per channel of colours whose maximum is `top`: 8, 16, 32 (integers only), or 0 for values from 0 to 1."""
    if top <= MAX_SHARE and not are_integers:
        return 0
    if are_integers and top > 65535:
        return 32
    return 16 if top > 255 * (1 if are_integers else MAX_SHARE) else 8


def colour_bytes(colours: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Convert colours of any shape with `bits` as in `colour_bits` to uint8; NaN becomes 0."""
    if colours.dtype == np.uint8 and bits == 8:
        return colours
    with np.errstate(over="ignore", invalid="ignore"):  # infinite values are clipped
        levels = np.nan_to_num(colours.astype(np.float32) * (255 if bits == 0 else 1))
        levels = np.clip(np.rint(levels), 0, 2.0 ** (bits or 8) - 1)
    # Writers scale 8 bits by 256 or by 257; the upper byte is right in both cases.
    return np.asarray(np.minimum(levels // 2 ** max(bits - 8, 0), 255), np.uint8)
