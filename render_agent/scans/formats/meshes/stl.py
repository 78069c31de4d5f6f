"""Read STL: binary files directly, ASCII files with trimesh, which rejects binary ones with trailing bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.formats.declared import Declared, unit_of_comments

HEADER_BYTES = 84
TEXT_BYTES = 400  # after the header, within which an ASCII file has its first facet
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
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
        triangles = np.fromfile(file, TRIANGLE, count)
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
