"""Parse numbers as people and models write them: "0.5", "0.5 m", "-45°", "1,234", "twelve"."""

from __future__ import annotations

import math
import re

# Metres per unit of length.
UNITS = {
    "m": 1.0, "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0,
    "cm": 0.01, "centimeter": 0.01, "centimeters": 0.01, "centimetre": 0.01, "centimetres": 0.01,
    "mm": 0.001, "millimeter": 0.001, "millimeters": 0.001,
    "millimetre": 0.001, "millimetres": 0.001,
}  # fmt: skip

# Degrees per unit of angle.
ANGLES = {
    "°": 1.0, "º": 1.0, "deg": 1.0, "degree": 1.0, "degrees": 1.0,
    "rad": 180 / math.pi, "radian": 180 / math.pi, "radians": 180 / math.pi,
}  # fmt: skip

# English number words from 0 to 20.
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
_SPOKEN = re.compile(_WORD)
_AT_START = re.compile(rf"[-+]?{_DIGITS}|{_WORD}")
_ALONE = re.compile(r"(?:(?<![a-z0-9_^.])[-+]?|(?<=[0-9]x))" + _DIGITS)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
# Words that change the value of a number word next to them.
_LARGER = re.compile(
    r"\b(?:minus|negative|point|half|dozen|hundred|thousand|million|(?:thir|for|fif|six|seven|eigh|nine)ty)\b"
)


def parse_quantity(value: object, units: dict[str, float]) -> float | None:
    """Return `value` as a finite number in the base unit of `units`, or None if it is not one.

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


def parse_only_number(text: str) -> str | None:
    """Return the only number in a text as plain digits; None if there are none or several.

    "about 3 chairs", "2.0", "twelve" and "1,234" contain one number; "3 or 4", "1,5" and "none" do not. A repeated
    number ("2 (two)") counts once; digits inside a word ("m2", "m^2") do not count.
    """
    text = _THOUSANDS.sub("", _normalise(text))
    written = {_finite(float(digits)) for digits in _ALONE.findall(text)}
    spoken = {_value(word) for word in _SPOKEN.findall(text)}
    if spoken and _LARGER.search(text):
        return None
    if written:
        spoken.discard(1.0)  # next to digits, "one" is a pronoun, as in "3, with the one behind"
    numbers = written | spoken
    number = numbers.pop() if len(numbers) == 1 else None
    if number is None:
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


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


def is_number(word: str) -> bool:
    """Return True if Python's `float` parses a text, which is also the rule of VSI-Bench's scorer."""
    try:
        float(word)
    except ValueError:
        return False
    return True
