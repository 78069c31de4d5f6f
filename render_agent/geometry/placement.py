"""How a scan's file is placed in the program's frame: which of its axes points up, and how long its unit is."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Axis = Literal["x", "y", "z", "-x", "-y", "-z"]
Unit = Literal["m", "cm", "mm", "ft", "in"]

METRES: dict[Unit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048, "in": 0.0254}
"""How many metres each unit has."""

_TURNED: dict[Axis, tuple[str, str, str]] = {
    "z": ("x", "y", "z"),
    "-z": ("x", "-y", "-z"),
    "y": ("x", "-z", "y"),
    "-y": ("x", "z", "-y"),
    "x": ("y", "z", "x"),
    "-x": ("-y", "z", "-x"),
}
"""By the axis that points up: which axes of the file become x, y and z. None is a mirror image."""

AXES = tuple(_TURNED)


def upright_turn(up: Axis) -> NDArray[np.float64]:
    """Return the turn, (3, 3), after which a scan whose axis `up` points up has z up.

    >>> upright_turn("y") @ [1.0, 2.0, 3.0]
    array([ 1., -3.,  2.])
    """
    turn = np.zeros((3, 3))
    for row, axis in enumerate(_TURNED[up]):
        turn[row, "xyz".index(axis[-1])] = -1.0 if axis[0] == "-" else 1.0
    return turn
