"""Why something failed, in one line: the words of an error, of this package or of a library."""

from __future__ import annotations

LONGEST_REASON = 300
"""Characters."""


def first_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message, without its full stop."""
    lines = str(error).strip().splitlines() or [""]
    line = lines[0].strip().rstrip(".:")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def reason_of(error: BaseException | str) -> str:
    """Return the message of an error in one line of at most LONGEST_REASON characters.

    Of an error of the operating system, the words that the system has for it.
    """
    words = error.strerror if isinstance(error, OSError) else None
    reason = " ".join(str(words or error).split()) or type(error).__name__
    return reason if len(reason) <= LONGEST_REASON else reason[:LONGEST_REASON] + "…"
