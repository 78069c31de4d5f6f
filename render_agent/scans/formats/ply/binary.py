"""Read and write the rows of binary PLY files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Polygons, unreadable
from render_agent.scans.formats.ply.header import Columns, Element, Header, corner_list, cut_short

CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I"}
MAX_ROW_BYTES = 1 << 30  # numpy's limit is 2 GiB
POLYGONS_PER_CHUNK = 1 << 20  # polygons gathered at a time, to bound memory


def read_binary(
    path: Path, file: BinaryIO, header: Header, file_size: int
) -> tuple[Columns, Polygons | None]:
    """Return the vertex columns and faces of a binary PLY file, with `file` positioned after its header."""
    columns: Columns = {}
    polygons: Polygons | None = None
    for element in header.required():
        rows = _equal_rows(file, element, header.order, file_size - file.tell())
        if element.name == "face":
            corners = corner_list(path, element)
            if rows is None:
                polygons = _walk_polygons(path, file, element, header.order, corners)
            else:
                polygons = {rows[f"v{corners}"].shape[1]: rows[f"v{corners}"]}
        elif rows is None:
            if element.name == "vertex" and element.has_lists:
                raise unreadable(path, "its vertices have lists of varying length")
            _Walk(path, file, element, header.order).skip()
        elif element.name == "vertex":
            names = enumerate(element.properties)
            columns = {entry.name: rows[f"v{i}"] for i, entry in names if not entry.count}
    return columns, polygons


def binary_ply(
    points: NDArray[Any],
    colours: NDArray[np.uint8] | None,
    faces: NDArray[Any] | None,
    comment: str = "",
) -> bytes:
    """Return a scan as a binary PLY file; equal scans give equal bytes.

    Args:
        points: (n, 3) metres, written as float32 if they are, else as float64.
        colours: (n, 3) uint8, or None.
        faces: (m, 3) integers, or None for a cloud.
        comment: Comment line in the header.
    """
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


def _equal_rows(file: BinaryIO, element: Element, order: str, left: int) -> NDArray[Any] | None:
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
    if negative or size > MAX_ROW_BYTES or element.count * size > left:
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
            self.find(self.lists[0])
        else:
            raise cut_short(self.path, self.element)

    def find(self, target: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offset in `data` and the length of each row's list `target`, (n,) each."""
        steps, tail = self._steps()
        data, position = self.data, 0
        starts, lengths = [], []
        try:
            for _ in range(self.element.count):
                for i, gap, read, head, width in steps:
                    position += gap
                    (length,) = read(data, position)
                    position += head
                    if i == target:
                        starts.append(position)
                        lengths.append(length)
                    if length < 0:
                        raise unreadable(self.path, f"a list has {length} entries")
                    position += length * width
                position += tail
        except struct.error:
            raise cut_short(self.path, self.element) from None
        if position > len(data):
            raise cut_short(self.path, self.element)
        self.file.seek(self.start + position)
        return np.array(starts, np.int64), np.array(lengths, np.int64)

    def _steps(self) -> tuple[list[tuple[int, int, Any, int, int]], int]:
        """Return how to skip a row: steps of (property, bytes before it, length reader, length size, entry size), and trailing bytes."""
        steps, gap = [], 0
        for i, column in enumerate(self.element.properties):
            width = np.dtype(column.type).itemsize
            if column.count:
                head = struct.Struct((self.order or "<") + CODES[column.count])
                steps.append((i, gap, head.unpack_from, head.size, width))
                gap = 0
            else:
                gap += width
        return steps, gap


def _walk_polygons(
    path: Path, file: BinaryIO, element: Element, order: str, corners: int
) -> Polygons:
    walk = _Walk(path, file, element, order)
    starts, lengths = walk.find(corners)
    data = np.frombuffer(walk.data, np.uint8)
    kind = np.dtype(order + element.properties[corners].type)
    polygons: Polygons = {}
    for length in np.unique(lengths[lengths >= 3]):
        places = starts[lengths == length]
        span = np.arange(int(length) * kind.itemsize)
        step = max(1, 3 * POLYGONS_PER_CHUNK // int(length))
        parts = [
            data[places[first : first + step, None] + span].view(kind)
            for first in range(0, len(places), step)
        ]
        polygons[int(length)] = np.concatenate(parts)
    return polygons
