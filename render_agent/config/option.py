"""How an option of a run is declared."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

AUTO = "auto"

Group = Literal["questions", "engine", "dialogue", "choosing", "speed", "place", "display"]


def setting(default: Any, group: Group, text: str, **more: Any) -> Any:
    """Declare one option of a run.

    text: its sentence in `--help`. more: `metavar`, `choices`, `flag`, `minimum`, `separator` of
    the parts that are written as one word, `part`, the kind of part of the registry whose names beside
    `choices` may be given, and `free` for an option that may change when a run is continued although
    its group may not.
    """
    return field(default=default, metadata={"group": group, "text": text, **more})
