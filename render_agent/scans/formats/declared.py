"""Account for everything a scan file declares, so that no part of it is dropped silently."""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.util.reasons import truncate

MAX_NAMES = 12  # names listed in the note
MAX_NAME_CHARS = 40


class Declared:
    """The names that a file declares, minus those its reader uses.

    Args:
        names: Properties, columns, elements, images and so on.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._unused = dict.fromkeys(names)

    def add(self, name: str) -> None:
        """Add a name that is not used."""
        self._unused[name] = None

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
        rest = len(names) - MAX_NAMES
        more = [f"{rest:,} more"] if rest > 0 else []
        return (f"ignored: {', '.join([*names[:MAX_NAMES], *more])}",)
