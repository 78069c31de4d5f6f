"""How an option of a run is declared."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import field
from typing import Any, Literal

AUTO = "auto"

Group = Literal["questions", "engine", "dialogue", "choosing", "speed", "place", "display"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the known word nearest to an unknown one; empty where none is."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def declare(group: Group, default: Any, text: str, **more: Any) -> Any:
    """Declare one option of a run: a field of a spec. A default of False makes it a flag without a value.

    group: its heading in `--help`. text: its sentence there. more: `metavar`; `choices`; `minimum`; `separator`
    of values that are written as one word; `part`, the kind of registry part that it names; `path`, "always" if
    the value is a path, or the name of a check in `paths` that tells paths from names; and `free` for an option
    that may change when a run is resumed although its group may not.
    """
    return field(default=default, metadata={"group": group, "text": text, **more})
