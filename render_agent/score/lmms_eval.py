"""Answers as lmms-eval reads them: letters as the official scorer does, numbers more kindly."""

from __future__ import annotations

import re

from render_agent.score.official import first_word
from render_agent.text.numbers import number_from_words

_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    " hundred thousand"
).split()
_WORD = f"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
_NUMBER = re.compile(
    rf"[-+]?(?:\d+(?:\.\d*)?|\.\d+)|\b{_WORD}(?:(?:[\s-]+|\s+and\s+){_WORD})*\b", re.IGNORECASE
)


def letter(answer: str) -> str:
    """Return the letter in the first word of an answer to a choice."""
    return first_word(answer)


def number(answer: str) -> float | None:
    """Return the first number in an answer, in digits or in words ("twenty-one"); None without one."""
    match = _NUMBER.search(answer)
    if match is None:
        return None
    if not match[0][0].isalpha():
        return float(match[0])
    spoken = number_from_words(match[0])
    return number_from_words(re.split(r"[\s-]", match[0])[0]) if spoken is None else spoken
