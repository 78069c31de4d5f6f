"""Handles duplicate names in JSON objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Repeated(list[Any]):
    """Two different values given for the same name in a JSON object."""


def merge_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name, ignoring empty ones; different values for a name become a `Repeated`."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        earlier = values.get(name)
        if earlier is None or earlier == "":
            values[name] = value
        elif value not in (None, "") and value != earlier and not isinstance(earlier, Repeated):
            values[name] = Repeated((earlier, value))
    return values
