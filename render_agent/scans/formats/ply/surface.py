"""Build the surface of a PLY mesh: triangles of polygons and strips, with colours and texture coordinates of faces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, check_corners
from render_agent.scans.formats.declared import FEW_CORNERS, Declared
from render_agent.scans.formats.ply.header import STRIPS, Header
from render_agent.scans.formats.ply.rows import Lists, Rows
from render_agent.scans.formats.ply.vertices import colours_of, opaque_alpha
from render_agent.scans.formats.textured.image_files import Siblings
from render_agent.scans.formats.textured.parts import Part, join_parts
from render_agent.scans.formats.triangulation import triangulate
from render_agent.scans.srgb import to_linear
from render_agent.scans.texture import Material

UV_NAMES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"), ("texcoord_u", "texcoord_v"))
TEXTURE_COMMENT = r"texturefile\s+(.+)"


@dataclass(frozen=True)
class _Triangles:
    faces: NDArray[Any]  # (m, 3) vertex indices
    rows: NDArray[np.intp]  # row of the polygon of each triangle, (m,)
    uv: NDArray[Any] | None
    """Texture coordinates per corner, (m, 3, 2), NaN if missing; or None if there are none."""


def add_surface(
    path: Path,
    header: Header,
    scan: Scan,
    tables: dict[str, Rows],
    declared: Declared,
    *,
    in_child: bool,
) -> Scan:
    """Return a scan of vertices with the faces and strips of its file, if there are any. Raises NeedsChildProcess."""
    faces, strips = tables.get("face"), tables.get(STRIPS)
    if strips is not None:
        declared.use("tristrips vertex_indices", "tristrips vertex_index")
        scan = replace(scan, faces=_strip_triangles(strips.polygons(at_least=1)))
    if faces is None:
        return scan
    declared.use("face vertex_indices", "face vertex_index")
    if any(length < 3 for length in faces.polygons(at_least=0)):
        declared.add(FEW_CORNERS)
    images = header.comment(TEXTURE_COMMENT)
    vertex_uv = _vertex_uv(tables["vertex"]) if images else None
    triangles = _triangulate(
        path, faces, scan.points, with_uv=bool(images) and "texcoord" in faces.lists
    )
    if triangles.uv is not None or vertex_uv is not None:
        siblings = Siblings(path.parent)
        decoded, notes = siblings.decode(images, in_child=in_child)
        scan = replace(scan, notes=(*scan.notes, *notes), files=siblings.opened)
        mesh = _apply_textures(path, images, decoded, scan, faces, triangles, vertex_uv)
        if mesh.texture is not None and mesh.texture.has_images:
            declared.use(*(f"texture {name}" for name in images), "face texnumber")
            if scan.colours is not None:
                declared.add("vertex colours (the texture is used)")
            if strips is not None:
                declared.add("element tristrips")
            if triangles.uv is not None:
                declared.use("face texcoord")
            elif vertex_uv is not None:
                declared.use(
                    *next(pair for pair in UV_NAMES if pair[0] in tables["vertex"].scalars)
                )
            return mesh
        scan = replace(scan, notes=mesh.notes)
    names, colours = colours_of(faces.scalars, declared)
    if colours is not None and (scan.colours is None or (scan.colours == scan.colours[:1]).all()):
        declared.use(*(f"face {name}" for name in (*names, *opaque_alpha(faces.scalars))))
        return _split(scan, triangles.faces, colours[triangles.rows].repeat(3, axis=0))
    all_faces = triangles.faces
    if scan.faces is not None:
        all_faces = np.concatenate([scan.faces, all_faces])
    return replace(scan, faces=all_faces)


def _triangulate(path: Path, faces: Rows, points: NDArray[Any], *, with_uv: bool) -> _Triangles:
    texcoords = faces.lists.get("texcoord", {}) if with_uv else None
    corners, rows, uvs = [], [], []
    for length, (polygon_rows, polygons) in faces.polygons().items():
        uv = None if texcoords is None else _corner_uv(polygon_rows, length, texcoords)
        if length > 3:
            check_corners(path, polygons, len(points))
        triangles, local, at = triangulate(polygons, points)
        corners.append(triangles)
        rows.append(polygon_rows[at])
        if uv is not None:
            uvs.append(uv[at[:, None], local])
    if not corners:
        return _Triangles(np.empty((0, 3), np.int32), np.empty(0, np.intp), None)
    return _Triangles(
        corners[0] if len(corners) == 1 else np.concatenate(corners),
        rows[0] if len(rows) == 1 else np.concatenate(rows),
        np.concatenate(uvs) if uvs else None,
    )


def _corner_uv(rows: NDArray[np.intp], length: int, texcoords: Lists) -> NDArray[np.float32]:
    """Return the texture coordinates of polygons, (n, length, 2), NaN for those without."""
    uv = np.full((len(rows), length, 2), np.nan, np.float32)
    if 2 * length in texcoords:
        uv_rows, values = texcoords[2 * length]
        at = np.minimum(np.searchsorted(uv_rows, rows), len(uv_rows) - 1)
        has_uv = uv_rows[at] == rows
        uv[has_uv] = values[at[has_uv]].reshape(-1, length, 2)
    return uv


def _vertex_uv(vertices: Rows) -> NDArray[np.float32] | None:
    for names in UV_NAMES:
        if vertices.scalars.keys() >= set(names):
            return np.stack([vertices.scalars[name] for name in names], axis=1).astype(np.float32)
    return None


def _apply_textures(
    path: Path,
    names: tuple[str, ...],
    images: dict[str, NDArray[np.uint8]],
    scan: Scan,
    faces: Rows,
    triangles: _Triangles,
    vertex_uv: NDArray[np.float32] | None,
) -> Scan:
    """Return the mesh with its decoded images, by name; unchanged if there are none."""
    check_corners(path, triangles.faces, len(scan.points))
    numbers = np.zeros(len(triangles.faces), np.int64)
    if len(names) > 1 and "texnumber" in faces.scalars:
        numbers = faces.scalars["texnumber"].astype(np.int64)[triangles.rows]
    if not images:
        return scan
    parts = []
    for number in np.unique(numbers):
        in_part = numbers == number
        name = names[number] if 0 <= number < len(names) else ""
        corners = triangles.faces[in_part].reshape(-1)
        if triangles.uv is not None:
            uv = triangles.uv[in_part].reshape(-1, 2)
        else:
            assert vertex_uv is not None
            uv = vertex_uv[corners]
        material = Material(images[name]) if name in images else None
        colours = None
        if material is None and scan.colours is not None:
            colours = to_linear(scan.colours[corners])
        parts.append(
            Part(
                scan.points[corners],
                np.arange(len(corners)).reshape(-1, 3),
                material,
                uv * (1, -1) + (0, 1),  # the v axis points up
                colours,
            )
        )
    return replace(join_parts(parts, scan.notes), files=scan.files)


def _split(scan: Scan, faces: NDArray[Any], colours: NDArray[np.uint8]) -> Scan:
    """Return the mesh with a vertex per face corner, coloured by `colours`, (3 m, 3)."""
    # An invalid index is reported when the scan is cleaned.
    valid = np.clip(faces.reshape(-1), 0, len(scan.points) - 1)
    if not np.array_equal(valid, faces.reshape(-1)):
        return replace(scan, faces=faces)
    return replace(
        scan, points=scan.points[valid], colours=colours, faces=np.arange(len(valid)).reshape(-1, 3)
    )


def _strip_triangles(strips: Lists) -> NDArray[np.int64]:
    """Return the triangles of strips, (m, 3); -1 ends a strip, and every other triangle is turned over."""
    gap = np.array([-1])
    entries = [
        np.concatenate([values.astype(np.int64), np.full((len(values), 1), -1)], axis=1).reshape(-1)
        for _, values in strips.values()
    ]
    flat = np.concatenate([gap, *entries])
    ends = np.maximum.accumulate(np.where(flat == -1, np.arange(len(flat)), 0))
    odd = ((np.arange(len(flat)) - ends) % 2 == 0)[:-2]
    triples = np.stack([flat[:-2], flat[1:-1], flat[2:]], axis=1)
    triples[odd] = triples[odd][:, [1, 0, 2]]
    a, b, c = triples.T
    is_surface = (triples != -1).all(axis=1) & (a != b) & (b != c) & (a != c)
    surface: NDArray[np.int64] = triples[is_surface]
    return surface
