"""Read OFF, the format of Geomview, with the colours of vertices (COFF) and faces, which trimesh ignores.

Format: "OFF Files", geomview.org.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, check_corners, unreadable
from render_agent.scans.formats.colours import colour_bytes
from render_agent.scans.formats.declared import FEW_CORNERS, Declared
from render_agent.scans.formats.ply.ascii import text_numbers
from render_agent.scans.formats.triangulation import triangulate
from render_agent.util.display import count_noun

KIND = re.compile(rb"((?:ST|C|N|4)*)OFF(?![A-Z])[ \t]*(BINARY)?", re.IGNORECASE)
COMMENT = re.compile(rb"#.*")


def read_off(path: Path) -> Scan:
    """Read an OFF file, with the file's axes; raise SceneError if it is damaged."""
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    if b"#" in text:
        text = COMMENT.sub(b"", text)
    text = text.lstrip()
    kind = KIND.match(text)
    if kind is None:
        raise unreadable(path, "it does not start like an OFF file")
    marks = kind[1].upper()
    if b"4" in marks or kind[2]:
        raise unreadable(path, "it is a binary or four-dimensional OFF file", "convert it to PLY")
    lines = [line for line in text[kind.end() :].splitlines() if line.strip()]
    counts = text_numbers(path, lines[0]) if lines else np.empty(0)
    if len(counts) < 2 or not (counts[:2] >= 0).all():
        raise unreadable(path, "it has no counts of vertices and faces")
    num_vertices, num_faces = (int(min(count, 1 << 40)) for count in counts[:2])
    if 1 + num_vertices + num_faces > len(lines):
        raise unreadable(path, "it ends before its last vertex or face")
    vertices = _table(path, lines[1 : 1 + num_vertices])
    if num_vertices and vertices.shape[1] < 3:
        raise unreadable(path, "its vertices do not have three coordinates")
    declared = Declared(["texture coordinates"] if b"ST" in marks else [])
    points, rest = vertices[:, :3], vertices[:, 3:]
    if b"N" in marks:
        # MeshLab writes NCOFF, with RGBA before the normals.
        normals = slice(4, 7) if b"NC" in marks else slice(3)
        rest = np.delete(rest, normals, axis=1)
    num_rest = rest.shape[1] - 2 * (b"ST" in marks)  # apart from texture coordinates
    colours = rest[:, :3] if num_rest >= 3 else None
    if num_rest > 4 or 0 < num_rest < 3:
        declared.add(f"{num_rest - 4 * (num_rest > 4)} further numbers of the vertices")
    if surplus := len(lines) - 1 - num_vertices - num_faces:
        declared.add(f"{count_noun(surplus, 'line')} after the last face")
    face_lines = lines[1 + num_vertices : 1 + num_vertices + num_faces]
    faces, face_colours = _faces(path, face_lines, points, declared)
    if not len(faces):
        raise unreadable(path, "it has no surface")
    if colours is None and face_colours is not None:
        points, colours = points[faces.reshape(-1)], face_colours.repeat(3, axis=0)
        faces = np.arange(len(points)).reshape(-1, 3)
    levels = None
    if colours is not None:
        levels = colour_bytes(colours)
        declared.add_nan(colours)
    return Scan(points, levels, faces, notes=declared.notes)


def _table(path: Path, lines: list[bytes]) -> NDArray[np.float64]:
    numbers = text_numbers(path, b"\n".join(lines))
    if not lines:
        return np.empty((0, 3))
    if len(numbers) % len(lines):
        raise unreadable(path, "its rows have different lengths")
    return numbers.reshape(len(lines), -1)


def _faces(
    path: Path, lines: list[bytes], points: NDArray[Any], declared: Declared
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """Return triangles, (m, 3), and their colours, (m, 3), or None unless all faces have one."""
    # by the first word of a line and the number of its words
    rows = sorted(
        ((words[0], len(words), line) for line in lines if (words := line.split())),
        key=lambda row: row[:2],
    )
    faces, colours = [np.empty((0, 3), np.int64)], []
    for (_, _), group in groupby(rows, key=lambda row: row[:2]):
        table = _table(path, [line for _, _, line in group])
        length = int(np.clip(np.nan_to_num(table[0, 0]), 0, 1 << 40))
        if table.shape[1] <= length:
            raise unreadable(path, "a face has fewer vertices than it declares")
        if length < 3:
            declared.add(FEW_CORNERS)
            continue
        polygons, rest = table[:, 1 : 1 + length].astype(np.int64), table[:, 1 + length :]
        check_corners(path, polygons, len(points))
        triangles, _, rows_of_triangles = triangulate(polygons, points)
        faces.append(triangles)
        if rest.shape[1] >= 3:
            colours.append(rest[rows_of_triangles, :3])
        if rest.shape[1] in (1, 2):
            declared.add("colour map indices of the faces")
        elif rest.shape[1] > 4:
            declared.add("further numbers of the faces")
    all_faces = np.concatenate(faces)
    if sum(map(len, colours)) < len(all_faces) or not colours:
        if colours:
            declared.add("colours of some faces")
        return all_faces, None
    return all_faces, np.concatenate(colours)
