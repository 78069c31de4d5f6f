"""The answers that a question accepts: what a schema permits, what the model is told, and how a text is read.

Reading is strict: a text in no accepted form is no answer, and the model is asked again.
docs/explanation/scores.md states the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from render_agent.dialogue.wording import Wording
from render_agent.util.numbers import SMALL_NUMBERS

# The answer in the form `pose` is the camera's pose at the end of the dialogue: replies contain none.
AnswerForm = Literal["letter", "number", "text", "pose"]

MAX_OPTIONS = 26  # one per letter of the alphabet

MAX_ANSWER_CHARACTERS = 2_000  # longer texts are not parsed as a letter or a number

_NUMBER_AS_TEXT = "^-?[0-9]{1,6}(\\.[0-9]{1,4})?$"  # numbers of a model that answers in words

_LETTERED = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)

FULL_WIDTH: dict[int, int | str] = {
    code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)
}  # full-width ASCII -> ASCII
_LETTER_AND_TEXT = re.compile(r"([a-z])(?:[.:,;]\s?|-\s|\s)(.+)")
_SPELLINGS: dict[int, int | str] = {
    **FULL_WIDTH,
    **dict.fromkeys(map(ord, "\u2212\u2010\u2011\u2012\u2013\u2014"), "-"),
    **dict.fromkeys(map(ord, "\0\u00ad\u200b\u200c\u200d\u2060\ufeff"), ""),
    ord("\u3002"): ".",
}
# Quotes, brackets, emphasis, and markup in LaTeX and HTML.
_DECORATION = re.compile(
    r"\\(?:text|math|operatorname|f?box)[a-z]*(?=\s*\{)|\\[,;:! ()\[\]]|</?[a-z]+>|['\"`*_$(){}<>\[\]“”„‘’«»「」『』【】]",
    re.IGNORECASE,
)
_QUOTE = re.compile("['\"“”„‘’]")
_LOOSE_SPACE = re.compile(r"\s+(?=[.,:;^²-])|(?<=\^)\s+|\s+(?=\s)")
_BOX = re.compile(r"(?:^|(?<=[.!?:;=\n])|\bis)[\s$]*\\f?box(?:ed)?\s*(?=\{)", re.IGNORECASE)
# A sentence that states the answer; it must be the last one.
_STATEMENT = re.compile(
    r"(?:^|[.!?:;\n])\s*+(?:(?:so|thus|hence|therefore),? )?(?:(?:the|my) )?(?:(?:final|correct|best|right) )*"
    r"(?:answer|option|choice)(?: is:?|:| =)\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_PHRASE = re.compile(r"\b(?:answer|option|choice)s?\b", re.IGNORECASE)

_UNITS = {
    "m": r"m|met(?:er|re)s?", "cm": r"cm|centimet(?:er|re)s?", "mm": r"mm|millimet(?:er|re)s?",
    "km": r"km|kilomet(?:er|re)s?", "ft": r"ft|foot|feet", "in": r"in|inch|inches", "yd": r"yd|yards?",
    "deg": r"°|º|deg|degrees?",
}  # fmt: skip
_UNIT = re.compile(
    rf"(sq(?:uare|\.)?\s?)?(?:{'|'.join(f'(?P<{name}>{words})' for name, words in _UNITS.items())})(\^?2|²)?",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")  # as in JSON
_NUMBER = re.compile(
    r"([-+]?(?:(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)(?:e[-+]?[0-9]+)?)(.*)"
    rf"|({'|'.join(SMALL_NUMBERS)})(?:\s+(.*))?",
    re.IGNORECASE,
)
# The unit of a question, as in "(in square meters)" and "measured in centimeters".
_UNIT_ASKED = re.compile(
    r"\bin ((?:square )?(?:(?:centi|milli|kilo)?met(?:er|re)s|feet|inches|yards|degrees))\b",
    re.IGNORECASE,
)


def letter_at(index: int) -> str:
    """Return the letter of an option by its position, from 0."""
    return chr(ord("A") + index)


def has_letter(option: str) -> bool:
    """Return True if an option begins with a letter, such as "A. left" or "(a) left"."""
    return _LETTERED.fullmatch(option) is not None


def options_by_letter(options: Sequence[str]) -> dict[str, str]:
    """Map each option's letter to its text ("A. left" gives {"A": "left"}).

    If the options do not all have distinct letters, letters are assigned in order.
    """
    by_letter: dict[str, str] = {}
    for option in options:
        if match := _LETTERED.fullmatch(option):
            by_letter[match[1].upper()] = match[2].strip()
    if len(by_letter) == len(options):
        return by_letter
    return {letter_at(index): option.strip() for index, option in enumerate(options)}


def unit_of(text: str) -> str | None:
    """Return the unit of the answer that a question's text names, such as "square meters"."""
    units = {match.lower() for match in _UNIT_ASKED.findall(text)}
    return units.pop() if len(units) == 1 else None


def unit_symbol(unit: str) -> str:
    """Return the symbol of a unit that a question names, such as "m²" for "square meters"."""
    match = _UNIT.fullmatch(unit)
    assert match is not None  # every unit of _UNIT_ASKED is one
    name, is_square = _unit_of_match(match)
    return f"{name}²" if is_square else name


def canonical_answer(
    text: str, form: AnswerForm, options: Sequence[str] = (), unit: str | None = None
) -> str | None:
    """Read an answer as a letter, a number in plain digits, or a text; None if it is in no accepted form.

    A number in another unit than `unit` is no answer.
    """
    if form == "pose":
        return None
    if form == "text":
        return None if text.strip().lower() in ("", "null") else text.strip()
    texts = options_by_letter(options) if form == "letter" else {}
    if text in texts:
        return text
    if len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if form == "number" and _DIGITS.fullmatch(text):
        return _in_plain_digits(float(text))
    for part in (text, _stated(text)):
        answer = None if part is None else _letter(part, texts) if texts else _number(part, unit)
        if answer is not None:
            return answer
    return None


def _stated(text: str) -> str | None:
    """Return what follows a phrase such as "The answer is", if that is the last sentence and the only such phrase."""
    text = _plain(text if _PHRASE.search(text) else _BOX.sub("\nanswer: ", text))
    match = _STATEMENT.search(text)
    return match[1] if match and len(_PHRASE.findall(text)) == 1 else None


def _plain(text: str) -> str:
    """Replace decoration by spaces, and remove a final stop."""
    text = _LOOSE_SPACE.sub("", _DECORATION.sub(" ", text.translate(_SPELLINGS))).strip()
    return text.removesuffix(".")


def _letter(text: str, texts: Mapping[str, str]) -> str | None:
    """Return the letter of the option that a text is: by its letter, its text, or both."""
    text = _words(text)
    if text.upper() in texts:
        return text.upper()
    both = _LETTER_AND_TEXT.fullmatch(text)
    letters = [
        letter
        for letter, words in ((letter, _words(option)) for letter, option in texts.items())
        if words and (text == words or (both and (both[1].upper(), both[2]) == (letter, words)))
    ]
    return letters[0] if len(letters) == 1 else None


def _words(text: str) -> str:
    return " ".join(_plain(text).lower().split())


def _number(text: str, unit: str | None) -> str | None:
    """Return the number that a text is, with or without the unit."""
    match = _NUMBER.fullmatch(_plain(text))
    head, *tail = re.split("[0-9]", text, maxsplit=1)
    if tail and len(_QUOTE.findall(head)) != len(_QUOTE.findall(tail[0])):
        return None  # 5' and 5" are feet and inches
    if match is None or not _is_unit((match[2] or match[4] or "").lstrip(" -"), unit):
        return None
    return _in_plain_digits(
        float(match[1].replace(",", "") if match[1] else SMALL_NUMBERS[match[3].lower()])
    )


def _in_plain_digits(number: float) -> str | None:
    """Write a number in the shortest way that keeps its value; return None if it is not finite."""
    if not math.isfinite(number):
        return None
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _is_unit(text: str, asked: str | None) -> bool:
    """Return True if a text is empty or a unit, which must be the one asked for."""
    unit, asked_unit = _UNIT.fullmatch(text), asked and _UNIT.fullmatch(asked)
    return not text or (
        unit is not None and (not asked_unit or _unit_of_match(unit) == _unit_of_match(asked_unit))
    )


def _unit_of_match(unit: re.Match[str]) -> tuple[str, bool]:
    """Return the name of a unit, and whether it is squared."""
    is_square = bool(unit[1] or unit[unit.re.groups])
    return next(name for name in _UNITS if unit[name]), is_square


def answer_form(
    form: AnswerForm, options: Sequence[str], wording: Wording, unit: str | None = None
) -> str:
    """Return the phrase that tells the model in which form to answer, given the unit that the question names."""
    if form == "number" and unit is not None and wording.templates["question.number_in"]:
        return wording("question.number_in", unit=unit)
    if form != "letter":
        return wording(f"question.{form}")
    *first, last = options_by_letter(options) or ["A"]
    if not first:
        return wording("question.letter", last=last)
    return wording("question.letters", letters=", ".join(first), last=last)


def answer_texts(form: AnswerForm, options: Sequence[str], wording: Wording) -> dict[str, str]:
    """Map the texts that the schema permits as an answer to their letters; empty if it does not list texts.

    The texts are letters, except for a model whose wording declares `about.options: words`.
    """
    letters = options_by_letter(options) if form == "letter" else {}
    texts = {text: letter for letter, text in letters.items() if text}
    if wording.options == "words" and len(texts) == len(letters):
        return texts
    return {letter: letter for letter in letters}


class Permitted(NamedTuple):
    """The answers that a schema permits besides null. Few are distinct, so schemas are cached by them."""

    form: AnswerForm
    texts: tuple[str, ...] = ()
    """The only texts; empty if any value of the form is permitted."""
    in_quotes: bool = False
    """True if the model writes numbers as texts."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer or null."""
        if self.form == "pose":
            return self.value_schema
        return {"anyOf": [self.value_schema, {"type": "null"}]}

    @property
    def value_schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        value: dict[str, Any] = {"type": "null" if self.form == "pose" else "string"}
        if self.texts:
            value["enum"] = [*self.texts]
        elif self.form == "number" and self.in_quotes:
            value["pattern"] = _NUMBER_AS_TEXT
        elif self.form == "number":
            value["type"] = "number"
        return value


def permitted_answers(form: AnswerForm, options: Sequence[str], wording: Wording) -> Permitted:
    """Return the answers that the schema of a reply permits."""
    return Permitted(form, (*answer_texts(form, options, wording),), wording.options == "words")
