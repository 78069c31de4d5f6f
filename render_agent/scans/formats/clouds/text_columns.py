"""Read point clouds in text columns (XYZ, PTS, TXT, CSV and ASC), one point per line, with any separator.

There is no specification. Columns are identified by a header line, else by their number and the values of rows from the
whole file: x y z, then a colour (8 bits, 16 bits, or 0 to 1), an intensity, or both. Notes say what was assumed and what
was ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.colours import INTENSITY_NAMES
from render_agent.scans.formats.declared import Declared, unit_named
from render_agent.scans.formats.ply.ascii import text_numbers
from render_agent.scans.formats.ply.vertices import NORMALS
from render_agent.util.display import count_noun
from render_agent.util.reasons import short_repr, truncate

COUNT = re.compile(rb"(?m)^[ \t]*([0-9]+)[ \t]*$")  # line that counts the following points
MAX_DIGITS = 16

BLOCK_BYTES = 32 << 20  # text read at a time
START_BYTES = 1 << 16  # text that contains the header line and the first points
SAMPLED_ROWS = 2000  # points from which the columns are guessed
# Places in the file from which these points are read, and bytes read at each.
SAMPLED_PLACES, PLACE_BYTES = 256, 1 << 12
MAX_LABEL = 64  # integers up to this may be labels, colours rarely stay so dark
MAX_COLUMNS = 64

# Lower-case column names.
NAMES = {
    "x": "x", "easting": "x", "y": "y", "northing": "y", "z": "z", "height": "z", "elevation": "z",
    "r": "r", "red": "r", "rf": "r", "g": "g", "green": "g", "gf": "g", "b": "b", "blue": "b", "bf": "b",
    "i": "i", "int": "i", **dict.fromkeys(INTENSITY_NAMES, "i"),
}  # fmt: skip

# Characters that occur in no number, including nan, inf and 1e-9; such a line is a header or a comment.
NON_NUMERIC = re.compile(rb"[b-dg-hj-mo-zB-DG-HJ-MO-Z#\"%!/]")

# A unit after a column name, as in "x [mm]", "x (cm)" and "x_m".
UNIT_OF_NAME = re.compile(r"[\[(_](m|cm|mm|ft|feet|in|inch|met(?:er|re)s?)[\])]?$", re.IGNORECASE)

GEOGRAPHIC = {"lat", "latitude", "lon", "long", "lng", "longitude"}
COMMENT_START = re.compile(rb"[ \t]*(#|//|%|!)")

BOM = b"\xef\xbb\xbf"
DECIMAL_COMMA = re.compile(rb"[+-]?\d*(,\d+)?([eE][+-]?\d+)?")
ROLES = {"x": "x", "y": "y", "z": "z", "r": "red", "g": "green", "b": "blue", "i": "intensity"}

Columns = dict[str, int]  # column index of x, y, z, r, g, b and i (intensity)


def read_columns(path: Path, size: int) -> Scan:
    """Read a text file of `size` bytes as a cloud."""
    with path.open("rb") as file:
        head_text = file.read(START_BYTES).replace(b'"', b"")
    _refuse_other_text(path, head_text)
    lines = _lines(head_text.removeprefix(BOM), is_whole_file=size <= START_BYTES)
    names = [line for line in lines if NON_NUMERIC.search(line)]
    points = [line for line in lines if _is_row(line)]
    if not points:
        first_line = short_repr(lines[0].decode("utf-8", "replace")) if lines else "missing"
        raise unreadable(path, f"it has no lines of numbers; its first line is {first_line}")
    decimal_comma = _has_decimal_comma(points)
    num_columns = len(text_numbers(path, _normalise_separators(points[0], decimal_comma)))
    if not 3 <= num_columns <= MAX_COLUMNS:
        raise unreadable(path, f"its lines have {num_columns} numbers; x, y and z are required")
    words, columns, metres = _columns_of_header(names, num_columns, decimal_comma)
    notes = []
    if not words:
        _refuse_degrees(path, names[:1])
        words = [f"column {at + 1}" for at in range(num_columns)]
        sample = _sample(path, size, points)
        rows = [text_numbers(path, _normalise_separators(line, decimal_comma)) for line in sample]
        table = np.array([row for row in rows if len(row) == num_columns])
        columns = _guess_columns(table, intensity_first=path.suffix.lower() == ".pts")
        roles = {at: ROLES[role] for role, at in columns.items()}
        assumed = ", ".join(roles.get(at, "?") for at in range(max(roles) + 1))
        header_words = _unknown_header(lines[: lines.index(points[0])], num_columns)
        source = f"the file names them {header_words}" if header_words else "not named in the file"
        notes.append(f"assumed the columns {assumed} ({source})")
    declared = Declared(words)
    declared.use(*(words[at] for at in columns.values()), *NORMALS)
    cloud = CloudBuilder(bits=None)
    head = lines[: lines.index(points[0])]
    is_counted = any(line.isdigit() for line in head)
    text_lines = -sum(_is_skipped(line) for line in head)
    num_rows = num_declared = 0
    for block in _blocks(path, decimal_comma, is_counted):
        num_rows += block.num_rows
        text_lines += block.text_lines
        num_declared += block.declared
        if not block.num_rows:
            continue
        if len(block.numbers) != num_columns * block.num_rows:
            raise unreadable(path, f"not all of its lines have {num_columns} numbers")
        part = block.numbers.reshape(-1, num_columns)
        cloud.add(
            part[:, [columns[axis] for axis in "xyz"]],
            part[:, [columns[channel] for channel in "rgb"]] if "r" in columns else None,
            part[:, columns["i"]] if "i" in columns else None,
        )
    if text_lines:
        notes.append(f"ignored: {count_noun(text_lines, 'line')} of text between the points")
    if num_declared > num_rows:
        notes.append(f"it declares {num_declared:,} points, but has only {num_rows:,}")
    scan = cloud.scan()
    return replace(scan, metres=metres, notes=(*notes, *scan.notes, *declared.notes))


class _Block(NamedTuple):
    numbers: NDArray[np.float64]
    num_rows: int  # points
    text_lines: int  # skipped lines of text, other than comments
    declared: int  # points declared by lines with a count


def _is_skipped(line: bytes) -> bool:
    """Return True if a line is text, but not a comment."""
    return bool(NON_NUMERIC.search(line)) and not COMMENT_START.match(line)


def _unknown_header(head: list[bytes], num_columns: int) -> str:
    """Return the names in the last line before the points if it has one for each column; otherwise empty."""
    if not head or not _is_skipped(head[-1]):
        return ""
    words = re.split(r"[,;\s]+", head[-1].decode("utf-8", "replace").strip(" ,;"))
    return truncate(", ".join(words), 80) if len(words) == num_columns else ""


def _refuse_degrees(path: Path, names: list[bytes]) -> None:
    """Raise SceneError if the header names a longitude or latitude."""
    for line in names:
        words = re.split(r"[^a-z]+", line.decode("utf-8", "replace").lower())
        if GEOGRAPHIC.intersection(words) and not COMMENT_START.match(line):
            raise unreadable(
                path,
                "its coordinates are longitude and latitude in degrees",
                "project it to metres",
            )


def _refuse_other_text(path: Path, first: bytes) -> None:
    """Raise SceneError if a file starts like text of another kind."""
    if first.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in first[:4]:
        raise unreadable(path, "it is UTF-16 text or binary data", "save it as UTF-8 text")
    if re.match(rb"\s*ncols\s+\d+\s+nrows\s", first, re.IGNORECASE):
        raise unreadable(
            path,
            "it is an ESRI ASCII grid, a raster of heights",
            "convert it to points, for example with `gdal_translate -of XYZ`",
        )


def _has_decimal_comma(points: list[bytes]) -> bool:
    """Return True if commas are decimal points: they never end a number, and something else separates the columns."""
    sample = points[:SAMPLED_ROWS]
    if any(b"." in line for line in sample) or not any(b"," in line for line in sample):
        return False
    rows = [re.split(rb"[\s;]+", line.strip(b" \t;")) for line in sample]
    return all(len(row) > 2 and all(DECIMAL_COMMA.fullmatch(word) for word in row) for row in rows)


def _sample(path: Path, size: int, points: list[bytes]) -> list[bytes]:
    """Return at most SAMPLED_ROWS rows from all over the file; `points` are its first."""
    if size > SAMPLED_PLACES * PLACE_BYTES:
        rows_per_place = SAMPLED_ROWS // SAMPLED_PLACES
        points = points[:rows_per_place]
        with path.open("rb") as file:
            for place in range(1, SAMPLED_PLACES):
                file.seek(place * (size - PLACE_BYTES) // SAMPLED_PLACES)
                lines = file.read(PLACE_BYTES).replace(b'"', b"").splitlines()[1:-1]
                rows = (line.strip() for line in lines if _is_row(line))
                points += islice(rows, rows_per_place)
    elif size > START_BYTES:
        text = path.read_bytes().removeprefix(BOM).replace(b'"', b"")
        lines = _lines(text, is_whole_file=True)
        points = [line for line in lines if _is_row(line)]
    return points[:: -(-len(points) // SAMPLED_ROWS)]


def _lines(text: bytes, *, is_whole_file: bool) -> list[bytes]:
    """Return the non-empty lines of a text; the last one is dropped unless the text is the whole file."""
    lines = text.splitlines()
    return [line.strip() for line in (lines if is_whole_file else lines[:-1]) if line.strip()]


def _is_row(line: bytes) -> bool:
    """Return True if a line is a point, not a comment, a header, or a count of the following lines."""
    return len(re.split(rb"[\s,;]+", line.strip(b" \t,;"))) > 1 and not NON_NUMERIC.search(line)


def _normalise_separators(text: bytes, decimal_comma: bool) -> bytes:
    """Return the text with spaces as the only separators."""
    if decimal_comma:
        return text.translate(bytes.maketrans(b",;", b". "))
    return text.translate(bytes.maketrans(b",;", b"  "))


def _blocks(path: Path, decimal_comma: bool, counted: bool) -> Iterator[_Block]:
    remainder = b""
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        while True:
            block = file.read(BLOCK_BYTES)
            text = remainder + block
            end = text.rfind(b"\n") + 1 if block else len(text)
            text, remainder = text[:end].replace(b'"', b""), text[end:]
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            if len(remainder) > BLOCK_BYTES:
                raise unreadable(path, "it has an endless line")
            text, text_lines = _rows_only(text)
            counts = COUNT.findall(text) if counted else []
            declared = sum(int(count) for count in counts if len(count) < MAX_DIGITS)
            if counts:
                text = COUNT.sub(b"", text)
            text = re.sub(rb"\n[ \t]*(?=\n)", b"", text.strip())
            num_rows = text.count(b"\n") + 1 if text else 0
            numbers = text_numbers(path, _normalise_separators(text, decimal_comma))
            yield _Block(numbers, num_rows, text_lines, declared)
            if not block:
                return


def _rows_only(text: bytes) -> tuple[bytes, int]:
    """Return the text without header and comment lines, and the number of header lines."""
    parts, at, num_headers = [], 0, 0
    while match := NON_NUMERIC.search(text, at):
        start = text.rfind(b"\n", 0, match.start()) + 1
        num_headers += not COMMENT_START.match(text, start)
        parts.append(text[at:start])
        at = text.find(b"\n", match.end())
        at = len(text) if at < 0 else at
    return b"".join([*parts, text[at:]]), num_headers


def _columns_of_header(
    lines: list[bytes], num_columns: int, decimal_comma: bool
) -> tuple[list[str], Columns, float | None]:
    """Return the names in the first line that names x, y and z, the columns, and the unit of x, y and z in metres.

    The names and the columns are empty if there is no such line; the unit is None if the names contain none.
    """
    for line in lines:
        text = line.decode("utf-8", "replace").lstrip("#/!% ")
        separators = r"[;\t]" if decimal_comma or ";" in text else r"[,\s]+"
        parts = re.split(separators, re.sub(r"(?<!\s)\s++(?=[\[(])", "", text).strip())
        units = [UNIT_OF_NAME.search(part) for part in parts]
        parts = [UNIT_OF_NAME.sub("", part) for part in parts]
        words = [re.sub(r"['\s]|[\[(].*", "", part).removeprefix("//").lower() for part in parts]
        if len(words) == num_columns + 1 and not words[-1]:
            words.pop()
        columns: Columns = {}
        for at, word in enumerate(words):
            if word in NAMES:
                columns.setdefault(NAMES[word], at)
        if len(words) == num_columns and columns.keys() >= set("xyz"):
            if not columns.keys() >= set("rgb"):
                columns = {role: at for role, at in columns.items() if role not in "rgb"}
            x, y, z = (units[columns[axis]] for axis in "xyz")
            is_declared = x and y and z and x[1].lower() == y[1].lower() == z[1].lower()
            words = [word or f"column {at + 1}" for at, word in enumerate(words)]
            return words, columns, unit_named(x[1]) if x and is_declared else None
    return [], {}, None


def _guess_columns(table: NDArray[np.float64], *, intensity_first: bool) -> Columns:
    """Guess the columns from the values of points, (n, c)."""
    num_columns = table.shape[1]
    columns = {"x": 0, "y": 1, "z": 2}
    if num_columns == 4:
        return {**columns, "i": 3}
    at = _colour_at(table, intensity_first)
    if at is not None:
        columns |= {"r": at, "g": at + 1, "b": at + 2}
    if at == 4 or (at is None and num_columns in (5, 7, 8) and not _are_normals(table[:, 3:6])):
        columns["i"] = 3
    return columns


def _colour_at(table: NDArray[np.float64], intensity_first: bool) -> int | None:
    """Return the first column of the colour, or None if there is none."""
    has_normals = table.shape[1] > 5 and _are_normals(table[:, 3:6])
    starts = [at for at in ((6,) if has_normals else (3, 4, 6)) if at + 3 <= table.shape[1]]
    for are_16_bits in (False, True):
        candidates = [at for at in starts if _is_colour(table[:, at : at + 3], are_16_bits)]
        if candidates[:2] != [3, 4]:
            if candidates:
                return candidates[0]
            continue
        # Either r g b and a label or opacity, or an intensity and r g b.
        first, last = table[:, 3], table[:, 6]
        if intensity_first or first.max() <= MAX_LABEL < last.max():
            return 4
        if last.max() <= MAX_LABEL < first.max() or np.ptp(last) == 0:
            return 3
        return 3 if _similarity(first, table[:, 4:6]) >= _similarity(last, table[:, 4:6]) else 4
    return None


def _similarity(column: NDArray[np.float64], channels: NDArray[np.float64]) -> float:
    """Return the mean difference of a column from two colour channels, negated: colour channels of a scan are similar."""
    return -float(np.abs(channels - column[:, None]).mean())


def _are_normals(table: NDArray[np.float64]) -> bool:
    """Return True if three columns, (n, 3), are unit vectors, or zero for points without a normal."""
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(table, axis=1)
    is_nonzero = lengths > 0
    return bool(is_nonzero.any() and (np.abs(lengths[is_nonzero] - 1) < 1e-2).all())


def _is_colour(table: NDArray[np.float64], are_16_bits: bool) -> bool:
    """Return True if three columns, (n, 3), can be a colour: integers to 255 or 65535, or 0 to 1, but not normals."""
    tops = table.max(axis=0)
    are_integers = bool((table == np.rint(table)).all())
    if table.min() < 0 or _are_normals(table):
        return False
    if are_16_bits:
        return are_integers and tops.min() > 255 and tops.max() <= 65535
    return bool(tops.max() <= 1) or (are_integers and bool(tops.max() <= 255))
