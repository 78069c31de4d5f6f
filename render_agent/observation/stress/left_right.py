"""Left and right exchanged: what the right answers become when a room is mirrored."""

from __future__ import annotations

import re

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question

OTHER = {"left": "right", "right": "left"}
SIDE = re.compile(r"\b(?:left|right)\b", re.IGNORECASE)
TOLD = re.compile(r"\bon (?:your|my|the|its) (?:left|right)\b", re.IGNORECASE)
"""A side that a question itself tells of the room: in the mirrored room it is not true."""


def exchanged(text: str) -> str:
    """Return a text with left and right exchanged, each in the letters' case that it had."""
    return SIDE.sub(lambda found: _in_case(OTHER[found[0].lower()], found[0]), text)


def names_sides(question: Question) -> bool:
    """Whether the options of a question name left or right, so that mirroring may change its answer."""
    return any(SIDE.search(option) for option in question.options)


def mirrored_truth(question: Question) -> str | None:
    """Return the letter that is right in the mirrored room.

    None where it is not known: the question tells a side of the room itself, or the right answer in
    the mirrored room is not among its options, or nobody knows the truth.
    """
    options = letters(question.options)
    right = options.get((question.truth or "").upper())
    if right is None or TOLD.search(question.text):
        return None
    wanted = exchanged(right).lower()
    same = [letter for letter, text in options.items() if text.lower() == wanted]
    return same[0] if len(same) == 1 else None


def _in_case(word: str, like: str) -> str:
    if like.isupper():
        return word.upper()
    return word.capitalize() if like[0].isupper() else word
