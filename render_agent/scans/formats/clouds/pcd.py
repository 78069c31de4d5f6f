"""Read PCD, the format of the Point Cloud Library: ASCII, binary and compressed.

Format: "The PCD (Point Cloud Data) file format", pointclouds.org. Open3D's reader is not used because
malformed headers crash it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.declared_size import check_expansion, check_memory, too_many
from render_agent.scans.formats.ply.ascii import cast_numbers, text_numbers
from render_agent.scans.formats.ply.vertices import COLOUR_NAMES, NORMALS

MAX_HEADER_BYTES = 1 << 16
CHUNK_POINTS = 2_000_000

# PCD type and size -> numpy type.
TYPES = {("F", 4): "<f4", ("F", 8): "<f8"} | {
    (kind, size): f"<{letter}{size}"
    for kind, letter in (("I", "i"), ("U", "u"))
    for size in (1, 2, 4, 8)
}

# 4-byte fields with blue, green, red and opacity, whatever their declared type.
PACKED_FIELDS = ("rgb", "rgba")


def read_pcd(path: Path, size: int) -> Scan:
    """Read a PCD file of `size` bytes, with its colours or else its intensities as grey."""
    with path.open("rb") as file:
        start = file.read(MAX_HEADER_BYTES)
        fields, count, storage, header_size, declared = _header(path, start)
        file.seek(header_size)
        row = sum(width * np.dtype(kind).itemsize for _, kind, width in fields)
        remaining = size - header_size
        content = f"{count:,} points"
        if storage == "binary_compressed":
            check_expansion(path, remaining, count * row, content)
        elif count > (remaining // row if storage == "binary" else remaining + 1):
            raise too_many(path, remaining, content)
        data = file.read()
    if storage == "ascii":
        columns, surplus = _ascii(path, fields, count, data)
        if surplus:
            declared.add(f"{surplus:,} numbers after the last point")
    elif storage == "binary":
        rows = np.frombuffer(data, [(n, k, (w,)) for n, k, w in fields], count)
        columns = {name: rows[name][:, 0] for name, _, _ in fields}
        if len(data) >= (count + 1) * row:
            declared.add(f"{len(data) - count * row:,} bytes after the last point")
    else:
        columns = _columns(path, fields, count, data)
    return _scan(path, columns, declared)


Fields = list[tuple[str, str, int]]
"""Name, numpy type and number of entries of each field of a point."""


def _header(path: Path, start: bytes) -> tuple[Fields, int, str, int, Declared]:
    """Return the fields, number of points, storage format and size of a header, and what else it declares."""
    end = re.search(rb"^DATA[ \t]+(ascii|binary_compressed|binary)[ \t]*\r?\n", start, re.MULTILINE)
    if end is None:
        raise unreadable(path, "its PCD header is incomplete")
    entries = {
        words[0]: words[1:]
        for line in start[: end.start()].decode("ascii", "replace").splitlines()
        if (words := line.split()) and not line.startswith("#")
    }
    try:
        names = [name.lower() for name in entries.get("FIELDS") or entries["COLUMNS"]]
        sizes = [int(word) for word in entries["SIZE"]]
        widths = [int(word) for word in entries.get("COUNT", ["1"] * len(names))]
        fields = [
            (f"{name}{'' if name != '_' else i}", TYPES[kind, size], width)
            for i, (name, kind, size, width) in enumerate(
                zip(names, entries["TYPE"], sizes, widths, strict=True)
            )
        ]
        grid_points = int(entries["WIDTH"][0]) * int(entries["HEIGHT"][0])
        count = int(entries["POINTS"][0]) if "POINTS" in entries else grid_points
        ignored = [f"{grid_points - count:,} points beyond POINTS"] if grid_points > count else []
    except (KeyError, ValueError, IndexError):
        raise unreadable(path, "its PCD header is invalid") from None
    field_names = [name for name, _, _ in fields]
    if len(set(field_names)) < len(field_names) or not fields or count < 0:
        raise unreadable(path, "its PCD header is invalid")
    if not all(1 <= width <= 1 << 20 for width in widths):
        raise unreadable(path, "a field has no entries, or far too many")
    if _is_moved(entries.get("VIEWPOINT", [])):
        ignored.append("viewpoint")
    return fields, count, end[1].decode(), end.end(), Declared(ignored)


def _is_moved(viewpoint: list[str]) -> bool:
    """Return True if the pose of the sensor, which readers disagree on applying, is not the identity."""
    try:
        return bool(viewpoint) and [float(word) for word in viewpoint] != [0, 0, 0, 1, 0, 0, 0]
    except ValueError:
        return True


def _ascii(
    path: Path, fields: Fields, count: int, data: bytes
) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the columns, and the number of numbers after the last point."""
    row_length = sum(width for _, _, width in fields)
    numbers = text_numbers(path, data)
    if count * row_length > len(numbers):
        raise unreadable(path, f"it ends before the last of its {count:,} points")
    table = numbers[: count * row_length].reshape(count, row_length)
    columns, at = {}, 0
    for name, kind, width in fields:
        columns[name] = cast_numbers(table[:, at], kind)
        at += width
    return columns, len(numbers) - count * row_length


def _columns(path: Path, fields: Fields, count: int, data: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of compressed data, which is stored field by field."""
    compressed_size, raw_size = np.frombuffer(data[:8].ljust(8, b"\0"), "<u4")
    row = sum(width * np.dtype(kind).itemsize for _, kind, width in fields)
    check_expansion(path, int(compressed_size), int(raw_size), f"{raw_size:,} bytes of points")
    check_memory(path, 4 * int(raw_size), f"{count:,} points")  # of which copies are made
    if compressed_size > len(data) - 8 or raw_size < count * row:
        raise unreadable(path, "the size of its compressed points does not match its header")
    raw = decompress_lzf(data[8 : 8 + int(compressed_size)], int(raw_size))
    if raw is None:
        raise unreadable(path, "its compressed points are corrupt")
    columns, at = {}, 0
    for name, kind, width in fields:
        columns[name] = np.frombuffer(raw, kind, count * width, at).reshape(count, width)[:, 0]
        at += count * width * np.dtype(kind).itemsize
    return columns


def decompress_lzf(data: bytes, size: int) -> bytearray | None:
    """Decompress LZF data (Marc Lehmann, liblzf) to `size` bytes; return None if it is corrupt."""
    raw = bytearray()
    at, end = 0, len(data)
    try:
        while at < end and len(raw) <= size:
            control = data[at]
            at += 1
            if control < 32:  # control + 1 literal bytes
                raw += data[at : at + control + 1]
                at += control + 1
                continue
            length = control >> 5  # otherwise a back reference
            if length == 7:
                length += data[at]
                at += 1
            back = ((control & 31) << 8 | data[at]) + 1
            at += 1
            length += 2
            first = len(raw) - back
            if first < 0:
                return None
            piece = raw[first : first + length]
            while len(piece) < length:  # the reference overlaps its own output
                piece += piece[: length - len(piece)]
            raw += piece
    except IndexError:
        return None
    return raw if len(raw) == size and at == end else None


def _scan(path: Path, columns: dict[str, NDArray[Any]], declared: Declared) -> Scan:
    if not columns.keys() >= {"x", "y", "z"}:
        raise unreadable(path, "its points have no x, y and z fields")
    for name in columns:
        if not name.startswith("_"):
            declared.add(name)
    names, colours, bits = _colours(columns)
    intensity = next((name for name in ("intensity", "i") if name in columns), None)
    declared.use("x", "y", "z", *names, *NORMALS, *([intensity] if intensity else []))
    cloud = CloudBuilder(bits)
    for first in range(0, len(columns["x"]), CHUNK_POINTS):
        part = slice(first, first + CHUNK_POINTS)
        cloud.add(
            np.column_stack([columns[axis][part] for axis in "xyz"]),
            None if colours is None else colours[part],
            None if intensity is None else columns[intensity][part],
        )
    scan = cloud.scan()
    double = any(columns[axis].dtype.itemsize > 4 for axis in "xyz")
    points = scan.points if double else scan.points.astype(np.float32)
    return Scan(points, scan.colours, notes=(*scan.notes, *declared.notes))


def _colours(
    columns: dict[str, NDArray[Any]],
) -> tuple[tuple[str, ...], NDArray[Any] | None, int | None]:
    """Return the names of the colour fields, the colours, (n, 3) or None, and their bits as in CloudBuilder."""
    for name in PACKED_FIELDS:
        if name in columns and columns[name].dtype.itemsize >= 4:
            words = _packed_words(columns[name])
            return (name,), words.view(np.uint8).reshape(-1, 4)[:, [2, 1, 0]], 8
    for names in COLOUR_NAMES:
        if columns.keys() >= set(names):
            colours = np.column_stack([columns[name] for name in names])
            return names, colours, 16 if colours.dtype.kind in "iu" else None
    return (), None, None


def _packed_words(channel: NDArray[Any]) -> NDArray[np.uint32]:
    """Return packed colours as integers; float fields contain their bits, or, from some writers, their value."""
    if channel.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            are_values = np.nanmax(channel, initial=0) >= 1 and bool(
                ((channel >= 0) & (channel < 1 << 24) & (channel == np.rint(channel))).all()
            )
        if not are_values:
            return np.ascontiguousarray(channel, np.float32).view(np.uint32)
    return np.ascontiguousarray(channel.astype(np.int64) & 0xFFFFFFFF, np.uint32)
