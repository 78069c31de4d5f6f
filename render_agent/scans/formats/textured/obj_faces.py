"""Rewrite faces of OBJ files that trimesh reads wrongly: relative indices, and polygons in files of mixed faces."""

from __future__ import annotations

import re

import numpy as np

from render_agent.scans.formats.triangulation import triangle_corners

# The literal newline at the start makes the search fast.
RELATIVE = re.compile(r"\n[ \t]*f[ \t][^#\n]*-")
POLYGON = re.compile(r"\n[ \t]*f(?:[ \t]+[^\s#]+){4}")
TRIANGLE = re.compile(r"\n[ \t]*f(?:[ \t]+[^\s#]+){3}[ \t\r]*(?:[#\n]|\Z)")
LARGER = re.compile(r"\n[ \t]*f(?:[ \t]+[^\s#]+){5}")
KINDS = {"v": 0, "vt": 1, "vn": 2}


def plain_faces(text: str) -> str:
    """Return the text of an OBJ file with absolute indices, and with triangles if its faces are mixed.

    trimesh resolves negative indices against the whole file instead of their own line (its issue 2556), and
    triangulates polygons as fans even if they are concave (its issue 2560).

    Raises:
        ValueError: A face has an invalid index.
    """
    is_mixed = POLYGON.search(text) and (LARGER.search(text) or TRIANGLE.search(text))
    if not is_mixed and not RELATIVE.search(text):
        return text
    lines = text.splitlines()
    counts = [0, 0, 0]
    points: list[list[str]] = []
    polygons: dict[int, list[tuple[int, list[str]]]] = {}
    for number, line in enumerate(lines):
        key, *words = line.partition("#")[0].split() or [""]
        if key in KINDS:
            counts[KINDS[key]] += 1
            if key == "v":
                points.append(words[:3])
        elif key == "f":
            if "-" in line:
                words = [_absolute(word, counts) for word in words]
                lines[number] = " ".join(["f", *words])
            if is_mixed and len(words) > 3:
                polygons.setdefault(len(words), []).append((number, words))
    if not polygons:
        return "\n".join(lines)
    at = np.array(points, np.float64)
    for rows in polygons.values():
        faces = np.array([[int(word.partition("/")[0]) - 1 for word in words] for _, words in rows])
        if faces.min() < 0 or faces.max() >= len(at):
            raise ValueError("a face refers to a vertex that does not exist")
        for chunk, local in triangle_corners(faces, at):
            for (number, words), corners in zip(rows[chunk], local.tolist(), strict=True):
                lines[number] = "\n".join(
                    f"f {words[a]} {words[b]} {words[c]}" for a, b, c in corners
                )
    return "\n".join(lines)


def _absolute(corner: str, counts: list[int]) -> str:
    """Return a corner such as -1/-1/-1 with indices from the start of the file."""
    parts = corner.split("/")[:3]
    return "/".join(
        str(count + int(part) + 1) if part.startswith("-") else part
        for part, count in zip(parts, counts, strict=False)
    )
