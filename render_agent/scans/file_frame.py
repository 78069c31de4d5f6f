"""The frame of a scan's file: which of its axes points up, and how long its unit is; loads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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

UPRIGHT: dict[Axis, tuple[str, str, str]] = {
    "z": ("x", "y", "z"),
    "-z": ("x", "-y", "-z"),
    "y": ("x", "-z", "y"),
    "-y": ("x", "z", "-y"),
    "x": ("y", "z", "x"),
    "-x": ("-y", "z", "-x"),
}
"""By the axis that points up: which axes of the file become x, y and z. None is a mirror image."""

AXES = tuple(UPRIGHT)


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
