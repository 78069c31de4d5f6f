"""Answers in canonical form: "(A)", "A." and "A. left" are A; "forty-five" is 45; "AB" is nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from render_agent.dialogue.wording import Wording
from render_agent.util.numbers import only_number

AnswerForm = Literal["letter", "number", "text"]

MAX_OPTIONS = 26
"""There are no more letters."""

MAX_ANSWER_CHARACTERS = 2_000
"""Characters in which a letter or a number can be given; more are an essay, not an answer."""

_LETTERED = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)
_LEAD_IN = re.compile(
    r"\W*(?:(?:the|my|final|correct|best|answer|option|choice|letter|is|boxed)\b\W+)*",
    re.IGNORECASE,
)
_ALONE = re.compile(r"(?<!\w)(?<!\w['’-])[A-Za-z](?!['’-]?\w)")
_ARTICLE = re.compile(r"a\s+(?!(?:or|and)\b)\w")


def letters(options: Sequence[str]) -> dict[str, str]:
    """Return the text of every option by its letter ("A. left" gives {"A": "left"}).

    Options carry their letters all or none; where they do not, they are lettered in their order.
    """
    carried = [_LETTERED.fullmatch(option) for option in options]
    lettered = {match[1].upper(): match[2].strip() for match in carried if match}
    if len(lettered) == len(options):
        return lettered
    return {chr(ord("A") + index): option.strip() for index, option in enumerate(options)}


def canonical(text: str, wanted: AnswerForm, options: Sequence[str] = ()) -> str | None:
    """Return an answer as a letter, a number or a text, whatever is `wanted`; None for no answer."""
    if wanted != "text" and len(text) > MAX_ANSWER_CHARACTERS:
        return None
    if wanted == "letter":
        return _letter(text, letters(options))
    if wanted == "number":
        return only_number(text)
    return None if text.strip().lower() in ("", "null") else text.strip()


def answer_form(wanted: AnswerForm, options: Sequence[str], wording: Wording) -> str:
    """Return, in a few words, what an answer must be."""
    if wanted != "letter":
        return wording(f"question.{wanted}")
    *first, last = letters(options) or ["A"]
    if not first:
        return wording("question.letter", last=last)
    return wording("question.letters", letters=", ".join(first), last=last)


def _letter(text: str, texts: dict[str, str]) -> str | None:
    """Return the one option that a text names, by its text or by its letter at the beginning."""
    by_text = _with_text(text, texts)
    if by_text is not None:
        return by_text
    text = text[_LEAD_IN.match(text).end() :]  # type: ignore[union-attr]
    if not _ALONE.match(text) or _ARTICLE.match(text):
        return _with_text(text, texts)
    letter, rest = text[0].upper(), text[1:]
    if letter not in texts or _same_words(rest, texts[letter]):
        return letter if letter in texts else None
    named = {
        match[0].upper()
        for match in _ALONE.finditer(rest)
        if not _ARTICLE.match(rest, match.start())
    }
    return None if named & (texts.keys() - {letter}) else letter


def _with_text(text: str, texts: dict[str, str]) -> str | None:
    same = [letter for letter, option in texts.items() if _same_words(text, option)]
    return same[0] if len(same) == 1 else None


def _same_words(text: str, other: str) -> bool:
    return _normalised(text) == _normalised(other) != ""


def _normalised(text: str) -> str:
    """Return a text in lower case without decoration and without an article before it."""
    text = text.strip(" \t\r\n.*_`\"'():,;!-").lower()
    return re.sub(r"^(?:the|an?)\s+", "", text)
