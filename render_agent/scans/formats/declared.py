"""Account for everything a scan file declares, so that no part of it is dropped silently."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.file_frame import METRES, Axis, Unit
from render_agent.util.display import count_noun
from render_agent.util.reasons import truncate

MAX_NAMES = 12  # names listed in the note
MAX_NAME_CHARS = 40
FEW_CORNERS = "faces with fewer than 3 corners"  # points and lines, as some programs write them

# A comment that is nothing but a unit, such as "unit: mm" or "File units = inches".
UNIT_COMMENT = re.compile(r"(?:file\s++)?units?\s*+[:=]?\s*+(?:in\s++)?([a-z]+)", re.IGNORECASE)
# Comments that record the up axis: ours in converted splats, Nerfstudio's ("Vertical Axis: z") and similar ones.
UP_COMMENT = re.compile(r"(?:(?:up|vertical)[ _-]?axis|up)\s*+[:=]?\s*+([+-]?[xyz])", re.IGNORECASE)
UNIT_NAMES: dict[Unit, str] = {
    "m": r"m|met(?:er|re)s?",
    "cm": r"cm|centimet(?:er|re)s?",
    "mm": r"mm|millimet(?:er|re)s?",
    "ft": r"ft|foot|feet",
    "in": r"in|inch(?:es)?",
}


def decode_text(text: bytes) -> str:
    """Decode names in a file: UTF-8, or the Windows code page that older programs write."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("cp1252", "replace")


def unit_of_comments(comments: Iterable[str]) -> float | None:
    """Return the unit in metres that the first of some comments specifies; None if none does."""
    for text in comments:
        match = UNIT_COMMENT.fullmatch(text.strip())
        if match and (metres := unit_named(match[1])) is not None:
            return metres
    return None


def unit_named(name: str) -> float | None:
    """Return the unit with this name or symbol, such as "mm" or "inches", in metres; None if it is unknown."""
    for unit, names in UNIT_NAMES.items():
        if re.fullmatch(names, name, re.IGNORECASE):
            return METRES[unit]
    return None


def up_of_comments(comments: Iterable[str]) -> Axis | None:
    """Return the up axis that the first of some comments specifies; None if none does."""
    for text in comments:
        if match := UP_COMMENT.fullmatch(text.strip()):
            return match[1].lower().lstrip("+")  # type: ignore[return-value]
    return None


class Declared:
    """The names that a file declares, minus those its reader uses."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._unused = dict.fromkeys(names)

    def add(self, name: str) -> None:
        self._unused[name] = None

    def add_nan(self, colours: NDArray[Any]) -> None:
        """Add the number of colours, (n, k), that are NaN and therefore black."""
        if colours.dtype.kind == "f" and (count := int(np.isnan(colours).any(axis=1).sum())):
            self.add(f"{count_noun(count, 'colour')} with NaN (now black)")

    def use(self, *names: str) -> None:
        """Mark names as used; undeclared ones are ignored."""
        for name in names:
            self._unused.pop(name, None)

    @property
    def notes(self) -> tuple[str, ...]:
        """One note that lists the unused names, or no note if all are used."""
        names = [
            truncate("".join(c if c.isprintable() else "?" for c in name), MAX_NAME_CHARS)
            for name in self._unused
        ]
        if not names:
            return ()
        num_omitted = len(names) - MAX_NAMES
        ending = [f"{num_omitted:,} more"] if num_omitted > 0 else []
        return (f"ignored: {', '.join([*names[:MAX_NAMES], *ending])}",)
