"""Why something failed, in one line: the words of an error, and values that are short enough for a sentence."""

from __future__ import annotations

LONGEST_REASON = 300
"""Characters of an error's message."""

LONGEST_VALUE = 80
"""Characters of a value in a sentence, where nothing else is said."""


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
    return shortened(reason, LONGEST_REASON)


def shortened(value: object, longest: int = LONGEST_VALUE) -> str:
    """Return a value as text: where it has more than `longest` characters, the first of them and an ellipsis."""
    text = str(value)
    return text if len(text) <= longest else text[:longest] + "…"


def short_repr(value: object, longest: int = LONGEST_VALUE) -> str:
    """Return the repr of a value, shortened as `shortened` does it: its last quotation mark or bracket stays."""
    text = repr(value)
    return text if len(text) <= longest else shortened(text, longest) + text[-1]
