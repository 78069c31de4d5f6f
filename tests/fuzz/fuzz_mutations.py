"""Inputs made of valid ones: bytes, numbers, words, lines and whole trees replaced by what nobody expects."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

from fuzz_bounds import MOST_BYTES
from fuzz_trees import FORMS, tree_mutated

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]

NUMBERS = (
    "nan inf -inf 1e308 -1e308 1e309 5e-324 0 -0 -1 1 2 3 255 256 65535 65536 2147483647 2147483648"
    " 4294967295 4294967296 9223372036854775807 9223372036854775808 18446744073709551616 -9223372036854775809"
    " 1e999 1e-999 0.1 1_000 0x10 1,5 ١٢ ² ½ 99999999999999999999999999 1.7976931348623159e308"
).split()
"""Numbers as texts, and what passes for one."""

ODDITIES = (
    "\0", "\x1b[2J", "\r", "\r\n", "\n", "\n\n", "\t", " ", "\u2028", "\u202e", "\u200b", "\ufeff", "\u0301",
    "\ud7ff", "\U0001f600", "İ", "ß", "ſ", "{", "}", "[", "]", '"', "'", "\\", "\\u0000", "\\ud800", "<think>",
    "</think>", "null", "true", "NaN", "Infinity", "-", "--", ":", ",", "#", "&a", "*a", "!!python/object:x",
    "!!binary", "<<", "|", ">", "%", "%s", "{0}", "../", "/", "~", "$", "`",
)  # fmt: skip
"""Texts that mean something to somebody, or nothing to anybody."""

EXTREMES = tuple(
    struct.pack(order + code, value)
    for order in "<>"
    for code, values in {
        "B": (0, 1, 127, 128, 255),
        "H": (0, 255, 32768, 65535),
        "I": (0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1),
        "Q": (0, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
        "f": (0.0, -1.0, 3e38, 1e-45, float("nan"), float("inf"), float("-inf")),
        "d": (1e308, -1e308, float("nan"), float("inf"), 5e-324),
    }.items()
    for value in values
)
"""Numbers as bytes."""

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.-]*")

HEADER = 800
"""Bytes at the beginning of a file in which more depends on a number."""


def mutated(random: Random, form: str, pool: Sequence[bytes]) -> bytes:
    """Return an input that nobody wrote, of a form: one of the pool after a few changes.

    It has at most MOST_BYTES.
    """
    recent = pool[-20:] if random.random() < 0.4 else pool
    data = random.choice(recent)
    for _ in range(1 + int(random.expovariate(1.2))):
        changes = BYTES if form == "bytes" or random.random() < 0.15 else TEXTS
        if form in FORMS and random.random() < 0.75:
            changed = tree_mutated(random, form, data, pool)
            data = random.choice(TEXTS)(random, data, pool) if changed is None else changed
        else:
            data = random.choice(changes)(random, data, pool)
        data = data[:MOST_BYTES]
    return data


def _flip(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    if not data:
        return b"\0"
    place = random.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :]


def _extreme(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    value = random.choice(EXTREMES)
    place = random.randrange(max(1, len(data) - len(value) + 1))
    return data[:place] + value + data[place + len(value) :]


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 2, 4, 16, 100, len(data))))


def _cut(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _without(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + data[end:]


def _doubled(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:end] + data[start:end] * random.choice((1, 1, 1, 10, 1000)) + data[end:]


def _spliced(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    other = random.choice(pool)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


def _noise(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    return data[:start] + random.randbytes(random.randrange(1, 9)) + data[end:]


def _other_number(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    found = list(NUMBER.finditer(data[:HEADER] if random.random() < 0.5 else data))
    if not found:
        return _odd(random, data, pool)
    match = random.choice(found)
    near = match[0].decode()
    if near.isdigit() and len(near) < 20:
        near = str(int(near) + random.choice((-1, 1)))
    number = random.choice((*NUMBERS, near, "9" * random.choice((20, 400, 5000))))
    return data[: match.start()] + number.encode() + data[match.end() :]


def _other_word(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    found = list(WORD.finditer(data[:HEADER] if random.random() < 0.5 else data))
    words = WORD.findall(random.choice(pool)) or [b"x"]
    if not found:
        return _odd(random, data, pool)
    match = random.choice(found)
    word = random.choice((random.choice(words), random.choice(words), b"", b"x" * 3000))
    return data[: match.start()] + word + data[match.end() :]


def _odd(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    start, end = _span(random, data)
    text = random.choice(ODDITIES).encode("utf-8", "surrogatepass")
    if random.random() < 0.05:
        text *= random.choice((100, 20_000))
    return data[:start] + text + (data[start:] if random.random() < 0.7 else data[end:])


def _other_lines(random: Random, data: bytes, pool: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    place, other = random.randrange(len(lines)), random.choice(random.choice(pool).split(b"\n"))
    match random.randrange(5):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[place])
        case 2:
            lines.insert(place, other)
        case 3:
            lines[place] = other
        case _:
            there = random.randrange(len(lines))
            lines[place], lines[there] = lines[there], lines[place]
    return b"\n".join(lines)


BYTES: tuple[Mutation, ...] = (_flip, _extreme, _cut, _without, _doubled, _spliced, _noise)
TEXTS: tuple[Mutation, ...] = (
    *(_other_number, _other_number, _other_number, _other_word, _other_word),
    *(_odd, _other_lines, _cut, _without, _doubled, _spliced, _flip),
)
