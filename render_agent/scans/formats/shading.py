"""Shading of colours that were not captured: by normals and, on a mesh, by ambient occlusion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.surface import (
    areas_and_normals,
    cut,
    face_corners,
    longest_edges,
)

LIGHT = np.array([0.48, 0.30, 0.82], np.float32)
"""Three directions are told apart by how far they agree with the light: floors, and two walls."""

DARKEST, BRIGHTEST = 70.0, 235.0
"""Levels of a scan without colours that faces away from the light, and into it."""

UNLIT_SHARE = 0.6
"""The share of its level that a plain colour keeps where it faces away from the light."""

CORNER_LOSS_SHARE = 0.4
"""The share of its level that a plain colour loses in a corner, where things meet."""

LONGEST_METRES = 0.2
"""Metres: faces of plain colours with longer edges are cut, so that a wall is darker in its corners alone."""

MAX_CUTS = 400_000
"""Faces that cutting may add; where that is too few, some stay larger."""

CELL_METRES = 0.05
"""Metres: the side of the cubes that have surface in them or not; larger where there are more than MAX_CELLS."""

MAX_CELLS = 8_000_000
MAX_PIECES = 2_000_000

BLUR_CELLS, ASIDE_CELLS = 2.5, 3.0
"""Cells: the standard deviation of what counts as near a vertex, and how far before it that is counted."""

BARE_RATIO = 1.6
"""Less than so many times what a bare plane has there keeps no light away: the other side of a thin wall counts, too."""


def shaded(scan: Scan) -> Scan:
    """Return a mesh with colours, those that were not captured in a light of every side.

    The light depends on the mesh alone, so that a surface looks the same from everywhere. Without
    colours the mesh is grey. Plain colours of materials (see `Material.captured`) are gently shaded and
    darker in corners, so that white furniture does not melt into a white wall; what was captured has
    its light in it.
    """
    assert scan.faces is not None
    if scan.colours is None:
        levels = grey(_vertex_normals(scan.points, scan.faces))
        return replace(scan, colours=levels[:, None].repeat(3, axis=1).astype(np.uint8))
    if scan.texture is None or all(part.captured for part in scan.texture.materials):
        return scan
    scan = _refined(scan)
    assert scan.faces is not None
    assert scan.colours is not None
    chosen = scan.faces[_plain(scan)]
    at = np.unique(chosen)
    normals = _vertex_normals(scan.points, chosen)
    share = UNLIT_SHARE + (1 - UNLIT_SHARE) * _agreement(normals[at])
    share *= 1 - CORNER_LOSS_SHARE * occlusion(
        scan.points, scan.faces, scan.points[at], normals[at]
    )
    colours = scan.colours.copy()
    colours[at] = np.rint(colours[at] * share[:, None])
    return replace(scan, colours=colours)


def _plain(scan: Scan) -> NDArray[np.bool_]:
    """Return which faces, (m,), have colours that were not captured."""
    assert scan.texture is not None
    plain = np.array([not part.captured for part in scan.texture.materials])
    named: NDArray[np.bool_] = plain[scan.texture.face_materials]
    return named


def _refined(scan: Scan) -> Scan:
    """Return a mesh whose faces of plain colours are cut across their longest edges until none is long."""
    points, colours, texture = scan.points, scan.colours, scan.texture
    assert texture is not None
    assert scan.faces is not None
    assert colours is not None
    faces, uv, tints, materials = (
        scan.faces,
        texture.uv,
        texture.vertex_tints,
        texture.face_materials,
    )
    plain, most = _plain(scan), len(faces) + MAX_CUTS
    while True:
        lengths, first = longest_edges(points[faces])
        rows = np.flatnonzero(plain & (lengths > LONGEST_METRES))
        if not len(rows) or len(faces) + len(rows) > most:
            break
        a, b, c = (faces[rows, (first[rows] + turn) % 3] for turn in range(3))
        edges = np.minimum(a, b).astype(np.int64) * len(points) + np.maximum(a, b)
        unique, which = np.unique(edges, return_inverse=True)
        ends = np.divmod(unique, len(points))
        middle = (len(points) + which).astype(faces.dtype)
        points = np.concatenate([points, (points[ends[0]] + points[ends[1]]) / 2])
        colours, uv = (np.concatenate([each, each[ends[0]]]) for each in (colours, uv))
        tints = None if tints is None else np.concatenate([tints, tints[ends[0]]])
        faces[rows] = np.stack([a, middle, c], axis=1)
        faces = np.concatenate([faces, np.stack([middle, b, c], axis=1)])
        materials = np.concatenate([materials, materials[rows]])
        plain = np.concatenate([plain, plain[rows]])
    if len(faces) == len(scan.faces):
        return scan
    note = f"its {len(scan.faces):,} faces were cut into more, for the light on plain colours"
    texture = replace(texture, uv=uv, face_materials=materials, vertex_tints=tints)
    return replace(
        scan,
        points=points,
        colours=colours,
        faces=faces,
        texture=texture,
        notes=(*scan.notes, note),
    )


def occlusion(
    points: NDArray[np.float32],
    faces: NDArray[np.int32],
    places: NDArray[np.float32],
    normals: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return how far a mesh keeps light from every side away from places on it: (k,), 0 on a bare plane to 1 in a corner.

    points: (n, 3) metres. faces: (m, 3). places, normals: (k, 3) metres and unit vectors to the side that is
    seen. The cubes of a grid that have surface in them are blurred, and looked up before each place.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    low, size = points.min(axis=0), np.ptp(points, axis=0).astype(np.float64)
    cell = CELL_METRES
    while np.prod(size / cell + 2) > MAX_CELLS:
        cell *= 1.25
    corners = points[faces]
    pieces = cut(corners[longest_edges(corners)[0] > cell], cell, MAX_PIECES)
    if pieces is None:
        return np.zeros(len(places), np.float32)
    surface = np.concatenate([points, pieces.corners.mean(axis=1, dtype=np.float32)])
    filled = np.zeros((size / cell).astype(int) + 2, np.float32)
    filled[tuple(((surface - low) / cell).astype(int).T)] = 1
    near = gaussian_filter(filled, BLUR_CELLS, mode="constant")
    before = (places + ASIDE_CELLS * cell * normals - low) / cell - 0.5
    shadow: NDArray[Any] = map_coordinates(near, before.T, order=1, mode="constant")
    # Of the blur of one plane, in the middle of its cubes.
    peak = 1 / (BLUR_CELLS * np.sqrt(2 * np.pi))
    bare = BARE_RATIO * peak * np.exp(-0.5 * (ASIDE_CELLS / BLUR_CELLS) ** 2)
    return np.asarray(np.clip((shadow - bare) / (2 * peak), 0, 1), np.float32)


def grey(normals: NDArray[Any]) -> NDArray[np.float32]:
    """Return brightness, (n,), by how far normals (n, 3), of either sign, agree with the light."""
    grey = DARKEST + (BRIGHTEST - DARKEST) * _agreement(normals)
    return np.asarray(grey, np.float32)


def _agreement(normals: NDArray[Any]) -> NDArray[np.float32]:
    """Return how far normals, (n, 3), of either sign, agree with the light: (n,), 0 to 1."""
    along = (np.abs(normals.astype(np.float32)) @ LIGHT) / np.linalg.norm(LIGHT)
    return np.asarray(np.clip(along, 0, 1), np.float32)


def _vertex_normals(points: NDArray[np.float32], faces: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return unit normals, (n, 3), of vertices: of their faces, weighted by area."""
    sums = np.zeros((len(points), 3))
    first = 0
    for corners in face_corners(points, faces):
        areas, normals = areas_and_normals(corners)
        weighted = normals * areas[:, None]
        for corner in range(3):
            at = faces[first : first + len(corners), corner]
            for axis in range(3):
                sums[:, axis] += np.bincount(at, weighted[:, axis], minlength=len(points))
        first += len(corners)
    length = np.linalg.norm(sums, axis=1)
    return np.asarray(sums / np.maximum(length, 1e-20)[:, None], np.float32)
