"""Read and write the rows of binary PLY files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import unreadable
from render_agent.scans.formats.ply.header import (
    READ,
    STRIPS,
    Element,
    Header,
    Property,
    corner_list,
    cut_short,
)
from render_agent.scans.formats.ply.rows import Rows, Spans, gather_rows

CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
MAX_ROW_BYTES = 1 << 30  # numpy's limit is 2 GiB
ENTRIES_PER_CHUNK = 3 << 20  # list entries gathered at a time, to bound memory


def read_binary(path: Path, file: BinaryIO, header: Header, file_size: int) -> dict[str, Rows]:
    """Return the vertices, faces and strips of a binary PLY file, with `file` positioned after its header."""
    tables: dict[str, Rows] = {}
    for element in header.required_elements():
        rows = _equal_rows(file, element, header.order, file_size - file.tell())
        if element.name in ("face", STRIPS):
            corner_list(path, element)
        if rows is not None:
            if element.name in READ:
                tables[element.name] = _table(element, rows)
            continue
        if element.name == "vertex" and element.has_lists:
            raise unreadable(path, "its vertices have lists of varying length")
        walk = _Walk(path, file, element, header.order)
        if element.name in READ and element.has_lists:
            tables[element.name] = walk.rows()
        else:
            walk.skip()
    return tables


def _table(element: Element, rows: NDArray[Any]) -> Rows:
    """Return the values of rows of equal length, as views."""
    table = Rows()
    for i, column in enumerate(element.properties):
        values = rows[f"v{i}"]
        if not column.count:
            table.scalars.setdefault(column.name, values)
        elif column.name not in table.lists:
            table.lists[column.name] = {values.shape[1]: (np.arange(len(values)), values)}
    return table


def binary_ply(
    points: NDArray[Any],  # (n, 3) metres, written as float32 if they are, else as float64
    colours: NDArray[np.uint8] | None,  # (n, 3) uint8, or None
    faces: NDArray[Any] | None,  # (m, 3) integers, or None for a cloud
    comment: str = "",
) -> bytes:
    """Return a scan as a binary PLY file; equal scans give equal bytes."""
    number, kind = ("float", "<f4") if points.dtype == np.float32 else ("double", "<f8")
    header = [
        "ply",
        "format binary_little_endian 1.0",
        *([f"comment {comment}"] if comment else []),
    ]
    header += [f"element vertex {len(points)}", *(f"property {number} {axis}" for axis in "xyz")]
    fields: list[tuple[str, str, int]] = [("point", kind, 3)]
    if colours is not None:
        header += [f"property uchar {name}" for name in ("red", "green", "blue")]
        fields.append(("colour", "u1", 3))
    vertices = np.empty(len(points), fields)
    vertices["point"] = points
    if colours is not None:
        vertices["colour"] = colours
    corners = np.empty(0 if faces is None else len(faces), [("count", "u1"), ("corners", "<i4", 3)])
    if faces is not None:
        header += [f"element face {len(faces)}", "property list uchar int vertex_indices"]
        corners["count"], corners["corners"] = 3, faces
    head = "\n".join([*header, "end_header", ""]).encode("ascii")
    return head + vertices.tobytes() + corners.tobytes()


def _equal_rows(
    file: BinaryIO, element: Element, order: str, remaining: int
) -> NDArray[Any] | None:
    """Return an element's rows if all are as long as the first; else return None and restore the file position.

    Property i is in field `v<i>`, with shape (n, length) for a list, whose length is in field `n<i>`.
    """
    start = file.tell()
    fields: list[tuple[Any, ...]] = []
    size = 0
    for i, column in enumerate(element.properties):
        width = np.dtype(column.type).itemsize
        if not column.count:
            fields.append((f"v{i}", order + column.type))
            size += width
            continue
        count = np.dtype(order + column.count)
        file.seek(start + size)
        length = np.frombuffer(file.read(count.itemsize).ljust(count.itemsize, b"\0"), count)[0]
        fields += [(f"n{i}", count), (f"v{i}", order + column.type, (int(length),))]
        size += count.itemsize + width * int(length)
        if length < 0 or size > MAX_ROW_BYTES:
            break
    file.seek(start)
    negative = any(field[2][0] < 0 for field in fields if len(field) > 2)
    if negative or size > MAX_ROW_BYTES or element.count * size > remaining:
        return None
    rows = np.fromfile(file, np.dtype(fields), element.count)
    lists = [i for i, column in enumerate(element.properties) if column.count]
    if len(rows) == element.count and all((rows[f"n{i}"] == rows[f"n{i}"][0]).all() for i in lists):
        return rows
    file.seek(start)
    return None


class _Walk:
    """Locates the lists in rows of different lengths, row by row."""

    def __init__(self, path: Path, file: BinaryIO, element: Element, order: str) -> None:
        self.path = path
        self.file = file
        self.element = element
        self.order = order
        self.start = file.tell()
        self.data = file.read() if element.has_lists else b""
        self.lists = [i for i, column in enumerate(element.properties) if column.count]

    def skip(self) -> None:
        """Move the file position past the element."""
        if self.element.has_lists:
            self.find()
        else:
            raise cut_short(self.path, self.element)

    def rows(self) -> Rows:
        """Return the values of the element, and move the file position past it."""
        spans = self.find()
        data = np.frombuffer(self.data, np.uint8)

        def take(places: NDArray[np.int64], length: int, column: Property) -> NDArray[Any]:
            kind = np.dtype(self.order + column.type)
            span = np.arange(length * kind.itemsize)
            step = max(1, ENTRIES_PER_CHUNK // max(1, length))
            parts = [
                data[places[first : first + step, None] + span].view(kind)
                for first in range(0, len(places), step)
            ]
            return np.concatenate(parts or [np.empty((0, length), kind)])

        return gather_rows(self.element, spans, lambda kind: np.dtype(kind).itemsize, take)

    def find(self) -> Spans:
        """Return where each row's lists start in `data`, and their lengths."""
        steps, tail = self._steps()
        data, position = self.data, 0
        spans: list[tuple[list[int], list[int]]] = [([], []) for _ in steps]
        steps_and_spans = [
            (*step, starts.append, lengths.append)
            for step, (starts, lengths) in zip(steps, spans, strict=True)
        ]
        try:
            for _ in range(self.element.count):
                for gap, read, head, width, add_start, add_length in steps_and_spans:
                    position += gap
                    (length,) = read(data, position)
                    position += head
                    add_start(position)
                    add_length(length)
                    if length < 0:
                        raise unreadable(self.path, f"a list has {length} entries")
                    position += length * width
                position += tail
        except struct.error:
            raise cut_short(self.path, self.element) from None
        if position > len(data):
            raise cut_short(self.path, self.element)
        self.file.seek(self.start + position)
        return {
            i: (np.array(starts, np.int64), np.array(lengths, np.int64))
            for i, (starts, lengths) in zip(self.lists, spans, strict=True)
        }

    def _steps(self) -> tuple[list[tuple[int, Any, int, int]], int]:
        """Return how to skip a row: steps of (bytes before a list, length reader, length size, entry size), and
        trailing bytes.
        """
        steps, gap = [], 0
        for column in self.element.properties:
            width = np.dtype(column.type).itemsize
            if column.count:
                head = struct.Struct((self.order or "<") + CODES[column.count])
                steps.append((gap, head.unpack_from, head.size, width))
                gap = 0
            else:
                gap += width
        return steps, gap
