"""Read and write the rows of binary PLY files."""

from __future__ import annotations

import struct
from collections.abc import Callable
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
from render_agent.scans.formats.ply.rows import Rows, gather_rows, walk_rows

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
        if not element.has_lists:
            raise cut_short(path, element)
        rows_of_lists = _walk(path, file, element, header.order)
        if element.name in READ:
            tables[element.name] = rows_of_lists
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


def _walk(path: Path, file: BinaryIO, element: Element, order: str) -> Rows:
    """Return the values of rows of different lengths, and move the file position past them."""
    start = file.tell()
    text = file.read()

    def size(kind: str) -> int:
        return np.dtype(kind).itemsize if kind else 0

    def reader(kind: str) -> Callable[[int], int]:
        unpack = struct.Struct((order or "<") + CODES[kind]).unpack_from
        return lambda at: unpack(text, at)[0]

    spans, end = walk_rows(path, element, size, reader, len(text))
    file.seek(start + end)
    data = np.frombuffer(text, np.uint8)

    def take(places: NDArray[np.int64], length: int, column: Property) -> NDArray[Any]:
        kind = np.dtype(order + column.type)
        span = np.arange(length * kind.itemsize)
        step = max(1, ENTRIES_PER_CHUNK // max(1, length))
        parts = [
            data[places[first : first + step, None] + span].view(kind)
            for first in range(0, len(places), step)
        ]
        return np.concatenate(parts or [np.empty((0, length), kind)])

    return gather_rows(element, spans, size, take)
