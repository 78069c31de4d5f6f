"""Shade colours that were not captured: by normals and, on a mesh, by ambient occlusion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.surface import (
    areas_and_normals,
    bisect_edges,
    face_corners,
    longest_edges,
)

# Oblique, so that floors and adjacent walls differ.
LIGHT = np.array([0.48, 0.30, 0.82], np.float32)
# Grey levels of an uncoloured scan, facing away from and towards the light.
DARKEST, BRIGHTEST = 70.0, 235.0
UNLIT_SHARE = 0.6  # brightness of a plain colour that faces away from the light
CORNER_LOSS_SHARE = 0.4  # brightness that a plain colour loses in a corner
# Longer faces with plain colours are cut, so that occlusion stays local to corners.
MAX_EDGE_METRES = 0.2
MAX_CUTS = 400_000  # faces that cutting may add; if it is too few, some faces stay larger

CELL_METRES = 0.05  # side of the occupancy grid's cells; larger if there are more than MAX_CELLS
MAX_CELLS = 8_000_000
MAX_PIECES = 2_000_000

# In cells: standard deviation of the blur, and distance of the sampled point in front of the surface.
BLUR_CELLS, ASIDE_CELLS = 2.5, 3.0

# Occupancy up to this multiple of a bare plane's causes no occlusion: a thin wall's other side counts, too.
BARE_RATIO = 1.6


def shade_mesh(scan: Scan) -> Scan:
    """Return a mesh with colours, shading those that were not captured.

    The shading depends only on the mesh, so a surface looks the same from everywhere. A mesh without colours
    becomes grey. Plain material colours (see `Material.captured`) are shaded gently and are darker in corners, so
    that white furniture stands out from a white wall. Captured colours are unchanged.
    """
    assert scan.faces is not None
    if scan.colours is None:
        levels = grey(_vertex_normals(scan.points, scan.faces))
        return replace(scan, colours=levels[:, None].repeat(3, axis=1).astype(np.uint8))
    if scan.texture is None or all(part.captured for part in scan.texture.materials):
        return scan
    scan = _subdivide(scan)
    assert scan.faces is not None
    assert scan.colours is not None
    plain_faces = scan.faces[_plain(scan)]
    is_plain = np.zeros(len(scan.points), bool)
    is_plain[plain_faces] = True
    at = np.flatnonzero(is_plain)
    normals = _vertex_normals(scan.points, plain_faces)
    share = UNLIT_SHARE + (1 - UNLIT_SHARE) * _agreement(normals[at])
    share *= 1 - CORNER_LOSS_SHARE * occlusion(
        scan.points, scan.faces, scan.points[at], normals[at]
    )
    colours = scan.colours.copy()
    colours[at] = np.rint(colours[at] * share[:, None])
    return replace(scan, colours=colours)


def _plain(scan: Scan) -> NDArray[np.bool_]:
    """Return which faces have colours that were not captured, (m,) bool."""
    assert scan.texture is not None
    is_plain = np.array([not part.captured for part in scan.texture.materials])
    plain_faces: NDArray[np.bool_] = is_plain[scan.texture.face_materials]
    return plain_faces


def _subdivide(scan: Scan) -> Scan:
    """Cut the faces with plain colours across their longest edges until none is longer than MAX_EDGE_METRES."""
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
    plain, max_faces = _plain(scan), len(faces) + MAX_CUTS
    while True:
        lengths, first = longest_edges(points[faces])
        rows = np.flatnonzero(plain & (lengths > MAX_EDGE_METRES))
        if not len(rows) or len(faces) + len(rows) > max_faces:
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
    note = f"{len(scan.faces):,} faces were subdivided to shade plain colours"
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
    points: NDArray[np.float32],  # vertices, (n, 3) metres
    faces: NDArray[np.int32],  # (m, 3)
    places: NDArray[np.float32],  # (k, 3) metres
    normals: NDArray[np.float32],  # unit vectors towards the visible side, (k, 3)
) -> NDArray[np.float32]:
    """Return the ambient occlusion at places on a mesh, (k,), from 0 on a bare plane to 1 in a corner.

    Occupied cells of a grid are blurred, and the result is sampled in front of each place.
    """
    from scipy.ndimage import gaussian_filter, map_coordinates

    low, size = points.min(axis=0), np.ptp(points, axis=0).astype(np.float64)
    cell = CELL_METRES
    while np.prod(size / cell + 2) > MAX_CELLS:
        cell *= 1.25
    corners = points[faces]
    pieces = bisect_edges(corners[longest_edges(corners)[0] > cell], cell, MAX_PIECES)
    if pieces is None:
        return np.zeros(len(places), np.float32)
    surface = np.concatenate([points, pieces.corners.mean(axis=1, dtype=np.float32)])
    grid = np.zeros((size / cell).astype(int) + 2, np.float32)
    grid[tuple(((surface - low) / cell).astype(int).T)] = 1
    near = gaussian_filter(grid, BLUR_CELLS, mode="constant")
    before = (places + ASIDE_CELLS * cell * normals - low) / cell - 0.5
    shadow: NDArray[Any] = map_coordinates(near, before.T, order=1, mode="constant")
    # Peak of the blurred occupancy of a single plane.
    peak = 1 / (BLUR_CELLS * np.sqrt(2 * np.pi))
    bare = BARE_RATIO * peak * np.exp(-0.5 * (ASIDE_CELLS / BLUR_CELLS) ** 2)
    return np.asarray(np.clip((shadow - bare) / (2 * peak), 0, 1), np.float32)


def grey(normals: NDArray[Any]) -> NDArray[np.float32]:
    """Return grey levels, (n,), of normals, (n, 3) with arbitrary sign, by their angle to the light."""
    grey = DARKEST + (BRIGHTEST - DARKEST) * _agreement(normals)
    return np.asarray(grey, np.float32)


def _agreement(normals: NDArray[Any]) -> NDArray[np.float32]:
    """Return |cos| of the angle between normals, (n, 3), and the light, (n,)."""
    cosines = (np.abs(normals.astype(np.float32)) @ LIGHT) / np.linalg.norm(LIGHT)
    return np.asarray(np.clip(cosines, 0, 1), np.float32)


def _vertex_normals(points: NDArray[np.float32], faces: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return area-weighted unit vertex normals, (n, 3)."""
    sums = np.zeros((len(points), 3))
    first = 0
    for corners in face_corners(points, faces):
        areas, normals = areas_and_normals(corners)
        weighted_normals = normals * areas[:, None]
        for corner in range(3):
            at = faces[first : first + len(corners), corner]
            for axis in range(3):
                sums[:, axis] += np.bincount(at, weighted_normals[:, axis], minlength=len(points))
        first += len(corners)
    length = np.linalg.norm(sums, axis=1)
    return np.asarray(sums / np.maximum(length, 1e-20)[:, None], np.float32)
