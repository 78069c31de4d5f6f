"""Read point clouds in text columns (XYZ, PTS, TXT, CSV and ASC), one point per line, with any separator.

There is no specification. Columns are identified by a header line, else by their number and values:
x y z, then a colour (0 to 255 or 0 to 1), an intensity, or both. Other columns are ignored.
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

BLOCK_BYTES = 32 << 20  # text read at a time
START_BYTES = 1 << 16  # text that contains the header line and the first points
SAMPLED_ROWS = 1000  # points from which the columns are guessed
MAX_COLUMNS = 64

# Lower-case column names.
NAMES = {
    "x": "x", "easting": "x", "y": "y", "northing": "y", "z": "z", "height": "z", "elevation": "z",
    "r": "r", "red": "r", "rf": "r", "g": "g", "green": "g", "gf": "g", "b": "b", "blue": "b", "bf": "b",
    "i": "i", "int": "i", **dict.fromkeys(INTENSITY_NAMES, "i"),
}  # fmt: skip

# Characters that occur in no number, including nan, inf and 1e-9; such a line is a header or a comment.
NON_NUMERIC = re.compile(rb"[b-dg-hj-mo-zB-DG-HJ-MO-Z#\"%!/]")

Columns = dict[str, int]
"""Column index of x, y, z, r, g, b and i (the intensity)."""


def read_columns(path: Path, size: int) -> Scan:
    """Read a text file of `size` bytes as a cloud."""
    with path.open("rb") as file:
        first = file.read(START_BYTES)
    lines = _lines(first, is_whole_file=size <= START_BYTES)
    names = next((line for line in lines if NON_NUMERIC.search(line)), None)
    points = [line for line in lines if _is_row(line)]
    if not points:
        raise unreadable(path, "it has no lines of numbers")
    decimal_comma = b";" in points[0] and b"," in points[0] and b"." not in points[0]
    rows = [text_numbers(path, _separated(line, decimal_comma)) for line in points[:SAMPLED_ROWS]]
    num_columns = len(rows[0])
    if not 3 <= num_columns <= MAX_COLUMNS:
        raise unreadable(path, f"its lines have {num_columns} numbers; x, y and z are required")
    table = np.array([row for row in rows if len(row) == num_columns])
    columns = _columns_of_header(names, num_columns, decimal_comma) or _guess_columns(table)
    floats = _are_shares(table, columns)
    cloud = CloudBuilder(bits=0 if floats else 8)
    for numbers, rows_read in _blocks(path, decimal_comma, lines[0].isdigit()):
        if len(numbers) != num_columns * rows_read:
            raise unreadable(path, f"not all of its lines have {num_columns} numbers")
        part = numbers.reshape(-1, num_columns)
        cloud.add(
            part[:, [columns[axis] for axis in "xyz"]],
            part[:, [columns[channel] for channel in "rgb"]] if "r" in columns else None,
            part[:, columns["i"]] if "i" in columns else None,
        )
    return cloud.scan()


def _lines(text: bytes, *, is_whole_file: bool) -> list[bytes]:
    """Return the non-empty lines of a text; the last one is dropped unless the text is the whole file."""
    lines = text.splitlines()
    return [line.strip() for line in (lines if is_whole_file else lines[:-1]) if line.strip()]


def _is_row(line: bytes) -> bool:
    """Return True if a line is a point, not a comment, a header, or a count of the following lines."""
    return len(re.split(rb"[\s,;]+", line.strip(b" \t,;"))) > 1 and not NON_NUMERIC.search(line)


def _separated(text: bytes, decimal_comma: bool) -> bytes:
    """Return the text with spaces as the only separators."""
    if decimal_comma:
        return text.translate(bytes.maketrans(b",;", b". "))
    return text.translate(bytes.maketrans(b",;", b"  "))


def _blocks(
    path: Path, decimal_comma: bool, counted: bool
) -> Iterator[tuple[NDArray[np.float64], int]]:
    """Yield the numbers in the file, block by block, with the number of lines in each.

    Args:
        path: The file.
        decimal_comma: Whether commas are decimal points.
        counted: Whether the file has lines that count the following points, which are skipped.
    """
    remainder = b""
    with path.open("rb") as file:
        while True:
            block = file.read(BLOCK_BYTES)
            text = remainder + block
            end = text.rfind(b"\n") + 1 if block else len(text)
            text, remainder = text[:end].replace(b"\r", b""), text[end:]
            if len(remainder) > BLOCK_BYTES:
                raise unreadable(path, "it has an endless line")
            text = _rows_only(text)
            if counted:
                text = re.sub(rb"(?m)^[ \t]*[0-9]+[ \t]*$", b"", text)
            text = re.sub(rb"\n[ \t]*(?=\n)", b"", text.strip())
            if text:
                yield text_numbers(path, _separated(text, decimal_comma)), text.count(b"\n") + 1
            if not block:
                return


def _rows_only(text: bytes) -> bytes:
    """Return the text without header and comment lines."""
    parts, at = [], 0
    while match := NON_NUMERIC.search(text, at):
        parts.append(text[at : text.rfind(b"\n", 0, match.start()) + 1])
        at = text.find(b"\n", match.end())
        at = len(text) if at < 0 else at
    return b"".join([*parts, text[at:]])


def _columns_of_header(line: bytes | None, num_columns: int, decimal_comma: bool) -> Columns | None:
    """Return the columns named in a header line, or None if it does not name x, y and z."""
    if line is None:
        return None
    text = line.decode("utf-8", "replace").lstrip("#/!% ")
    parts = re.split(r"[;\t]" if decimal_comma or ";" in text else r"[,\s]+", text.strip())
    words = [re.sub(r"[\"'\s]|[\[(].*", "", part).removeprefix("//").lower() for part in parts]
    columns: Columns = {}
    for at, word in enumerate(words[:num_columns]):
        if word in NAMES:
            columns.setdefault(NAMES[word], at)
    if len(words) != num_columns or not columns.keys() >= set("xyz"):
        return None
    return (
        columns
        if columns.keys() >= set("rgb")
        else {k: v for k, v in columns.items() if k not in "rgb"}
    )


def _guess_columns(table: NDArray[np.float64]) -> Columns:
    """Guess the columns from the values of the first points, (n, c)."""
    num_columns = table.shape[1]
    columns = {"x": 0, "y": 1, "z": 2}
    if num_columns == 4:
        return {**columns, "i": 3}
    # With seven or more columns, an intensity may precede or follow the colour.
    for at in (4, 3, 6) if num_columns >= 7 else (3,):
        if at + 3 <= num_columns and _is_colour(table[:, at : at + 3]):
            columns |= {"r": at, "g": at + 1, "b": at + 2}
            if at == 4:
                columns["i"] = 3
            break
    else:
        if num_columns in (5, 7, 8):
            columns["i"] = 3
    return columns


def _is_colour(table: NDArray[np.float64]) -> bool:
    """Return True if three columns, (n, 3), can be a colour: integers to 255, or 0 to 1 but not unit normals."""
    if not ((table >= 0) & (table <= 255)).all():
        return False
    if (table == np.rint(table)).all():
        return True
    is_unit = np.abs(np.linalg.norm(table, axis=1) - 1) < 1e-2
    return bool((table <= 1).all() and not is_unit.all())


def _are_shares(table: NDArray[np.float64], columns: Columns) -> bool:
    """Return True if the colours of the first points range from 0 to 1."""
    if "r" not in columns:
        return False
    colours = table[:, [columns[channel] for channel in "rgb"]]
    return bool((colours <= 1).all() and (colours != np.rint(colours)).any())
