"""Read GLB, glTF, OBJ, STL and OFF meshes. The only module that imports trimesh's loaders, with `wavefront`."""

from __future__ import annotations

import codecs
import logging
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.meshes.off import read_off
from render_agent.scans.formats.meshes.stl import read_binary_stl
from render_agent.scans.formats.reading_process import (
    NeedsChildProcess,
    parser_errors,
    read_in_child,
)
from render_agent.scans.formats.textured.gltf.nodes import read_gltf
from render_agent.scans.formats.textured.parts import Part, join_parts
from render_agent.scans.formats.textured.wavefront import read_obj
from render_agent.scans.srgb import to_linear, to_srgb

MAX_FACES = 100_000_000  # faces in total, counting each instance of a repeated mesh
MAX_BYTES_HERE = 4 << 20  # larger files are read in a child process with a memory limit


def read_mesh(path: Path, size: int, *, in_child: bool = False) -> Scan:
    """Read a GLB, glTF, OBJ, STL or OFF file of `size` bytes, with the file's axes."""
    if in_child or size <= MAX_BYTES_HERE:
        with suppress(NeedsChildProcess):
            return _read(path, size, in_child=in_child)
    return read_in_child(read_mesh, path, size, "in_child")


def _read(path: Path, size: int, *, in_child: bool) -> Scan:
    suffix = path.suffix.lower()
    with parser_errors(path, suffix[1:].upper()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if suffix in (".glb", ".gltf") or _starts_with(path, b"glTF"):
            return read_gltf(path, size, in_child=in_child)
        if _starts_with(path, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            raise unreadable(path, "it is UTF-16 text", "save it as UTF-8 text")
        logging.getLogger("trimesh").setLevel(logging.CRITICAL)
        if suffix == ".obj":
            return read_obj(path, in_child=in_child)
        if suffix == ".off":
            return read_off(path)
        if suffix == ".stl" and (scan := read_binary_stl(path, size)) is not None:
            return scan
        import trimesh

        return scan_of_geometry(trimesh.load_scene(path, process=False))


def _starts_with(path: Path, *starts: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(starts)


def scan_of_geometry(geometry: Any) -> Scan:
    """Convert a trimesh scene, mesh or point cloud to a scan, with unchanged axes. Raises ValueError."""
    import trimesh

    scene = geometry if isinstance(geometry, trimesh.Scene) else trimesh.Scene(geometry)
    instances = [scene.graph[node] for node in scene.graph.nodes_geometry]
    placed_geometries = [(scene.geometry[name], matrix) for matrix, name in instances]
    meshes = [entry for entry in placed_geometries if isinstance(entry[0], trimesh.Trimesh)]
    clouds = [entry for entry in placed_geometries if isinstance(entry[0], trimesh.PointCloud)]
    if sum(len(mesh.faces) for mesh, _ in meshes) > MAX_FACES:
        raise ValueError(f"it has more than {MAX_FACES:,} faces")
    if not meshes and not clouds:
        raise ValueError("it has no surface")
    return join_parts([_part(*entry) for entry in meshes or clouds])


def _part(geometry: Any, matrix: NDArray[np.float64]) -> Part:
    """Return a geometry, with its (4, 4) matrix into the scene, as a part."""
    points = np.asarray(geometry.vertices, np.float64) @ matrix[:3, :3].T + matrix[:3, 3]
    colours = _colours(geometry)
    faces = np.asarray(geometry.faces, np.int64) if hasattr(geometry, "faces") else None
    return Part(points, faces, colours=None if colours is None else to_linear(colours))


def _colours(geometry: Any) -> NDArray[np.uint8] | None:
    """Return the vertex colours, (n, 3), of a geometry, or None if it has none."""
    visual = getattr(geometry, "visual", None)
    # The visual of trimesh's coloured point clouds has neither `kind` nor `defined`.
    if visual is None or not getattr(visual, "defined", True):
        return None
    if getattr(visual, "kind", "vertex") == "texture":
        has_image = any(
            getattr(visual.material, name, None) is not None
            for name in ("image", "baseColorTexture", "materials")
        )
        if visual.uv is None or not len(visual.uv) or not has_image:
            colour = np.asarray(visual.material.main_color, np.uint8)[:3]
            if hasattr(visual.material, "baseColorFactor"):  # linear, as in glTF
                colour = to_srgb(colour / 255)
            return np.tile(colour, (len(geometry.vertices), 1))
        visual = visual.to_color()
    colours = np.asarray(visual.vertex_colors)[:, :3].astype(np.uint8)
    return colours if len(colours) == len(geometry.vertices) else None
