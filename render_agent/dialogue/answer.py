"""Canonical answers: "(A)", "A." and "A. left" become A, "forty-five" becomes 45, and "AB" is not an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from render_agent.dialogue.answers.letter import letter_in
from render_agent.dialogue.answers.number import number_in
from render_agent.dialogue.wording import Wording

AnswerForm = Literal["letter", "number", "text"]

MAX_OPTIONS = 26  # one per letter of the alphabet

MAX_ANSWER_CHARACTERS = 2_000  # longer texts are not parsed as a letter or a number

_LETTERED = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)


def options_by_letter(options: Sequence[str]) -> dict[str, str]:
    """Map each option's letter to its text ("A. left" gives {"A": "left"}).

    If the options do not all have distinct letters, letters are assigned in order.
    """
    matches = [_LETTERED.fullmatch(option) for option in options]
    by_letter = {match[1].upper(): match[2].strip() for match in matches if match}
    if len(by_letter) == len(options):
        return by_letter
    return {chr(ord("A") + index): option.strip() for index, option in enumerate(options)}


def canonical_answer(text: str, form: AnswerForm, options: Sequence[str] = ()) -> str | None:
    """Parse an answer into canonical form; return None if the text contains no answer of this form."""
    if form != "text" and len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if form == "letter":
        return letter_in(text, options_by_letter(options))
    if form == "number":
        return number_in(text)
    return None if text.strip().lower() in ("", "null") else text.strip()


def answer_form(form: AnswerForm, options: Sequence[str], wording: Wording) -> str:
    """Return the phrase that tells the model in which form to answer."""
    if form != "letter":
        return wording(f"question.{form}")
    *first, last = options_by_letter(options) or ["A"]
    if not first:
        return wording("question.letter", last=last)
    return wording("question.letters", letters=", ".join(first), last=last)
