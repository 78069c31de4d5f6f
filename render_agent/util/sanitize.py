"""Escapes untrusted text so that it can be printed safely: no terminal control or bidirectional characters."""

from __future__ import annotations

import json
import re
from typing import Any

# Control characters except newline and tab, bidirectional formatting, lone surrogates and tag characters.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)


def escape_unsafe(text: str) -> str:
    """Return the text with unsafe characters as JSON escapes, such as \\u001b.

    JSON remains equivalent, because it contains such characters only inside strings.
    """
    return _UNSAFE.sub(lambda match: json.dumps(match[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return the text with unsafe characters and newlines escaped."""
    return escape_unsafe(text).replace("\n", "\\n")


def escape_name(name: str) -> str:
    """Return the name with unsafe characters, newlines and tabs escaped."""
    return escape_line(name).replace("\t", "\\t")


def is_plain(name: str) -> bool:
    """Return True if the name needs no escaping."""
    return escape_name(name) == name


def printable_json(data: Any) -> str:
    """Return data as printable JSON, indented unless it is nested too deeply."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False)
    except RecursionError:
        text = json.dumps(data, ensure_ascii=False)
    return escape_unsafe(text)
