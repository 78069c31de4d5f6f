"""PLY headers, the rows of an ASCII file, and the columns of any PLY file made into a scan.

Format: Greg Turk, "The PLY Polygon File Format" (1994), with the sized type names that later
programs write. No reader of a library is trusted with a file whose header may lie: the counts are
compared with the file's size before anything is allocated.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scene.formats.cleaning import Polygons, Scan, unreadable
from render_agent.scene.formats.intensity import greys

LONGEST_HEADER = 1 << 20

TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1",
    "short": "i2", "int16": "i2", "ushort": "u2", "uint16": "u2",
    "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip

INTENSITIES = ("intensity", "scalar_intensity", "reflectance", "scalar_reflectance")
"""Names, in small letters, under which programs write what a scanner measured of each point's reflection."""

Columns = dict[str, NDArray[Any]]
"""The numbers of an element's rows by property, (n,) each."""

FORMATS: dict[str, Literal["", "<", ">"]] = {
    "ascii": "",
    "binary_little_endian": "<",
    "binary_big_endian": ">",
}


@dataclass(frozen=True, slots=True)
class Property:
    """A column: `type` is numpy's name of it; `count` that of a list's length, None for a number."""

    name: str
    type: str
    count: str | None = None


@dataclass(frozen=True, slots=True)
class Element:
    """A table of `count` rows."""

    name: str
    count: int
    properties: tuple[Property, ...]

    @property
    def has_lists(self) -> bool:
        """Whether its rows may differ in length."""
        return any(column.count for column in self.properties)

    def least_bytes(self, binary: bool) -> int:
        """Return how long a row is at the least: lists may be empty, a number is a digit and a gap."""
        if not binary:
            return 2 * len(self.properties)
        return sum(np.dtype(column.count or column.type).itemsize for column in self.properties)


@dataclass(frozen=True, slots=True)
class Header:
    """What a PLY file promises; order: the byte order, empty for ASCII; size: its own bytes."""

    order: Literal["", "<", ">"]
    elements: tuple[Element, ...]
    size: int

    def needed(self) -> tuple[Element, ...]:
        """The elements with rows, up to the last that is a surface: the vertices or the faces."""
        filled = tuple(element for element in self.elements if element.count)
        last = max((i for i, e in enumerate(filled) if e.name in ("vertex", "face")), default=-1)
        return filled[: last + 1]


def read_header(path: Path, start: bytes, file_size: int) -> Header:
    """Return the header of a PLY file from its first bytes.

    SceneError where it is no PLY header, or promises more rows than a file of that size can hold.
    """
    header_end = re.search(rb"(?:^|[\r\n])end_header[ \t]*(\r\n|\n|\r)", start)
    if not header_end:
        raise unreadable(path, "its PLY header has no end")
    newline = re.match(rb"ply[ \t]*(\r\n|\n|\r)", start)
    if not newline:
        raise unreadable(path, "it does not begin as a PLY file does")
    end = header_end.start(1) + len(newline.group(1))
    lines = start[: header_end.start(1)].decode("ascii", "replace").splitlines()
    order, elements = _parse(path, lines)
    header = Header(order, elements, min(end, file_size))
    _check_promises(path, header, file_size - header.size)
    return header


def _parse(path: Path, lines: list[str]) -> tuple[Literal["", "<", ">"], tuple[Element, ...]]:
    order: Literal["", "<", ">"] | None = None
    elements: list[Element] = []
    for line in lines:
        match line.split():
            case ["format", name, *_] if name in FORMATS:
                order = FORMATS[name]
            case ["element", name, count] if re.fullmatch(r"\d{1,15}", count):
                elements.append(Element(name, int(count), ()))
            case ["property", *words] if elements and (column := _column(words)):
                last = elements[-1]
                elements[-1] = Element(last.name, last.count, (*last.properties, column))
            case [] | ["ply" | "comment" | "obj_info" | "end_header", *_]:
                pass
            case _:
                raise unreadable(
                    path, f"its PLY header has a line that makes no sense: {line[:60]!r}"
                )
    if order is None:
        raise unreadable(path, "its PLY header names no format")
    if len({element.name for element in elements}) < len(elements):
        raise unreadable(path, "its PLY header has two elements of one name")
    return order, tuple(elements)


def _column(words: list[str]) -> Property | None:
    match words:
        case ["list", count, kind, name] if kind in TYPES and TYPES.get(count, "f")[0] != "f":
            return Property(name, TYPES[kind], TYPES[count])
        case [kind, name] if kind in TYPES:
            return Property(name, TYPES[kind])
    return None


def _check_promises(path: Path, header: Header, left: int) -> None:
    # The last number of an ASCII file needs no gap behind it.
    room = left if header.order else left + 1
    for element in header.elements:
        needed = element.count * element.least_bytes(bool(header.order))
        if needed > room:
            raise unreadable(
                path,
                f"its header promises {element.count:,} rows of {element.name:.40},"
                f" but the {left:,} bytes that follow cannot hold them",
            )
        room -= needed


def cut_short(path: Path, element: Element) -> SceneError:
    """Return the error of a file that ends before an element's last row."""
    return unreadable(path, f"it ends before its {element.count:,} rows of {element.name:.40} do")


def corner_list(path: Path, element: Element) -> int:
    """Return which property of the faces lists their corners."""
    for i, column in enumerate(element.properties):
        if column.name in ("vertex_indices", "vertex_index") and column.count:
            if column.type[0] == "f":
                break
            return i
    raise unreadable(path, "its faces do not list their vertices")


def vertex_scan(path: Path, columns: Columns, faces: NDArray[Any] | None) -> Scan:
    """Return the scan of a PLY file's vertex columns and its faces, (m, 3) or None."""
    if not columns.keys() >= {"x", "y", "z"}:
        raise unreadable(path, "its vertices have no x, y and z")
    double = any(columns[axis].dtype.itemsize > 4 for axis in "xyz")
    points = np.empty((len(columns["x"]), 3), np.float64 if double else np.float32)
    for axis, name in enumerate("xyz"):
        points[:, axis] = columns[name]
    return Scan(points, _colours(columns), faces)


def _colours(columns: Columns) -> NDArray[np.uint8] | None:
    names = (
        ("red", "green", "blue"),
        ("r", "g", "b"),
        ("diffuse_red", "diffuse_green", "diffuse_blue"),
    )
    for channels in names:
        if columns.keys() >= set(channels):
            return as_bytes([columns[name] for name in channels])
    return grey_of(columns)


def grey_of(columns: Columns) -> NDArray[np.uint8] | None:
    """Return the intensities of a scanner as greys, (n, 3); None where there are none."""
    for name, values in columns.items():
        if name.lower() in INTENSITIES:
            return greys(values)
    return None


def as_bytes(channels: list[NDArray[Any]]) -> NDArray[np.uint8]:
    """Return three channels, each (n,), as colours, (n, 3) uint8.

    Floats that do not exceed 1 run from 0 to 1, others from 0 to 255; integers that exceed 255 run
    to 65535.
    """
    colours = np.empty((len(channels[0]), 3), np.uint8)
    if all(channel.dtype == np.uint8 for channel in channels):
        scale = 1.0
    else:
        whole = all(channel.dtype.kind in "iu" for channel in channels)
        tops = [np.nan_to_num(channel, posinf=0.0).max(initial=0) for channel in channels]
        top = float(max(tops))
        scale = 255.0 if top <= 1 and not whole else 255.0 / 65535.0 if top > 255 and whole else 1.0
    for index, channel in enumerate(channels):
        if channel.dtype == np.uint8:
            colours[:, index] = channel
        else:
            with np.errstate(over="ignore"):  # beyond float32 is beyond 255, too
                scaled = np.clip(np.nan_to_num(channel.astype(np.float32) * scale), 0, 255)
            colours[:, index] = np.rint(scaled).astype(np.uint8)
    return colours


Floats = NDArray[np.float64]


def read_ascii(path: Path, file: BinaryIO, header: Header) -> tuple[Columns, Polygons | None]:
    """Return the vertex columns and the faces of an ASCII PLY file; `file` stands behind its header."""
    numbers = text_numbers(path, file.read())
    columns: Columns = {}
    polygons: Polygons | None = None
    for element in header.needed():
        if not element.has_lists:
            used = element.count * len(element.properties)
            if used > len(numbers):
                raise cut_short(path, element)
            if element.name == "vertex":
                columns = _typed(element, numbers[:used].reshape(element.count, -1))
        elif element.name == "vertex":
            raise unreadable(path, "its vertices carry lists")
        else:
            corners = corner_list(path, element) if element.name == "face" else None
            face_polygons, used = _lists(path, element, corners, numbers)
            polygons = face_polygons if element.name == "face" else polygons
        numbers = numbers[used:]
    return columns, polygons


def text_numbers(path: Path, text: bytes) -> Floats:
    """Return the numbers that white space parts in a text, (n,). SceneError where one is none."""
    if not text.strip():
        return np.empty(0)
    with warnings.catch_warnings():
        # numpy before 2.3 only warns of text that is no number, and stops there.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise unreadable(path, "its rows are no text of numbers") from None


def _typed(element: Element, table: Floats) -> Columns:
    return {
        column.name: typed(values, column.type)
        for column, values in zip(element.properties, table.T, strict=True)
    }


def typed(values: Floats, name: str) -> NDArray[Any]:
    """Return numbers of a text, (n,), in numpy's type `name`; those beyond an integer's range are its ends."""
    kind = np.dtype(name)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        values = np.clip(np.nan_to_num(values), limits.min, limits.max)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def _lists(
    path: Path, element: Element, corners: int | None, numbers: Floats
) -> tuple[Polygons, int]:
    """Return the lists of property `corners` by their length, and how many numbers the rows take."""
    starts, lengths, used = _even(element, corners, numbers) or _walk(
        path, element, corners, numbers
    )
    polygons: Polygons = {}
    for length in np.unique(lengths[lengths >= 3]):
        indices = numbers[starts[lengths == length, None] + np.arange(length)]
        if not (np.abs(indices) < 2**53).all() or (indices != np.rint(indices)).any():
            raise unreadable(path, "a face in it names a vertex that is no whole number")
        polygons[int(length)] = indices.astype(np.int64)
    return polygons, used


Found = tuple[NDArray[np.int64], NDArray[np.int64], int]


def _even(element: Element, corners: int | None, numbers: Floats) -> Found | None:
    """Return where the lists begin, their lengths and the end, where all rows are as long as the first."""
    position, heads, start = 0, [], 0
    for i, column in enumerate(element.properties):
        if column.count:
            if position >= len(numbers) or numbers[position] not in range(len(numbers)):
                return None
            heads.append(position)
            if i == corners:
                start = position + 1
            position += int(numbers[position])
        position += 1
    used = element.count * position
    if used > len(numbers):
        return None
    table = numbers[:used].reshape(element.count, position)
    if any((table[:, head] != table[0, head]).any() for head in heads):
        return None
    rows = np.arange(element.count, dtype=np.int64) * position
    length = int(table[0, start - 1]) if corners is not None else 0
    return rows + start, np.full(element.count, length, np.int64), used


def _walk(path: Path, element: Element, corners: int | None, numbers: Floats) -> Found:
    """Return the same where rows differ in length, one row after the other."""
    values = numbers.tolist()
    starts, lengths, position = [], [], 0
    lists = [bool(column.count) for column in element.properties]
    try:
        for _ in range(element.count):
            for i, is_list in enumerate(lists):
                if is_list:
                    length = int(values[position])
                    if length != values[position] or length < 0:
                        raise unreadable(path, f"a list in it has {values[position]:g} entries")
                    if i == corners:
                        starts.append(position + 1)
                        lengths.append(length)
                    position += length
                position += 1
    except (IndexError, ValueError, OverflowError):  # ran out, or a length is NaN or infinite
        raise cut_short(path, element) from None
    if position > len(values):
        raise cut_short(path, element)
    return np.array(starts, np.int64), np.array(lengths, np.int64), position
