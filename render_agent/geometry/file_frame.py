"""The frame of a scan's file: which of its axes points up, how long its unit is, and the turn to ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

AUTO: Literal["auto"] = "auto"
"""Said of an axis or a unit: whatever the file says, or what its format has."""

Axis = Literal["x", "y", "z", "-x", "-y", "-z"]
Up = Literal["auto"] | Axis
Unit = Literal["m", "cm", "mm", "ft", "in"]
AnyUnit = Literal["auto"] | Unit

METRES: dict[Unit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048, "in": 0.0254}
"""How many metres each unit has."""

UNIT_WORDS: dict[Unit, str] = {
    "m": "metres",
    "cm": "centimetres",
    "mm": "millimetres",
    "ft": "feet",
    "in": "inches",
}

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


@dataclass(frozen=True)
class FileFrame:
    """How a scan's file was read: the axis that pointed up in it, and how many metres its unit had.

    asked: what was asked for of the two, each `auto` where the file and its format were left to say.
    """

    up: Axis = "z"
    metres: float = 1.0
    asked: tuple[Up, AnyUnit] = (AUTO, AUTO)

    @property
    def unit(self) -> str:
        """The unit in words."""
        known = (word for unit, word in UNIT_WORDS.items() if METRES[unit] == self.metres)
        return next(known, f"{self.metres:.9g} metres")


def upright_turn(up: Axis) -> NDArray[np.float64]:
    """Return the turn, (3, 3), after which a scan whose axis `up` points up has z up.

    >>> upright_turn("y") @ [1.0, 2.0, 3.0]
    array([ 1., -3.,  2.])
    """
    turn = np.zeros((3, 3))
    for row, axis in enumerate(_TURNED[up]):
        turn[row, "xyz".index(axis[-1])] = -1.0 if axis[0] == "-" else 1.0
    return turn
