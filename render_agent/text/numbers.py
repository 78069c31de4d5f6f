"""Numbers as people and models write them: "0.5", "0.5 m", "-45°", "forty-five", "minus two"."""

from __future__ import annotations

import math
import re
import unicodedata

UNITS = {
    "m": 1.0, "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0,
    "cm": 0.01, "centimeter": 0.01, "centimeters": 0.01, "centimetre": 0.01, "centimetres": 0.01,
    "mm": 0.001, "millimeter": 0.001, "millimeters": 0.001,
    "millimetre": 0.001, "millimetres": 0.001,
}  # fmt: skip
"""How many metres a unit of length has."""

ANGLES = {
    "°": 1.0, "º": 1.0, "deg": 1.0, "degree": 1.0, "degrees": 1.0,
    "rad": 180 / math.pi, "radian": 180 / math.pi, "radians": 180 / math.pi,
}  # fmt: skip
"""How many degrees a unit of angle has."""

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
SMALL_NUMBERS = {word: value for value, word in enumerate(_ONES)} | {
    word: 10 * value for value, word in enumerate(_TENS, start=2)
}
"""English words for 0 to 20, and for the tens up to 90."""

_SCALES = {"dozen": 12, "hundred": 100}
_NAMES = {*SMALL_NUMBERS, *_SCALES, "thousand", "half"}
_SIGNS = {"minus": -1, "negative": -1, "plus": 1}
_FILLERS = {"and", "a", "an"}

_MINUS_SIGNS = str.maketrans(dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\uff0d", "-"))
_VULGAR = re.compile(r"([0-9]{0,9}) ?([\u00bc-\u00be\u2150-\u215e])")
_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]+)?"
_AT_START = re.compile(r"[-+]?" + _DIGITS)
_ALONE = re.compile(r"(?:(?<![a-z0-9_^.])[-+]?|(?<=[0-9]x))" + _DIGITS)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*|[^a-z\s]")


def quantity(value: object, units: dict[str, float]) -> float | None:
    """Return `value` as a finite number, in the unit that `units` counts in.

    Understood are numbers, and texts that hold one number, in digits or words, and at most one
    unit of `units`. None where it is anything else; a truth value is no number.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _finite(value)
    if not isinstance(value, str):
        return None
    text = _normalised(value).rstrip(".")
    if match := _AT_START.match(text):
        number: float | None = float(match[0])
        unit = text[match.end() :].strip()
    else:
        longest_first = sorted(units, key=len, reverse=True)
        unit = next((name for name in longest_first if text.endswith(name)), "")
        number = number_from_words(text.removesuffix(unit))
    if number is None or (unit and unit not in units):
        return None
    return _finite(number * units.get(unit, 1.0))


def only_number(text: str) -> str | None:
    """Return the one number that a text holds, as plain digits; None for none or several.

    "about 3 chairs", "2.0", "twenty-one" and "1,234" are numbers; "3 or 4", "1,5" and "none" are
    not. The same number twice ("2 (two)") is one; a digit inside a word ("m2", "m^2") is none.
    """
    text = _THOUSANDS.sub("", _normalised(text))
    written = {_finite(float(digits)) for digits in _ALONE.findall(text)}
    spoken = {number_from_words(words) for words in _number_words(text)}
    if written:
        spoken.discard(1.0)  # beside digits "one" is a pronoun, as in "3, with the one behind"
    numbers = written | spoken
    number = numbers.pop() if len(numbers) == 1 else None
    if number is None:
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def number_from_words(text: str) -> float | None:
    """Return the number that English words name ("forty-five", "minus one point five"), else None."""
    words = [word for word in text.lower().replace("-", " ").split() if word not in _FILLERS]
    sign = _SIGNS.get(words[0]) if words else None
    if sign:
        del words[0]
    whole, fraction = words, 0.0
    if words[-1:] == ["half"]:
        whole, fraction = words[:-1] or ["zero"], 0.5
    elif "point" in words:
        point = words.index("point")
        whole, digits = words[:point], [SMALL_NUMBERS.get(word, 10) for word in words[point + 1 :]]
        if not digits or max(digits) > 9:
            return None
        fraction = float("0." + "".join(map(str, digits)))
    value = _whole_number(whole)
    return None if value is None else (sign or 1) * (value + fraction)


def _whole_number(words: list[str]) -> int | None:
    if words == ["zero"]:
        return 0
    total, group, room = 0, 0, 1000  # room: the next small number must stay below it
    for word in words:
        if 0 < SMALL_NUMBERS.get(word, 0) < room:
            group += SMALL_NUMBERS[word]
            room = 10 if SMALL_NUMBERS[word] >= 20 else 0
        elif word in _SCALES and group < 100:
            group = (group or 1) * _SCALES[word]
            room = 100 if word == "hundred" else 0
        elif word == "thousand" and not total:
            total, group, room = (group or 1) * 1000, 0, 1000
        else:
            return None
    return (total + group) or None


def _number_words(text: str) -> list[str]:
    """Return every run of words in a text that spell numbers; text is in lower case."""
    runs: list[list[str]] = [[]]
    for word in _WORD.findall(text):
        parts = set(word.split("-"))
        if parts <= _NAMES | _SIGNS.keys() | _FILLERS | {"point"}:
            runs[-1].append(word)
        else:
            runs.append([])
    return [
        " ".join(run) for run in runs if any(part in _NAMES for w in run for part in w.split("-"))
    ]


def _normalised(text: str) -> str:
    """Return a text in lower case, its minus signs plain and its vulgar fractions decimal."""
    text = text.strip().lower().translate(_MINUS_SIGNS)
    return _VULGAR.sub(lambda m: f"{int(m[1] or 0) + unicodedata.numeric(m[2]):.6g}", text)


def _finite(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
