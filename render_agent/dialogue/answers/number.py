"""Reads the number in an answer. docs/explanation/scores.md states the rule."""

from __future__ import annotations

import math
import re

from render_agent.dialogue.answers.stated import normalise, read_stated
from render_agent.util.numbers import SMALL_NUMBERS

_DIGITS = r"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[-+]?[0-9]++)?"

# A number on its own: not part of a word, an exponent, an ordinal ("2nd") or "3D".
_WRITTEN = re.compile(
    r"(?:(?<![a-z0-9^.])(?<![a-z0-9]_)[-+]?|(?<=[0-9]x))"
    + _DIGITS
    + r"(?!_?[0-9])(?!\.[0-9])(?!(?:st|nd|rd|th|d)\b)",
    re.IGNORECASE,
)
_TENS = {
    word: value
    for value, word in zip(
        range(20, 100, 10),
        "twenty thirty forty fifty sixty seventy eighty ninety".split(),
        strict=True,
    )
}
_SPOKEN = re.compile(
    rf"(?<![a-z-])(?:({'|'.join(_TENS)})[\s-]({'|'.join([*SMALL_NUMBERS][1:10])})"
    rf"|({'|'.join({**SMALL_NUMBERS, **_TENS})}))(?![a-z-])",
    re.IGNORECASE,
)

# Words that change the value of a number word next to them.
_LARGER = re.compile(
    r"\b(?:minus|negative|point|half|halves|thirds?|quarters?|dozen|hundred|thousand|million)\b",
    re.IGNORECASE,
)
_MULTIPLIED = re.compile(
    r"[0-9][\s-]*(?:hundred|thousand|million|billion|dozen|k)\b|[¼-¾⅐-⅞]", re.IGNORECASE
)
_OPERATION = re.compile(r"[0-9)²]\s*[-+*/×÷·^x]\s*[(0-9a-z√]|[√*×·]|\bsqrt\b", re.IGNORECASE)
_SIGNS = str.maketrans(
    dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014", "-") | dict.fromkeys("≈≅", "=")
)
_THOUSANDS = re.compile(r"(?<![0-9.,])([1-9][0-9]{0,2})((?:[ ,'_][0-9]{3})+)(?![0-9])")

_SENTENCE_END = re.compile(r"[;\n]|[.,](?=\s|\Z)")
_TOLERANCE = re.compile(r"(?:±|\+/-)\s*[0-9.]+")
_RULED_OUT = re.compile(
    r"(?:\bnot|n't|\brather\s+than|\binstead\s+of)\s+(?:be\s+)?[-+]?[0-9][0-9.,]*", re.IGNORECASE
)
_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_CONVERSION = re.compile(
    r"(?<![0-9.,])[-+]?[0-9][0-9.,]*+[\s-]{0,3}(?:sq(?:uare|\.)?\s*)?(?:(?:feet|foot|ft|inch(?:es)?|yards?|yd)(?:\^?[2²])?\b|in\b\.?(?=\s*(?:[),;]|\Z)))",
    re.IGNORECASE,
)


def number_in(text: str) -> str | None:
    """Return the only number that an answer states, as plain digits; None if it states none or several.

    "about 3 chairs", "1,234", "twelve", "256 + 37 = 293" and "2.5 meters (8.2 feet)" state one number; "3 or 4", "2-3",
    "1/2", "1,5", "not 3" and "none" do not. A repeated number ("2 (two)") counts once.
    """
    text = normalise(text).translate(_SIGNS)
    return read_stated(_THOUSANDS.sub(_without_separators, text), _find_numbers)


def _find_numbers(text: str) -> set[str | None]:
    """Return the numbers in a part of an answer; None stands for a number that cannot be parsed.

    Results of equations take precedence over other numbers. Numbers in brackets, feet or inches count only if there
    are no others.
    """
    text = _RULED_OUT.sub("", _TOLERANCE.sub("", text))
    metric = _CONVERSION.sub("", text)
    results = [_equation_result(sentence) for sentence in _SENTENCE_END.split(metric)]
    for part in (" ; ".join(results), _BRACKETED.sub("", metric), metric, text):
        if numbers := _parse_numbers(part):
            return numbers
    return set()


def _equation_result(sentence: str) -> str:
    """Return the text after the last equals sign; the whole sentence if it gives one value in two forms ("1.8 m = 180
    cm").
    """
    expression, equals, value = sentence.rpartition("=")
    is_equation = len(_WRITTEN.findall(expression)) != 1 or _OPERATION.search(expression)
    return (value if is_equation else sentence) if equals else ""


def _parse_numbers(text: str) -> set[str | None]:
    numerals = {_finite(digits) for digits in _WRITTEN.findall(text)}
    words: set[str | None] = {_spoken_number(*match) for match in _SPOKEN.findall(text.lower())}
    if (words and _LARGER.search(text)) or _MULTIPLIED.search(text):
        return {None}
    if numerals:
        words.discard("1")  # next to digits, "one" is a pronoun, as in "3, with the one behind"
    return numerals | words


def _spoken_number(tens: str, ones: str, word: str) -> str:
    """Return the value of "twenty-one", given as tens and ones, or of any other number word."""
    values = {**SMALL_NUMBERS, **_TENS}
    return str(values[word] if word else values[tens] + values[ones])


def _finite(digits: str) -> str | None:
    """Return a number in plain digits; None if it overflows."""
    number = float(digits)
    if not math.isfinite(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _without_separators(number: re.Match[str]) -> str:
    return re.sub("[ ,'_]", "", number[0])
