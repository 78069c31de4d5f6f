"""Read STL: binary files directly, ASCII files with trimesh, which rejects binary ones with trailing bytes.

The last field of a triangle is the number of attribute bytes behind it, as the format defines, or a colour or an index, as
most programs write it. The length of the file tells which.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.formats.declared import Declared, unit_of_comments

HEADER_BYTES = 84
TEXT_BYTES = 400  # after the header, within which an ASCII file has its first facet
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
NORMAL_TOLERANCE = 0.1  # of the length of a normal; misaligned triangles have arbitrary ones
# Statements in the header of some programs' binary files.
HEADER_COLOUR = re.compile(rb"COLOR=|MATERIAL=")
HEADER_UNIT = re.compile(rb"UNITS?\s*[:=]\s*[A-Za-z]+", re.IGNORECASE)


def read_binary_stl(path: Path, size: int) -> Scan | None:
    """Read a binary STL file of `size` bytes, whatever follows its triangles; return None if it is an ASCII file."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
        count = int.from_bytes(header[80:84], "little")
        min_bytes = HEADER_BYTES + count * TRIANGLE.itemsize
        is_text = b"facet" in (header + file.read(TEXT_BYTES)).lower()
        file.seek(HEADER_BYTES)
        if len(header) < HEADER_BYTES or is_text:
            return None
        if min_bytes > size:
            raise ValueError(f"it ends before the last of its {count:,} triangles")
        if not count:
            return None
        data = np.fromfile(file, np.uint8)
    triangles, num_attribute_bytes = _triangles(data, count)
    min_bytes += num_attribute_bytes
    declared = Declared()
    if HEADER_COLOUR.search(header):
        declared.add("colour in the header")
    if triangles["attribute"].any():
        declared.add("attribute bytes of the triangles")
    if min_bytes < size:
        declared.add(f"{size - min_bytes:,} bytes after the last triangle")
    points = triangles["corners"].reshape(-1, 3)
    unit = HEADER_UNIT.findall(header)
    return Scan(
        points,
        None,
        np.arange(len(points)).reshape(-1, 3),
        notes=declared.notes,
        metres=unit_of_comments(text.decode("ascii") for text in unit),
    )


def _triangles(data: NDArray[np.uint8], count: int) -> tuple[NDArray[np.void], int]:
    """Return the triangles of a file without its header, and the number of attribute bytes between them."""
    size = TRIANGLE.itemsize
    packed = data[: count * size].view(TRIANGLE)
    if len(data) == len(packed) * size or not packed["attribute"].any():
        return packed, 0
    starts = np.empty(count, np.int64)
    at = 0
    for index in range(count):
        if at + size > len(data):
            break
        starts[index] = at
        at += size + int(data[at + size - 2]) + 256 * int(data[at + size - 1])
    else:
        if at == len(data):
            rows = data[starts[:, None] + np.arange(size)]
            return np.ascontiguousarray(rows).view(TRIANGLE)[:, 0], at - count * size
    with np.errstate(invalid="ignore", over="ignore"):
        lengths = np.linalg.norm(packed["normal"].astype(np.float64), axis=1)
        are_normals = (np.abs(lengths - 1) < NORMAL_TOLERANCE) | (lengths == 0)
    if not are_normals.all():
        raise ValueError("its attribute bytes do not match its length")
    return packed, 0
