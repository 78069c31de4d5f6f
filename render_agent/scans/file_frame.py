"""The frame of a scan file: its up axis and unit. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AUTO: Literal["auto"] = "auto"

Axis = Literal["z", "-z", "y", "-y", "x", "-x"]
Up = Literal["auto"] | Axis
Unit = Literal["m", "cm", "mm", "ft", "in"]
AnyUnit = Literal["auto"] | Unit

METRES: dict[Unit, float] = {"m": 1.0, "cm": 0.01, "mm": 0.001, "ft": 0.3048, "in": 0.0254}

UNIT_WORDS: dict[Unit, str] = {
    "m": "metres",
    "cm": "centimetres",
    "mm": "millimetres",
    "ft": "feet",
    "in": "inches",
}

# up axis of the file -> the file axes that become x, y and z; all are rotations, without mirroring
UPRIGHT: dict[Axis, tuple[str, str, str]] = {
    "z": ("x", "y", "z"),
    "-z": ("x", "-y", "-z"),
    "y": ("x", "-z", "y"),
    "-y": ("x", "z", "-y"),
    "x": ("y", "z", "x"),
    "-x": ("-y", "z", "-x"),
}


@dataclass(frozen=True)
class FileFrame:
    """The interpretation of a scan file's coordinates."""

    up: Axis = "z"  # axis that points up in the file
    metres: float = 1.0  # length of the file's unit in metres
    asked: tuple[Up, AnyUnit] = (AUTO, AUTO)  # up axis and unit that the user specified, or "auto"
    assumed: tuple[Literal["up", "unit"], ...] = ()
    """Properties that neither the file, its format nor the user specified."""

    @property
    def unit(self) -> str:
        """The unit as a word, such as "metres"."""
        words = (word for unit, word in UNIT_WORDS.items() if METRES[unit] == self.metres)
        return next(words, f"{self.metres:.9g} metres")

    @property
    def description(self) -> str:
        """The frame in words, such as "y up, feet" or "assumed z up and metres; not specified in the file"."""
        words = {"up": f"{self.up} up", "unit": self.unit}
        known_words = ", ".join(text for part, text in words.items() if part not in self.assumed)
        guesses = " and ".join(text for part, text in words.items() if part in self.assumed)
        guess = guesses and f"assumed {guesses}; not specified in the file"
        return "; ".join(filter(None, (known_words, guess)))
