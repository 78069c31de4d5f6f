"""Writes render_agent/api/keywords.py, the types of the options as keyword arguments, from their declarations in options.py."""

from __future__ import annotations

from dataclasses import Field
from itertools import groupby
from pathlib import Path
from typing import Any

from render_agent.options import OPTIONS

FILE = Path(__file__).parents[1] / "render_agent/api/keywords.py"

# Parameters of `ask` and `run` or implied by them, and options of the command line alone.
EXCLUDED = {"batch", "ply", "question", "option", "engine", "model", "output", "json", "quiet"}

HEAD = '''\
"""Run options as keyword arguments, for type checkers and editors. Written by scripts/keywords.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypedDict

Path = str | PathLike[str]
Texts = str | Sequence[str]
Paths = Path | Sequence[Path]
CountOrAuto = int | Literal["auto"]


class RunOptions(TypedDict, total=False):
    """Options of a run, as described by `render-agent --help-all`. None means unset."""
'''


def keyword_type(entry: Field[Any]) -> str:
    """Return the type of an option's value in Python."""
    is_path = entry.metadata.get("path", "argument") != "argument"  # an argument follows a name
    kind = str(entry.type).removesuffix(" | None")
    if entry.metadata.get("metavar") == "K=V":
        return "Texts | Mapping[str, Any]"
    if kind == "tuple[str, ...]":
        return "Paths" if is_path else "Texts"
    if kind in ("bool", "int", "float"):
        return kind
    return {
        "int | str": "CountOrAuto",
        "tuple[int, int]": "tuple[int, int] | str",
    }.get(kind, "Path" if is_path else "str")


def source() -> str:
    """Return the text of keywords.py."""
    entries = [entry for name, entry in OPTIONS.items() if name not in EXCLUDED]
    lines = []
    for group, members in groupby(entries, lambda entry: entry.metadata["group"]):
        lines.append(f"    # {group}")
        lines += [f"    {entry.name}: {keyword_type(entry)} | None" for entry in members]
    return "\n".join([HEAD, *lines, ""])


if __name__ == "__main__":
    FILE.write_text(source())
