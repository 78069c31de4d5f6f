"""Texts from outside as they may be printed: nothing in them commands a terminal or turns its lines around."""

from __future__ import annotations

import json
import re
from typing import Any

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)
"""Control characters but for the line's end and the tab, those that set the direction of writing, halves
of characters, and tags that no font shows."""


def visible(text: str) -> str:
    """Return a text whose unseen characters are written as JSON escapes them, such as \\u001b.

    JSON stays the same JSON: there such characters stand within texts only.
    """
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1], text)


def one_line(text: str) -> str:
    """Return the same in one line: line's ends are escaped too."""
    return visible(text).replace("\n", "\\n")


def plain_name(name: str) -> str:
    """Return a name of signs that can be seen, and spaces; others are written as JSON escapes them."""
    return one_line(name).replace("\t", "\\t")


def is_plain(name: str) -> bool:
    """Whether a name has nothing else as it is."""
    return plain_name(name) == name


def json_text(data: Any) -> str:
    """Return data as JSON that may be printed, indented unless they are nested too deeply for that."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False)
    except RecursionError:
        text = json.dumps(data, ensure_ascii=False)
    return visible(text)
