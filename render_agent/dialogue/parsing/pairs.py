"""Names that an object contains several times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Repeated(list[Any]):
    """Two different values of a name that an object contains several times."""


def merge_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name; if a name has different values, two of them as `Repeated`. Empty values do not count."""
    merged: dict[str, Any] = {}
    for name, value in pairs:
        earlier = merged.get(name)
        if earlier is None or earlier == "":
            merged[name] = value
        elif value not in (None, "") and value != earlier and not isinstance(earlier, Repeated):
            merged[name] = Repeated((earlier, value))
    return merged
