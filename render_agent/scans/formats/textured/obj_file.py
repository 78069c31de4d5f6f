"""Parse the geometry of Wavefront OBJ files.

trimesh is not used: it resolves relative indices against the whole file (its issue 2556), fans concave polygons (2560),
and drops vertex colours of objects with a material. This is also faster.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.file_frame import Axis
from render_agent.scans.formats.cleaning import check_corners
from render_agent.scans.formats.declared import (
    FEW_CORNERS,
    Declared,
    decode_text,
    unit_of_comments,
    up_of_comments,
)
from render_agent.scans.formats.ply.ascii import text_numbers
from render_agent.scans.formats.triangulation import triangulate

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BLOCK_BYTES = 16 << 20  # text parsed at a time, to bound memory
MAX_LINE_BYTES = 1 << 16  # enough for a face with thousands of corners

COMMENT = re.compile(r"(?m)^[ \t]*+#++[ \t]*+(.*\S)")
COMMENT_BYTES = 1 << 16  # text in which comments may specify the unit
POLYPAINT = re.compile(rb"(?mi)^#MRGB[ \t]+((?:[0-9a-f]{8})+)[ \t]*$")
SPACES = (b" ", b"\t")
CONTINUATION = re.compile(rb"\\[ \t]*\n")
INDENT = re.compile(rb"(?m)^[ \t]+")
TRAILING_COMMENT = re.compile(rb"(?m)^((?:vt|v|f)[ \t][^#\n]*)#[^\n]*")
TRAILING_SLASH = re.compile(rb"(?<!/)/++(?=[ \t\n])")
SLASH_TO_SPACE = bytes.maketrans(b"/vtf", b"    ")
USED = {"v", "vt", "vn", "f", "usemtl", "mtllib", "o", "g", "s"}


@dataclass
class ObjFile:
    points: Floats  # (n, 3)
    colours: Floats | None  # (n, 3), of any range, or None
    uv: Floats  # texture coordinates, (t, 2)
    corners: Integers
    """Indices of points and texture coordinates of the triangles, (m, 3, 2); -1 for no coordinates."""
    materials: list[str]  # names of materials, in the order of their first use
    face_materials: Integers  # index of the material of each triangle, (m,); -1 for none
    libraries: list[str]
    metres: float | None = None  # unit that a comment specifies, in metres; None if none does
    up: Axis | None = None  # up axis that a comment specifies; None if none does


def parse_obj(path: Path, declared: Declared) -> ObjFile:
    """Parse an OBJ file; statements that are not used are added to `declared`. Raises ValueError."""
    text = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\\\n" in text or b"\\ \n" in text:
        text = CONTINUATION.sub(b" ", text)
    parser = _Parser(path, declared)
    for block in _blocks(text):
        parser.add(block)
    comments = COMMENT.findall(text[:COMMENT_BYTES].decode("utf-8", "replace"))
    obj = parser.finish()
    return replace(
        obj,
        colours=_polypaint(text, len(obj.points)) if obj.colours is None else obj.colours,
        metres=unit_of_comments(comments),
        up=up_of_comments(comments),
    )


def _polypaint(text: bytes, num_points: int) -> Floats | None:
    """Return the vertex colours that ZBrush writes in comments, MMRRGGBB per vertex; None if there are none."""
    data = bytes.fromhex(b"".join(POLYPAINT.findall(text)).decode())
    colours = np.frombuffer(data, np.uint8).reshape(-1, 4)[:, 1:]
    return colours.astype(float) if len(colours) == num_points > 0 else None


def _blocks(text: bytes) -> Iterator[bytes]:
    """Yield the text in blocks of whole lines, each ending with a newline."""
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + BLOCK_BYTES) + 1 or len(text)
        block = text[start:end]
        yield block if block.endswith(b"\n") else block + b"\n"
        start = end


@dataclass
class _Parser:
    path: Path
    declared: Declared
    points: list[Floats] = field(default_factory=list)
    uv: list[Floats] = field(default_factory=list)
    polygons: list[tuple[Integers, Integers]] = field(default_factory=list)
    uses: list[tuple[int, str]] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)
    num_points: int = 0
    num_uv: int = 0
    num_lines: int = 0

    def add(self, text: bytes) -> None:
        if text[:1] in SPACES or b"\n " in text or b"\n\t" in text:
            text = INDENT.sub(b"", text)
        if b"#" in text:
            text = TRAILING_COMMENT.sub(rb"\1", text)
        if b"/ " in text or b"/\n" in text:
            text = TRAILING_SLASH.sub(b"", text)
        lines = _Lines(text)
        if int(lines.lengths.max()) > MAX_LINE_BYTES:
            raise ValueError(f"a line has {int(lines.lengths.max()):,} bytes")
        rows = lines.starting_with(b"v")
        uv_rows = lines.starting_with(b"vt")
        face_rows = lines.starting_with(b"f")
        self._add_rows(self.points, lines, rows, 3, 8)
        self._add_rows(self.uv, lines, uv_rows, 1, 2)
        # Relative indices count back from their own line.
        points_before = self.num_points + np.searchsorted(rows, face_rows)
        uv_before = self.num_uv + np.searchsorted(uv_rows, face_rows)
        self._add_faces(lines, face_rows, points_before, uv_before)
        is_other = np.ones(len(lines.starts), bool)
        for used in (rows, uv_rows, face_rows, lines.starting_with(b"vn"), lines.comments()):
            is_other[used] = False
        for number in np.flatnonzero(is_other).tolist():
            self._add_statement(self.num_lines + number, lines.text_of(number))
        self.num_points += len(rows)
        self.num_uv += len(uv_rows)
        self.num_lines += len(lines.starts)

    def _add_rows(
        self, to: list[Floats], lines: _Lines, rows: Integers, min_count: int, max_count: int
    ) -> None:
        """Add rows of numbers as (n, most), missing ones as NaN."""
        widths = lines.words(rows) - 1
        if len(widths) and int(widths.min()) < min_count:
            raise ValueError(f"a vertex has fewer than {min_count} coordinates")
        table = np.full((len(rows), max_count), np.nan)
        for width in np.unique(widths).tolist():
            at = np.flatnonzero(widths == width)
            values = self._numbers(lines, rows[at], width)
            table[at, : min(width, max_count)] = values[:, :max_count]
        to.append(table)

    def _add_faces(
        self, lines: _Lines, rows: Integers, points_before: Integers, uv_before: Integers
    ) -> None:
        """Add polygons, grouped by their number of corners and the form of these."""
        sizes = lines.words(rows) - 1
        slashes, doubles = lines.count(rows, b"/"), lines.count(rows, b"//")
        forms = (sizes << 40) + (slashes << 20) + doubles
        for form in np.unique(forms).tolist():
            size, slash, double = form >> 40, form >> 20 & 0xFFFFF, form & 0xFFFFF
            at = np.flatnonzero(forms == form)
            corners = np.full((len(at), size, 2), 0, np.int64)
            width = 1 if not slash else 2 if double or slash == size else 3
            is_regular = (slash, double) in ((0, 0), (size, 0), (2 * size, 0), (2 * size, size))
            if size < 3:
                self.declared.add(FEW_CORNERS)
                continue
            if is_regular:
                values = self._numbers(lines, rows[at], size * width).reshape(-1, size, width)
                if (values != np.rint(values)).any():
                    raise ValueError("a face has an index that is not a whole number")
                corners[..., 0] = values[..., 0]
                if slash and not double:
                    corners[..., 1] = values[..., 1]
            else:
                words = (lines.text_of(row).split()[1:] for row in rows[at].tolist())
                corners[:] = [[_corner(word) for word in line] for line in words]
            for axis, before in enumerate((points_before[at], uv_before[at])):
                part = corners[..., axis]
                corners[..., axis] = np.where(part < 0, before[:, None] + part, part - 1)
            self.polygons.append((self.num_lines + rows[at], corners))

    def _numbers(self, lines: _Lines, rows: Integers, width: int) -> Floats:
        numbers = text_numbers(self.path, lines.bytes_of(rows).translate(SLASH_TO_SPACE))
        if len(numbers) != len(rows) * width:
            raise ValueError(f"not all of its rows have {width} numbers")
        return numbers.reshape(len(rows), width)

    def _add_statement(self, number: int, text: str) -> None:
        key, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        if key == "usemtl":
            self.uses.append((number, " ".join(rest.split())))
        elif key == "mtllib":
            self.libraries.append(rest.strip())
        elif key not in USED:
            self.declared.add(f"statement {key}")

    def finish(self) -> ObjFile:
        table = np.concatenate(self.points) if self.points else np.empty((0, 8))
        points = table[:, :3]
        if (np.isfinite(table[:, 3]) & np.isnan(table[:, 4]) & (table[:, 3] != 1)).any():
            self.declared.add("weights of vertices")
        # x y z, x y z w, x y z r g b, x y z r g b a, x y z w r g b: a weight of 1 is before the colour, an opacity after it
        has_weights = (table[:, 3] == 1).all() and not np.isin(table[:, 6], (1, 255)).all()
        at = 4 if has_weights else 3
        colours = table[:, at : at + 3] if np.isfinite(table[:, 5]).any() else None
        uv = np.concatenate(self.uv) if self.uv else np.empty((0, 2))
        uv = np.where(np.isnan(uv) & (np.arange(2) == 1), 0, uv)
        lines, corners = [], []
        for rows, polygons in self.polygons:
            check_corners(self.path, polygons[..., 0], len(points), first=1)
            is_missing = (polygons[..., 1] < -1) | (polygons[..., 1] >= len(uv))
            if is_missing.any():
                polygons[..., 1][is_missing] = -1
                self.declared.add("texture coordinates that do not exist")
            _, local, at_polygons = triangulate(polygons[..., 0], points)
            corners.append(polygons[at_polygons[:, None], local])
            lines.append(rows[at_polygons])
        triangles = np.concatenate(corners) if corners else np.empty((0, 3, 2), np.int64)
        line = np.concatenate(lines) if lines else np.empty(0, np.int64)
        if len(self.polygons) > 1:
            order = np.argsort(line, kind="stable")
            triangles, line = triangles[order], line[order]
        names = list(dict.fromkeys(name for _, name in self.uses))
        used_numbers = np.array([-1, *(names.index(name) for _, name in self.uses)], np.int64)
        starts = np.array([number for number, _ in self.uses], np.int64)
        materials = used_numbers[np.searchsorted(starts, line)]
        return ObjFile(points, colours, uv, triangles, names, materials, self.libraries)


def _corner(word: str) -> tuple[int, int]:
    """Return the indices of a corner's point and texture coordinates, 0 for none."""
    point, uv, *_ = [*word.split("/"), ""]
    return int(point), int(uv or 0)


class _Lines:
    """The lines of a text that ends with a newline."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._data = np.frombuffer(text + b"\n\n", np.uint8)
        ends = np.flatnonzero(self._data[: len(text)] == ord("\n"))
        self.starts = np.concatenate([[0], ends[:-1] + 1])
        self.lengths = ends + 1 - self.starts
        is_space = self._data[: len(text)] <= ord(" ")
        self._words = np.flatnonzero(~is_space[1:] & is_space[:-1]) + 1
        if not is_space[0]:
            self._words = np.concatenate([[0], self._words])

    def starting_with(self, key: bytes) -> Integers:
        """Return the numbers of the lines whose first word is `key`, one or two letters."""
        matches = np.isin(self._data[self.starts + len(key)], (ord(" "), ord("\t")))
        for at, letter in enumerate(key):
            matches &= self._data[self.starts + at] == letter
        return np.flatnonzero(matches)

    def comments(self) -> Integers:
        return np.flatnonzero(np.isin(self._data[self.starts], (ord("\n"), ord("#"))))

    def words(self, rows: Integers) -> Integers:
        """Return the number of words in each of these lines."""
        first, last = self.starts[rows], self.starts[rows] + self.lengths[rows]
        return _between(self._words, first, last)

    def count(self, rows: Integers, sign: bytes) -> Integers:
        """Return how often one or two equal characters occur in each of these lines."""
        if sign not in self._text:
            return np.zeros(len(rows), np.int64)
        is_sign = self._data == sign[0]
        if len(sign) > 1:
            is_sign[:-1] &= is_sign[1:]
        first, last = self.starts[rows], self.starts[rows] + self.lengths[rows]
        return _between(np.flatnonzero(is_sign), first, last)

    def bytes_of(self, rows: Integers) -> bytes:
        """Return the text of these lines, in ascending order."""
        if not len(rows):
            return b""
        first, last = int(rows[0]), int(rows[-1])
        start, end = int(self.starts[first]), int(self.starts[last] + self.lengths[last])
        if last - first + 1 == len(rows):
            return self._text[start:end]
        is_used = np.zeros(last - first + 1, bool)
        is_used[rows - first] = True
        mask = np.repeat(is_used, self.lengths[first : last + 1])
        chosen: bytes = self._data[start:end][mask].tobytes()
        return chosen

    def text_of(self, row: int) -> str:
        start = int(self.starts[row])
        return decode_text(self._text[start : start + int(self.lengths[row])]).strip()


def _between(places: Integers, first: Integers, last: Integers) -> Integers:
    """Return how many ascending places are in each range, the last excluded."""
    counts: Integers = np.searchsorted(places, last) - np.searchsorted(places, first)
    return counts
