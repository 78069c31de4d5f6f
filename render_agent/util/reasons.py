"""Formats errors and values for one-line messages of bounded length."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_REASON_CHARS = 300  # characters of an error message
MAX_VALUE_CHARS = 80  # characters of a quoted value; the default of `truncate`


def first_line(error: BaseException) -> str:
    """Return the class name of an error and the first line of its message, without a trailing full stop."""
    lines = str(error).strip().splitlines() or [""]
    line = lines[0].strip().rstrip(".:")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def reason_of(error: BaseException | str) -> str:
    """Return an error's message as one line of at most MAX_REASON_CHARS characters.

    For an OSError, this is the operating system's description (`strerror`).
    """
    text = error.strerror if isinstance(error, OSError) else None
    reason = " ".join(str(text or error).split()) or type(error).__name__
    return truncate(reason, MAX_REASON_CHARS)


def truncate(value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Return a value as text, truncated with an ellipsis if it exceeds `max_chars` characters."""
    text = str(value)
    return text if len(text) <= max_chars else text[:max_chars] + "…"


def short_repr(value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Return the repr of a value, truncated like `truncate` but with its closing quote or bracket."""
    text = repr(value)
    return text if len(text) <= max_chars else truncate(text, max_chars) + text[-1]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean …?" with the most similar of `names`, to append to a message; empty if none is similar."""
    similar = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {similar[0]!r}?" if similar else ""
