"""Clouds as columns of text: XYZ, PTS, TXT, CSV and ASC, one point a line, whatever parts the numbers.

No specification exists. A line of names tells the columns; without one their number and their values do:
x y z, then a colour of 0 to 255 or 0 to 1, an intensity, or both. Other columns are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.intensity import INTENSITY_NAMES
from render_agent.scans.formats.ply.ascii import text_numbers

BLOCK_BYTES = 32 << 20
"""Bytes of text that are read at a time."""

FIRST_BYTES = 1 << 16
"""Bytes in which the names of the columns and the first points stand."""

GUESSED_FROM = 1000
"""Of so many points the values tell what the columns are."""

MOST_COLUMNS = 64

NAMES = {
    "x": "x", "easting": "x", "y": "y", "northing": "y", "z": "z", "height": "z", "elevation": "z",
    "r": "r", "red": "r", "rf": "r", "g": "g", "green": "g", "gf": "g", "b": "b", "blue": "b", "bf": "b",
    "i": "i", "int": "i", **dict.fromkeys(INTENSITY_NAMES, "i"),
}  # fmt: skip
"""What columns are called, in small letters, by what they are."""

NO_NUMBERS = re.compile(rb"[b-dg-hj-mo-zB-DG-HJ-MO-Z#\"%!/]")
"""What stands in no number, not even in nan, inf or 1e-9: such a line holds names, or is a comment."""

Columns = dict[str, int]
"""Which column is x, y, z, r, g, b and i (the intensity)."""


def read_columns(path: Path, size: int) -> Scan:
    """Return the cloud of a text file of `size` bytes."""
    with path.open("rb") as file:
        first = file.read(FIRST_BYTES)
    lines = _lines(first, whole=size <= FIRST_BYTES)
    names = next((line for line in lines if NO_NUMBERS.search(line)), None)
    points = [line for line in lines if _is_row(line)]
    if not points:
        raise unreadable(path, "it holds no lines of numbers")
    decimal_comma = b";" in points[0] and b"," in points[0] and b"." not in points[0]
    rows = [text_numbers(path, _parted(line, decimal_comma)) for line in points[:GUESSED_FROM]]
    across = len(rows[0])
    if not 3 <= across <= MOST_COLUMNS:
        raise unreadable(path, f"its lines have {across} numbers, where x, y and z are needed")
    table = np.array([row for row in rows if len(row) == across])
    columns = _named(names, across, decimal_comma) or _guessed(table)
    floats = _are_shares(table, columns)
    cloud = CloudBuilder(bits=0 if floats else 8)
    for numbers, rows_read in _blocks(path, decimal_comma, lines[0].isdigit()):
        if len(numbers) != across * rows_read:
            raise unreadable(path, f"not all its lines have {across} numbers")
        part = numbers.reshape(-1, across)
        cloud.add(
            part[:, [columns[axis] for axis in "xyz"]],
            part[:, [columns[channel] for channel in "rgb"]] if "r" in columns else None,
            part[:, columns["i"]] if "i" in columns else None,
        )
    return cloud.scan()


def _lines(text: bytes, *, whole: bool) -> list[bytes]:
    """Return the lines of a text that are not empty; the last only where the text is `whole`."""
    lines = text.splitlines()
    return [line.strip() for line in (lines if whole else lines[:-1]) if line.strip()]


def _is_row(line: bytes) -> bool:
    """Whether a line is one of a point: no comment, no names, and no count of the lines that follow."""
    return len(re.split(rb"[\s,;]+", line.strip(b" \t,;"))) > 1 and not NO_NUMBERS.search(line)


def _parted(text: bytes, decimal_comma: bool) -> bytes:
    """Return text in which white space alone parts the numbers."""
    if decimal_comma:
        return text.translate(bytes.maketrans(b",;", b". "))
    return text.translate(bytes.maketrans(b",;", b"  "))


def _blocks(
    path: Path, decimal_comma: bool, counted: bool
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Yield the numbers of some of the file's lines, and how many lines these are.

    counted: whether lines of one number stand in it, which count those that follow.
    """
    rest = b""
    with path.open("rb") as file:
        while True:
            read = file.read(BLOCK_BYTES)
            text = rest + read
            end = text.rfind(b"\n") + 1 if read else len(text)
            text, rest = text[:end].replace(b"\r", b""), text[end:]
            if len(rest) > BLOCK_BYTES:
                raise unreadable(path, "it has a line without an end")
            text = _rows_only(text)
            if counted:
                text = re.sub(rb"(?m)^[ \t]*[0-9]+[ \t]*$", b"", text)
            text = re.sub(rb"\n[ \t]*(?=\n)", b"", text.strip())
            if text:
                yield text_numbers(path, _parted(text, decimal_comma)), text.count(b"\n") + 1
            if not read:
                return


def _rows_only(text: bytes) -> bytes:
    """Return text without the lines that hold names or comments."""
    kept, at = [], 0
    while match := NO_NUMBERS.search(text, at):
        kept.append(text[at : text.rfind(b"\n", 0, match.start()) + 1])
        at = text.find(b"\n", match.end())
        at = len(text) if at < 0 else at
    return b"".join([*kept, text[at:]])


def _named(line: bytes | None, across: int, decimal_comma: bool) -> Columns | None:
    """Return the columns that a line of names tells; None where it names no x, y and z."""
    if line is None:
        return None
    text = line.decode("utf-8", "replace").lstrip("#/!% ")
    parts = re.split(r"[;\t]" if decimal_comma or ";" in text else r"[,\s]+", text.strip())
    words = [re.sub(r"[\"'\s]|[\[(].*", "", part).removeprefix("//").lower() for part in parts]
    columns: Columns = {}
    for at, word in enumerate(words[:across]):
        if word in NAMES:
            columns.setdefault(NAMES[word], at)
    if len(words) != across or not columns.keys() >= set("xyz"):
        return None
    return (
        columns
        if columns.keys() >= set("rgb")
        else {k: v for k, v in columns.items() if k not in "rgb"}
    )


def _guessed(table: NDArray[np.float64]) -> Columns:
    """Return what the columns of the first points, (n, c), seem to be."""
    across = table.shape[1]
    columns = {"x": 0, "y": 1, "z": 2}
    if across == 4:
        return {**columns, "i": 3}
    # of seven columns or more an intensity may stand before the colour or behind it
    for at in (4, 3, 6) if across >= 7 else (3,):
        if at + 3 <= across and _is_colour(table[:, at : at + 3]):
            columns |= {"r": at, "g": at + 1, "b": at + 2}
            if at == 4:
                columns["i"] = 3
            break
    else:
        if across in (5, 7, 8):
            columns["i"] = 3
    return columns


def _is_colour(table: NDArray[np.float64]) -> bool:
    """Whether three columns, (n, 3), can be a colour: whole from 0 to 255, or 0 to 1 and no normals."""
    if not ((table >= 0) & (table <= 255)).all():
        return False
    if (table == np.rint(table)).all():
        return True
    unit = np.abs(np.linalg.norm(table, axis=1) - 1) < 1e-2
    return bool((table <= 1).all() and not unit.all())


def _are_shares(table: NDArray[np.float64], columns: Columns) -> bool:
    """Whether the colours of the first points run from 0 to 1."""
    if "r" not in columns:
        return False
    colours = table[:, [columns[channel] for channel in "rgb"]]
    return bool((colours <= 1).all() and (colours != np.rint(colours)).any())
