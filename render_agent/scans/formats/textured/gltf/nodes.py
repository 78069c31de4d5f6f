"""glTF 2.0 read as a scan: its nodes and the meshes that they place.

Our own reader: trimesh leaves out samplers, texture transforms, second texture coordinates, sparse
and normalised accessors, and makes every instance before its size can be bounded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.reading_process import NeedsProcess
from render_agent.scans.formats.textured.gltf.gltf_file import DRACO, DRACO_FACES, GltfFile, Tree
from render_agent.scans.formats.textured.gltf.materials import MappedMaterial, read_materials
from render_agent.scans.formats.textured.parts import MAX_CORNERS, MAX_VERTICES, Part, joined
from render_agent.scans.srgb import linear
from render_agent.util.reasons import shortened

FloatArray = NDArray[np.float64]

MAX_DEPTH = 1000
"""Nodes within nodes."""

READ = {
    DRACO,
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_texture_basisu",
    "KHR_texture_transform",
    "EXT_texture_webp",
}
"""Extensions that are read, or refused with a sentence of their own where they matter."""

HARMLESS = ("KHR_materials_", "KHR_lights_", "KHR_animation_", "KHR_xmp", "KHR_node_")
"""Extensions that change no base colour and no shape."""

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6
"""Modes of primitives; lines are left out."""


def read_gltf(path: Path, size: int, *, apart: bool) -> Scan:
    """Return the scan of a GLB or glTF file of `size` bytes, y up, as its file has it.

    apart: whether this is a process of its own; NeedsProcess where what it holds needs one.
    SceneError where it asks for more than its bounds or for an extension that is not read, Refused
    where its pictures do; whatever Python raises where it is damaged.
    """
    gltf = GltfFile(path, size)
    _check_extensions(gltf)
    _check_promises(gltf)
    placed = list(_placed(gltf.tree))
    _check_sizes(gltf, placed, apart=apart)
    shown = [
        (primitive, matrix)
        for mesh, matrix in placed
        for primitive in gltf.tree["meshes"][mesh]["primitives"]
    ]
    solid = [entry for entry in shown if entry[0].get("mode", TRIANGLES) in (TRIANGLES, STRIP, FAN)]
    drawn = solid or [entry for entry in shown if entry[0].get("mode", TRIANGLES) == POINTS]
    numbers = {entry.get("material") for entry, _ in drawn}
    materials, notes = read_materials(gltf, numbers, apart=apart)
    made: dict[int, Part] = {}
    parts = []
    for primitive, matrix in drawn:
        if id(primitive) not in made:
            made[id(primitive)] = _part(gltf, primitive, materials[primitive.get("material")])
        part = made[id(primitive)]
        points = part.points @ matrix[:3, :3].T + matrix[:3, 3]
        faces = part.faces
        if faces is not None and np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, [0, 2, 1]]
        parts.append(replace(part, points=points, faces=faces))
    if not sum(len(part.points) for part in parts):
        raise ValueError("it holds no surface")
    return joined(parts, notes)


def _check_extensions(gltf: GltfFile) -> None:
    """SceneError where the file needs an extension that is not read."""
    needed = gltf.tree.get("extensionsRequired") or []
    for name in needed:
        if name not in READ and not str(name).startswith(HARMLESS):
            raise unreadable(
                gltf.path,
                f"it needs the glTF extension {shortened(name)}, which is not read here",
                "convert it by `gltf-transform copy IN.glb OUT.glb` or export it without",
            )


def _check_promises(gltf: GltfFile) -> None:
    """SceneError where the file asks for room that it does not fill."""
    counts = [
        entry.get("count", 0)
        for entry in gltf.tree.get("accessors") or []
        if "bufferView" not in entry
    ]
    compressed = DRACO in (gltf.tree.get("extensionsUsed") or [])
    promised = sum(max(0, int(count)) for count in counts)
    # Draco needs two bits and more for a vertex.
    if promised > gltf.size * (32 if compressed else 1):
        why = f"its header promises {promised:,} numbers that it does not hold"
        raise unreadable(gltf.path, why)


def _check_sizes(gltf: GltfFile, placed: list[tuple[int, FloatArray]], *, apart: bool) -> None:
    """SceneError where instances together have far more vertices or corners than the file itself holds.

    NeedsProcess where they have many, and this is no process of its own.
    """
    times = Counter(mesh for mesh, _ in placed)
    for what, most, size in (
        ("vertices", MAX_VERTICES, _vertices),
        ("corners of faces", MAX_CORNERS, _corners),
    ):
        held = {mesh: size(gltf.tree, gltf.tree["meshes"][mesh]) for mesh in times}
        shown = sum(held[mesh] * count for mesh, count in times.items())
        if shown > max(most, sum(held.values())):
            raise unreadable(
                gltf.path,
                f"it shows its meshes so often that they have {shown:,} {what}",
                f"thin it out to {most:,}",
            )
        if shown > most // 16 and not apart:
            raise NeedsProcess


def _vertices(tree: Tree, mesh: Tree) -> int:
    return sum(
        int(tree["accessors"][entry["attributes"]["POSITION"]]["count"])
        for entry in mesh["primitives"]
    )


def _corners(tree: Tree, mesh: Tree) -> int:
    return sum(
        int(tree["accessors"][entry.get("indices", entry["attributes"]["POSITION"])]["count"])
        * (3 if entry.get("mode", TRIANGLES) in (STRIP, FAN) else 1)
        for entry in mesh["primitives"]
    )


def _placed(tree: Tree) -> Iterator[tuple[int, FloatArray]]:
    """Give the meshes that the scene shows, each with the (4, 4) matrix of its node."""
    nodes = tree.get("nodes") or []
    children = {child for node in nodes for child in node.get("children") or []}
    scenes = tree.get("scenes") or [{"nodes": sorted({*range(len(nodes))} - children)}]
    pending = [(root, np.eye(4), 0) for root in scenes[tree.get("scene", 0)].get("nodes") or []]
    visited = set()
    while pending:
        number, outer, depth = pending.pop()
        if number in visited or depth > MAX_DEPTH:
            raise ValueError("its nodes are no tree")
        visited.add(number)
        node = nodes[number]
        matrix = outer @ _node_matrix(node)
        if "mesh" in node:
            yield int(node["mesh"]), matrix
        pending += [(child, matrix, depth + 1) for child in reversed(node.get("children") or [])]


def _part(gltf: GltfFile, primitive: Tree, mapping: MappedMaterial) -> Part:
    """Return the part of one primitive in the frame of its mesh."""
    material, uv_set, transform = mapping
    points = gltf.attribute(primitive, "POSITION")
    assert points is not None
    if points.shape[1] != 3:
        raise ValueError("its positions have no x, y and z")
    colours = gltf.attribute(primitive, "COLOR_0")
    if colours is not None:
        kind = gltf.tree["accessors"][primitive["attributes"]["COLOR_0"]]["componentType"]
        pictured = material is not None and material.picture is not None
        colours = _vertex_light(colours, screen=kind == 5121 and not pictured)
    uv = None
    if material is not None and material.picture is not None:
        uv = gltf.attribute(primitive, f"TEXCOORD_{uv_set}")
    if uv is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            uv = uv.astype(np.float64) @ transform[:, :2].T + transform[:, 2]
    for extra in (colours, uv):
        if extra is not None and len(extra) != len(points):
            raise ValueError("its vertices differ in number")
    mode = primitive.get("mode", TRIANGLES)
    faces = None if mode == POINTS else _faces(gltf, primitive, mode, len(points))
    with np.errstate(invalid="ignore"):
        return Part(points.astype(np.float64), faces, material, uv, colours)


def _faces(gltf: GltfFile, primitive: Tree, mode: int, count: int) -> NDArray[np.int64]:
    """Return the faces, (f, 3), of a primitive with so many vertices; strips and fans as single triangles."""
    decompressed = gltf.decompressed(primitive)
    if DRACO_FACES in decompressed:
        return decompressed[DRACO_FACES].astype(np.int64).reshape(-1, 3)
    order = np.arange(count)
    if "indices" in primitive:
        order = gltf.values(primitive["indices"])[:, 0].astype(np.int64)
    if mode == TRIANGLES:
        return order.reshape(-1, 3)
    if len(order) < 3:
        return np.empty((0, 3), np.int64)
    if mode == FAN:
        hub = np.full(len(order) - 2, order[0])
        return np.column_stack([hub, order[1:-1], order[2:]])
    faces = np.column_stack([order[:-2], order[1:-1], order[2:]])
    faces[1::2] = faces[1::2, [1, 0, 2]]
    return faces


def _node_matrix(node: Tree) -> FloatArray:
    """Return a node's (4, 4) matrix: its own, or translation times rotation times scale."""
    if "matrix" in node:
        return np.asarray(node["matrix"], np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    x, y, z, w = np.asarray(node.get("rotation", (0, 0, 0, 1)), np.float64)
    size = math.sqrt(x * x + y * y + z * z + w * w)
    if not size > 0:
        raise ValueError("a turn of it is none")
    x, y, z, w = x / size, y / size, z / size, w / size
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    matrix[:3, :3] = turn * np.asarray(node.get("scale", (1, 1, 1)), np.float64).reshape(3)
    matrix[:3, 3] = np.asarray(node.get("translation", (0, 0, 0)), np.float64).reshape(3)
    return matrix


def _vertex_light(colours: NDArray[Any], screen: bool) -> FloatArray:
    """Return the linear light, (n, 3), of a primitive's vertex colours.

    screen: they are a screen's colours. The standard has them linear, but what was scanned is written
    as bytes on a mesh without a picture, as they were: so by trimesh, Open3D, MeshLab and CloudCompare.
    """
    if colours.dtype.kind == "u":  # not marked as normalised, which other readers overlook
        colours = colours / np.float64(np.iinfo(colours.dtype).max)
    light = np.clip(np.nan_to_num(colours[:, :3].astype(np.float64)), 0, 1)
    return linear(light) if screen else light
