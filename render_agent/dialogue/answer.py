"""Canonical answers: "(A)", "A." and "A. left" become A, "forty-five" becomes 45, and "AB" is not an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from render_agent.dialogue.answers.letter import letter_in
from render_agent.dialogue.answers.number import number_in
from render_agent.dialogue.wording import Wording

AnswerForm = Literal["letter", "number", "text"]

MAX_OPTIONS = 26  # one per letter of the alphabet

MAX_ANSWER_CHARACTERS = 2_000  # longer texts are not parsed as a letter or a number

_NUMBER_AS_TEXT = "^-?[0-9]{1,6}(\\.[0-9]{1,4})?$"  # numbers of a model that answers in words

# The unit of a question, as in "(in square meters)" and "measured in centimeters".
_UNIT = re.compile(
    r"\bin ((?:square )?(?:(?:centi|milli|kilo)?met(?:er|re)s|feet|inches|yards|degrees))\b",
    re.IGNORECASE,
)

_LETTERED = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)


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
    matches = [_LETTERED.fullmatch(option) for option in options]
    by_letter = {match[1].upper(): match[2].strip() for match in matches if match}
    if len(by_letter) == len(options):
        return by_letter
    return {letter_at(index): option.strip() for index, option in enumerate(options)}


def unit_of(text: str) -> str | None:
    """Return the unit of the answer that a question's text names, such as "square meters"."""
    units = {match.lower() for match in _UNIT.findall(text)}
    return units.pop() if len(units) == 1 else None


def canonical_answer(text: str, form: AnswerForm, options: Sequence[str] = ()) -> str | None:
    """Parse an answer into canonical form; return None if the text contains no answer of this form."""
    if form != "text" and len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if form == "letter":
        return letter_in(text, options_by_letter(options))
    if form == "number":
        return number_in(text)
    return None if text.strip().lower() in ("", "null") else text.strip()


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
        return {"anyOf": [self.value_schema, {"type": "null"}]}

    @property
    def value_schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        value: dict[str, Any] = {"type": "string"}
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
