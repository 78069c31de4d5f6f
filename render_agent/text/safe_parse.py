"""Documents from outside, JSON and YAML: read within bounds, and whatever is wrong with one is a ValueError."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 30
"""Of a file that is read whole."""

CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time of what tells no size."""

MAX_REASON_LETTERS = 300

MAX_LINE_BYTES = 64 << 20
"""Bytes of a line in a file of lines."""

MAX_ENTRIES = 100_000
"""Of a YAML document, with what its aliases stand for counted wherever they stand."""


def parse_json(text: str | bytes, **how: Any) -> Any:
    """Return what a JSON text holds; how: as `json.loads` takes it. ValueError where it is none.

    Brackets within brackets beyond what the interpreter can follow are one of those.
    """
    try:
        return json.loads(text, **how)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parse_yaml(text: str) -> Any:
    """Return what a YAML text holds, made of plain values only. ValueError where it is none.

    `problem_mark` of the error says where, if that is known.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _entries(node, {}) > MAX_ENTRIES:
            raise ValueError(f"it holds more than {MAX_ENTRIES:,} entries")
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except OverflowError as error:
        raise ValueError(str(error)) from error
    except yaml.YAMLError as error:
        wrong = ValueError(str(error))
        wrong.problem_mark = getattr(error, "problem_mark", None)  # type: ignore[attr-defined]
        raise wrong from error


def read_bounded(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of a file. OSError where it cannot be read, ValueError where it has more bytes."""
    with path.open("rb") as file:
        # Room is made for what is asked for, there or not; a pipe tells no size.
        size_bytes = os.fstat(file.fileno()).st_size
        content = file.read(min(size_bytes, most) + 1)
        while len(content) <= most and (more := file.read(CHUNK_BYTES)):
            content += more
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def reason_of(error: Exception | str) -> str:
    """Return what an error says, in one line of at most MAX_REASON_LETTERS characters."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return reason if len(reason) <= MAX_REASON_LETTERS else reason[:MAX_REASON_LETTERS] + "…"


def line_of(error: Exception) -> str:
    """Return in brackets in which line of a YAML text an error is, nothing where that is not known."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" (line {mark.line + 1})"


def _entries(node: Any, counted: dict[int, int]) -> int:
    """Return how many values a node of YAML stands for; ValueError where it holds itself."""
    known = counted.get(id(node))
    if known is not None:
        if not known:
            raise ValueError("an entry holds itself")
        return known
    counted[id(node)] = 0
    inner = node.value if isinstance(node.value, list) else []
    parts = [part for entry in inner for part in (entry if isinstance(entry, tuple) else (entry,))]
    counted[id(node)] = 1 + sum(_entries(part, counted) for part in parts)
    return counted[id(node)]
