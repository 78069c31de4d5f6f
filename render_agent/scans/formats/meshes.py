"""Scans in other formats than PLY: GLB, glTF, OBJ, STL and OFF; the door to trimesh."""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, triangles
from render_agent.scans.formats.reading_process import NeedsProcess, parser_errors, read_apart
from render_agent.scans.formats.textured.gltf.nodes import read_gltf
from render_agent.scans.formats.textured.wavefront import read_obj
from render_agent.scans.srgb import screen

MAX_FACES = 100_000_000
"""A scene that shows the same mesh many times has at most so many faces in all."""

PLAIN = np.uint8(180)
"""Grey of the parts without colours in a scene with colours."""


MAX_BYTES_HERE = 4 << 20
"""A file that is larger is read in a process of its own, with a limit for its memory."""


def read_mesh(path: Path, size: int) -> Scan:
    """Return the scan of a GLB, glTF, OBJ, STL or OFF file of `size` bytes, its axes as in the file.

    SceneError where it holds no surface, asks for too much, or needs what is not here.
    """
    if size <= MAX_BYTES_HERE:
        with suppress(NeedsProcess):
            return _read(path, size, apart=False)
    return read_apart(read_mesh_apart, path, size)


def read_mesh_apart(path: Path, size: int) -> Scan:
    """Return what `read_mesh` does; called in a process of its own."""
    return _read(path, size, apart=True)


def _read(path: Path, size: int, *, apart: bool) -> Scan:
    suffix = path.suffix.lower()
    with parser_errors(path, suffix[1:].upper()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if suffix in (".glb", ".gltf"):
            return read_gltf(path, size, apart=apart)
        logging.getLogger("trimesh").setLevel(logging.CRITICAL)
        if suffix == ".obj":
            return read_obj(path, apart=apart)
        import trimesh

        return scan_of_geometry(trimesh.load_scene(path, process=False))


def scan_of_geometry(geometry: Any) -> Scan:
    """Return a trimesh scene, mesh or point cloud as a scan, its axes as they are.

    ValueError where it shows no surface, or the same mesh far too often.
    """
    import trimesh

    loaded = geometry if isinstance(geometry, trimesh.Scene) else trimesh.Scene(geometry)
    placed = [loaded.graph[node] for node in loaded.graph.nodes_geometry]
    shown = [(loaded.geometry[name], matrix) for matrix, name in placed]
    meshes = [entry for entry in shown if isinstance(entry[0], trimesh.Trimesh)]
    clouds = [entry for entry in shown if isinstance(entry[0], trimesh.PointCloud)]
    if sum(len(mesh.faces) for mesh, _ in meshes) > MAX_FACES:
        raise ValueError(f"it shows more than {MAX_FACES:,} faces")
    if not meshes and not clouds:
        raise ValueError("it holds no surface")
    return _joined(meshes or clouds)


def _joined(shown: list[tuple[Any, NDArray[np.float64]]]) -> Scan:
    """Return geometries, each with the (4, 4) matrix that puts it into the scene, as one scan."""
    points, colours, faces, count = [], [], [], 0
    for geometry, matrix in shown:
        local = np.asarray(geometry.vertices, np.float64)
        points.append(local @ matrix[:3, :3].T + matrix[:3, 3])
        colours.append(_colours(geometry))
        if hasattr(geometry, "faces"):
            corners = np.asarray(geometry.faces, np.int64)
            if len(corners) and not 0 <= corners.min() <= corners.max() < len(local):
                raise ValueError("a face uses a vertex that is not there")
            faces.append(triangles({3: corners + count}))
        count += len(local)
    plain = all(part is None for part in colours)
    painted = [
        np.full((len(at), 3), PLAIN) if part is None else part
        for at, part in zip(points, colours, strict=True)
    ]
    return Scan(
        np.concatenate(points),
        None if plain else np.concatenate(painted),
        np.concatenate(faces) if faces else None,
    )


def _colours(geometry: Any) -> NDArray[np.uint8] | None:
    """Return the colours, (n, 3), of a geometry's vertices, or None where it has none."""
    visual = getattr(geometry, "visual", None)
    # What a coloured cloud of trimesh has as its visual knows neither what it is nor whether it is.
    if visual is None or not getattr(visual, "defined", True):
        return None
    if getattr(visual, "kind", "vertex") == "texture":
        pictured = any(
            getattr(visual.material, name, None) is not None
            for name in ("image", "baseColorTexture", "materials")
        )
        if visual.uv is None or not len(visual.uv) or not pictured:
            colour = np.asarray(visual.material.main_color, np.uint8)[:3]
            if hasattr(visual.material, "baseColorFactor"):  # linear, as in glTF
                colour = screen(colour / 255)
            return np.tile(colour, (len(geometry.vertices), 1))
        visual = visual.to_color()
    colours = np.asarray(visual.vertex_colors)[:, :3].astype(np.uint8)
    return colours if len(colours) == len(geometry.vertices) else None
