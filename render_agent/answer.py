"""Answers in canonical form: "(A)", "A." and "A. left" are A; "forty-five" is 45; "AB" is nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from render_agent.numerals import only_number

Wanted = Literal["letter", "number", "text"]

_OPTION = re.compile(r"\s*\(?([A-Za-z])[.):]\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\W*(?:(?:option|answer)\W+)?([A-Za-z])(?![A-Za-z0-9'’])", re.IGNORECASE)


def letters(options: Sequence[str]) -> dict[str, str]:
    """Return the text of every option by its letter ("A. left" gives {"A": "left"})."""
    found = {}
    for place, option in enumerate(options):
        match = _OPTION.fullmatch(option)
        letter, text = (match[1].upper(), match[2]) if match else (chr(ord("A") + place), option)
        found[letter] = text.strip()
    return found


def canonical(text: str, wanted: Wanted, options: Sequence[str] = ()) -> str | None:
    """Return an answer as a letter, a number or a text, whatever is `wanted`; None for no answer."""
    if wanted == "letter":
        return _letter(text, letters(options))
    if wanted == "number":
        return only_number(text)
    return text.strip() or None


def _letter(text: str, texts: dict[str, str]) -> str | None:
    same = [letter for letter, option in texts.items() if option.lower() == _plain(text)]
    if len(same) == 1:
        return same[0]
    match = _LETTER.match(text)
    if not match or match[1].upper() not in texts:
        return None
    if match[1] == "a" and re.match(r"\s+\w", text[match.end() :]):
        return None  # the article, as in "a left turn"
    letter = match[1].upper()
    others = set(re.findall(r"\b[A-Z]\b", text[match.end() :])) & set(texts)
    rest = _plain(text[match.end() :])
    return None if others - {letter} and rest != texts[letter].lower() else letter


def _plain(text: str) -> str:
    return text.strip(" \t\r\n.*_`\"'():,").lower()


def asked_for(wanted: Wanted, options: Sequence[str] = ()) -> str:
    """Return, in a few words, what an answer must be."""
    if wanted == "letter":
        *first, last = letters(options) or ["A"]
        return f"one letter, {', '.join(first)} or {last}" if first else f"the letter {last}"
    return "one number" if wanted == "number" else "a short text"
