"""Numbers as people and models write them: "0.5", "0.5 m", "-45°", "forty-five", "minus two"."""

from __future__ import annotations

import math
import re

UNITS = {
    "m": 1.0, "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0,
    "cm": 0.01, "centimeter": 0.01, "centimeters": 0.01, "centimetre": 0.01, "centimetres": 0.01,
    "mm": 0.001, "millimeter": 0.001, "millimeters": 0.001,
}  # fmt: skip
"""How many metres a unit of length has."""

ANGLES = {"°": 1.0, "deg": 1.0, "degree": 1.0, "degrees": 1.0, "rad": 180 / math.pi, "radians": 180 / math.pi}  # fmt: skip
"""How many degrees a unit of angle has."""

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_SMALL = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * value for value, word in enumerate(_TENS, start=2)
}
_LARGE = {"hundred": 100, "thousand": 1000}
_SIGNS = {"minus": -1, "negative": -1, "plus": 1}

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?", re.IGNORECASE)


def number_from_words(text: str) -> float | None:
    """Return the number that English words name ("forty-five", "minus one point five"), else None."""
    words = re.findall(r"[a-z]+", text.lower())
    if not words or re.search(r"[^a-zA-Z\s-]", text):
        return None
    sign = _SIGNS.get(words[0])
    whole, point, fraction = " ".join(words[1:] if sign else words).partition(" point ")
    value = _whole_number(whole.split())
    digits = [_SMALL.get(word, 10) for word in fraction.split()]
    if value is None or any(digit > 9 for digit in digits) or (point and not digits):
        return None
    value += sum(digit / 10**place for place, digit in enumerate(digits, start=1))
    return float((sign or 1) * value)


def _whole_number(words: list[str]) -> float | None:
    words = [word for word in words if word not in ("and", "a", "an")]
    if not words:
        return None
    total, group, last = 0.0, 0.0, math.inf
    for word in words:
        if word in _SMALL:
            value = _SMALL[word]
            if value >= last or (last < 20 and last != math.inf):
                return None
            group, last = group + value, value
        elif word == "hundred":
            group, last = (group or 1) * 100, 100
        elif word == "thousand":
            total, group, last = total + (group or 1) * 1000, 0.0, 1000
        else:
            return None
    return total + group


def quantity(value: object, units: dict[str, float]) -> float | None:
    """Return `value` as a finite number, in the unit that `units` counts in.

    Understood are numbers, and texts that hold one number, in digits or words, and at most one
    unit of `units`. None where it is anything else.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _finite(value)
    if not isinstance(value, str):
        return None
    text = value.strip().lower().replace("−", "-")
    if match := _NUMBER.match(text):
        unit = text[match.end() :].strip().rstrip(".")
        return (
            _finite(float(match[0]) * units[unit])
            if unit in units
            else (_finite(float(match[0])) if not unit else None)
        )
    words, _, unit = text.rpartition(" ")
    if unit in units and (number := number_from_words(words)) is not None:
        return _finite(number * units[unit])
    return number_from_words(text)


def only_number(text: str) -> str | None:
    """Return the one number in a text, as it is written or from its words; None for none or several."""
    text = text.strip().replace("−", "-")
    grouped = re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)
    found = [(match[0]) for match in _NUMBER.finditer(grouped)]
    if len(found) == 1:
        return found[0] if _finite(float(found[0])) is not None else None
    if found:
        return None
    words = re.split(r"(?![a-zA-Z\s-])", text, maxsplit=1)[0]
    spoken = number_from_words(words)
    if spoken is None and len(parts := words.split()) > 1:
        spoken = number_from_words(parts[0])
    return None if spoken is None else f"{spoken:g}"


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
