"""Documents changed as trees: values of other types, keys that are gone, depth, repetition, what stood elsewhere."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

Taken = tuple[bytes, Callable[[bytes], bytes]]
"""The JSON text within an input, and what puts another in its place."""

DEEP = "a place for endless brackets"

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 7, 0.5, -0.0, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**25, 10**400, 1e308,
    -1e308, 5e-324, float("nan"), float("inf"), float("-inf"), "", " ", "x", "0", "-1", "nan", "1e999", "²", "١٢",
    "½", "A", "A. x", "\0", "\n", "\ud800", "\u202e", "\u2028", "x" * 3000, "../../x", "/dev/null", "null", "[]",
    [], {}, [[]], [None], [0], ["x"], {"": None}, {"x": 1}, [0, 0, 0], [float("nan")] * 3, [1e308] * 3, DEEP,
)  # fmt: skip
"""What may stand anywhere."""


def tree_mutated(random: Random, form: str, data: bytes, pool: Sequence[bytes]) -> bytes | None:
    """Return an input of a form with its tree changed at one place, None where it holds no tree or cannot be changed."""
    taken = FORMS[form](random, data)
    if taken is None:
        return None
    text, put = taken
    tree = _read(text, form)
    if tree is None:
        return None
    root = [tree]
    places = list(_places(root))
    holder, key = random.choice(places)
    other = FORMS[form](random, random.choice(pool))
    elsewhere = places if other is None else list(_places([_read(other[0], form)]))
    try:
        _change(random, holder, key, elsewhere)
        return put(_written(random, root[0] if root else None, form))
    # Earlier changes may have left what is too deep, or a number that is too long.
    except (ValueError, OverflowError, RecursionError):
        return None


def _read(text: bytes, form: str) -> Any:
    if form == "yaml":
        import yaml

        try:
            return yaml.safe_load(text)
        except (yaml.YAMLError, ValueError, RecursionError, OverflowError):
            return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _written(random: Random, tree: Any, form: str) -> bytes:
    indent = random.choice((None, None, 1)) if form in ("json", "yaml") else None
    text = json.dumps(tree, ensure_ascii=random.random() < 0.7, indent=indent, default=str)
    if DEEP in text:
        depth = random.choice((50, 300, 500, 900, 990, 3000, 20_000))
        opening, closing = random.choice((("[", "]"), ('{"x":', "}")))
        text = text.replace(f'"{DEEP}"', opening * depth + "0" + closing * depth)
    return text.encode("utf-8", "replace")


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Give every value below a list or a mapping, by its holder and its key."""
    left = [tree]
    while left:
        holder = left.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            yield holder, key
            if isinstance(holder[key], dict | list):
                left.append(holder[key])


def _change(random: Random, holder: Any, key: Any, elsewhere: Sequence[tuple[Any, Any]]) -> None:
    kind = random.randrange(10)
    if kind < 4:
        holder[key] = random.choice(VALUES)
    elif kind == 4:
        del holder[key]
    elif kind == 5 and isinstance(holder, dict):
        holder[str(random.choice(VALUES))] = holder.pop(key)
    elif kind == 6:
        value = holder[key]
        holder[key] = (
            [value] * random.choice((1, 2, 300)) if random.random() < 0.6 else {"x": value}
        )
    elif kind == 7 and isinstance(holder[key], list | str):
        holder[key] = holder[key] * random.choice((0, 2, 3, 50))
    elif kind == 8 and isinstance(holder[key], int | float):
        holder[key] = holder[key] * random.choice((-1, 1e-9, 1e9)) + random.choice((-1, 0, 1, 1e-7))
    elif elsewhere:
        there, name = random.choice(elsewhere)
        holder[key] = json.loads(json.dumps(there[name], default=str))


def _whole(random: Random, data: bytes) -> Taken | None:
    return data, lambda text: text


def _line(random: Random, data: bytes) -> Taken | None:
    lines = data.split(b"\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        return None
    number = random.choice(filled)
    return lines[number], lambda text: b"\n".join([*lines[:number], text, *lines[number + 1 :]])


def _object(random: Random, data: bytes) -> Taken | None:
    """The first object in a text."""
    start, end = data.find(b"{"), data.rfind(b"}") + 1
    if start < 0 or end <= start:
        return None
    return data[start:end], lambda text: data[:start] + text + data[end:]


def _chunk(random: Random, data: bytes) -> Taken | None:
    """The JSON in a GLB file."""
    if len(data) < 20:
        return None
    length = struct.unpack_from("<I", data, 12)[0]
    rest = data[20 + length :]

    def put(text: bytes) -> bytes:
        text += b" " * (-len(text) % 4)
        size = 20 + len(text) + len(rest)
        return data[:8] + struct.pack("<II", size, len(text)) + data[16:20] + text + rest

    return data[20 : 20 + length], put


def _body(random: Random, data: bytes) -> Taken | None:
    """The body of an HTTP answer, whose length is told."""
    head, gap, body = data.partition(b"\r\n\r\n")

    def put(text: bytes) -> bytes:
        told = re.sub(rb"(?i)content-length: *\d+", b"content-length: %d" % len(text), head)
        return told + gap + text

    return (body, put) if gap else None


FORMS: dict[str, Callable[[Random, bytes], Taken | None]] = {
    "json": _whole,
    "jsonl": _line,
    "yaml": _whole,
    "object": _object,
    "glb": _chunk,
    "http": _body,
}
"""Where the tree is in an input of each form."""
