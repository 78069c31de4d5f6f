"""Parses numbers as people and models write them: "0.5", "0.5 m", "-45°", "1,234", "twelve"."""

from __future__ import annotations

import math
import re
from numbers import Real

# metres per unit of length
UNITS = {
    "m": 1.0, "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0,
    "cm": 0.01, "centimeter": 0.01, "centimeters": 0.01, "centimetre": 0.01, "centimetres": 0.01,
    "mm": 0.001, "millimeter": 0.001, "millimeters": 0.001,
    "millimetre": 0.001, "millimetres": 0.001,
}  # fmt: skip

# degrees per unit of angle
ANGLES = {
    "°": 1.0, "º": 1.0, "deg": 1.0, "degree": 1.0, "degrees": 1.0,
    "rad": 180 / math.pi, "radian": 180 / math.pi, "radians": 180 / math.pi,
}  # fmt: skip

# English number words from 0 to 20
SMALL_NUMBERS = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
        " sixteen seventeen eighteen nineteen twenty".split()
    )
}
_MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\uff0d", "-"))
_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]+)?"
_WORD = rf"(?<![a-z-])(?:{'|'.join(SMALL_NUMBERS)})(?![a-z-])"
_AT_START = re.compile(rf"[-+]?{_DIGITS}|{_WORD}")


def parse_quantity(value: object, units: dict[str, float]) -> float | None:
    """Return `value` as a finite number in the base unit of `units`; None if it is not a quantity.

    Text may contain one number, in digits or as a word up to twenty, and one unit. Booleans are not numbers.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value)
    if not isinstance(value, str):
        return None
    text = _normalise(value).rstrip(".")
    match = _AT_START.match(text)
    unit = text[match.end() :].strip() if match else ""
    if not match or (unit and unit not in units):
        return None
    return _finite(_value(match[0]) * units.get(unit, 1.0))


def _value(number: str) -> float:
    return float(SMALL_NUMBERS.get(number, number))


def _normalise(text: str) -> str:
    """Return the text in lower case with ASCII minus signs."""
    return text.strip().lower().translate(_MINUS_SIGNS)


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def is_finite_number(value: object) -> bool:
    """Return True for a finite number of Python or numpy, but not for a boolean."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


def is_number(word: str) -> bool:
    """Return True if Python's `float` parses a text, which is also the rule of VSI-Bench's scorer."""
    try:
        float(word)
    except ValueError:
        return False
    return True
