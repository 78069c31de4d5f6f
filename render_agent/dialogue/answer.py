"""Canonical answers: "(A)", "A." and "A. left" become A, "forty-five" becomes 45, and "AB" is not an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from render_agent.dialogue.wording import Wording
from render_agent.util.numbers import parse_only_number

AnswerForm = Literal["letter", "number", "text"]

MAX_OPTIONS = 26  # one per letter of the alphabet

MAX_ANSWER_CHARACTERS = 2_000  # longer texts are not parsed as a letter or a number

_LETTERED = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)
_LEAD_IN = re.compile(
    r"\W*(?:(?:the|my|final|correct|best|answer|option|choice|letter|is|boxed)\b\W+)*",
    re.IGNORECASE,
)
_ALONE = re.compile(r"(?<!\w)(?<!\w['’-])[A-Za-z](?!['’-]?\w)")
_ARTICLE = re.compile(r"a\s+(?!(?:or|and)\b)\w")


def options_by_letter(options: Sequence[str]) -> dict[str, str]:
    """Map each option's letter to its text ("A. left" gives {"A": "left"}).

    Unless every option has a distinct letter of its own, letters are assigned in order.
    """
    matches = [_LETTERED.fullmatch(option) for option in options]
    by_letter = {match[1].upper(): match[2].strip() for match in matches if match}
    if len(by_letter) == len(options):
        return by_letter
    return {chr(ord("A") + index): option.strip() for index, option in enumerate(options)}


def canonical_answer(text: str, wanted: AnswerForm, options: Sequence[str] = ()) -> str | None:
    """Parse an answer into the form given by `wanted`; None if the text contains no such answer."""
    if wanted != "text" and len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if wanted == "letter":
        return _letter(text, options_by_letter(options))
    if wanted == "number":
        return parse_only_number(text)
    return None if text.strip().lower() in ("", "null") else text.strip()


def answer_form(wanted: AnswerForm, options: Sequence[str], wording: Wording) -> str:
    """Return a phrase that tells the model which form its answer must have."""
    if wanted != "letter":
        return wording(f"question.{wanted}")
    *first, last = options_by_letter(options) or ["A"]
    if not first:
        return wording("question.letter", last=last)
    return wording("question.letters", letters=", ".join(first), last=last)


def _letter(text: str, texts: dict[str, str]) -> str | None:
    """Return the letter of the only option that `text` names, either by its text or by a leading letter."""
    by_text = _match_text(text, texts)
    if by_text is not None:
        return by_text
    text = text[_LEAD_IN.match(text).end() :]  # type: ignore[union-attr]
    if not _ALONE.match(text) or _ARTICLE.match(text):
        return _match_text(text, texts)
    letter, remainder = text[0].upper(), text[1:]
    if letter not in texts or _same_words(remainder, texts[letter]):
        return letter if letter in texts else None
    other_letters = {
        match[0].upper()
        for match in _ALONE.finditer(remainder)
        if not _ARTICLE.match(remainder, match.start())
    }
    return None if other_letters & (texts.keys() - {letter}) else letter


def _match_text(text: str, texts: dict[str, str]) -> str | None:
    """Return the letter of the only option with this text; None if there is none or more than one."""
    matching = [letter for letter, option in texts.items() if _same_words(text, option)]
    return matching[0] if len(matching) == 1 else None


def _same_words(text: str, other: str) -> bool:
    return _normalise(text) == _normalise(other) != ""


def _normalise(text: str) -> str:
    """Lower-case a text and strip surrounding punctuation and a leading article."""
    text = text.strip(" \t\r\n.*_`\"'():,;!-").lower()
    return re.sub(r"^(?:the|an?)\s+", "", text)
