"""Number parsing as in lmms-eval 0.7.3 and later: the first number, in digits or in words."""

from __future__ import annotations

import re

from render_agent.util.numbers import SMALL_NUMBERS

VERSION = "0.7.3"  # August 2026; versions up to 0.7.2 read numbers like the official scorer

_NUMBERS = SMALL_NUMBERS | {
    word: 10 * value
    for value, word in enumerate("thirty forty fifty sixty seventy eighty ninety".split(), 3)
}
_HUNDRED, _THOUSAND = "hundred", "thousand"
_DIGITS = re.compile(r"-?\d+(?:\.\d+)?")
_WORD = re.compile(r"[a-z]+")


def first_number(answer: str) -> float | None:
    """Return the first number in an answer, or None.

    Digits must precede the decimal point: ".5" is 5. Consecutive number words are added up, even with "and" or
    punctuation between them: "two, three" is 5.
    """
    text = answer.strip().lower()
    digits = _DIGITS.search(text)
    words: list[str] = []
    start = len(text)
    for word in _WORD.finditer(text):
        if word[0] in _NUMBERS or word[0] in (_HUNDRED, _THOUSAND):
            start = start if words else word.start()
            words.append(word[0])
        elif words and word[0] != "and":
            break
    if digits and digits.start() < start:
        return float(digits[0])
    return _sum(words) if words else None


def _sum(words: list[str]) -> float:
    """Return the number spelled out by words; infinity if it overflows a float."""
    total = below = 0.0  # integers of many digits would take quadratic time
    for word in words:
        if word == _HUNDRED:
            below = max(below, 1.0) * 100
        elif word == _THOUSAND:
            total, below = total + max(below, 1.0) * 1000, 0
        else:
            below += _NUMBERS[word]
    return total + below
