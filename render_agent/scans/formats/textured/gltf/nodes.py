"""Read a glTF 2.0 scene: its nodes and the meshes they instantiate.

trimesh's reader is not used: it ignores samplers, texture transforms, second texture coordinates, and sparse and
normalised accessors, and it creates all instances before their size can be limited.
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
from render_agent.scans.formats.reading_process import NeedsChildProcess
from render_agent.scans.formats.textured.gltf.gltf_file import DRACO, DRACO_FACES, GltfFile, Tree
from render_agent.scans.formats.textured.gltf.materials import MappedMaterial, read_materials
from render_agent.scans.formats.textured.parts import MAX_CORNERS, MAX_VERTICES, Part, join_parts
from render_agent.scans.srgb import to_linear
from render_agent.util.reasons import truncate

FloatArray = NDArray[np.float64]

MAX_DEPTH = 1000  # nesting of nodes

# Supported extensions, and ones that are rejected with their own message where they matter.
READ = {
    DRACO,
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_texture_basisu",
    "KHR_texture_transform",
    "EXT_texture_webp",
}

# Prefixes of extensions that change neither base colours nor shapes.
HARMLESS = ("KHR_materials_", "KHR_lights_", "KHR_animation_", "KHR_xmp", "KHR_node_")

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6  # primitive modes; lines are skipped


def read_gltf(path: Path, size: int, *, in_child: bool) -> Scan:
    """Read a GLB or glTF file of `size` bytes, with the file's axes (y up).

    Args:
        path: The file.
        size: Its size in bytes.
        in_child: Whether this is a child process.

    Raises:
        NeedsChildProcess: The file needs a child process.
        SceneError: It is too large, or needs an unsupported extension.
        ScanRejectedError: Its images are too large.
        Exception: Whatever Python raises on a malformed file.
    """
    gltf = GltfFile(path, size)
    _check_extensions(gltf)
    _check_promises(gltf)
    instances = list(_instances(gltf.tree))
    _check_sizes(gltf, instances, in_child=in_child)
    primitives = [
        (primitive, matrix)
        for mesh, matrix in instances
        for primitive in gltf.tree["meshes"][mesh]["primitives"]
    ]
    surfaces = [
        entry for entry in primitives if entry[0].get("mode", TRIANGLES) in (TRIANGLES, STRIP, FAN)
    ]
    points_only = [entry for entry in primitives if entry[0].get("mode", TRIANGLES) == POINTS]
    visible = surfaces or points_only
    numbers = {entry.get("material") for entry, _ in visible}
    materials, notes = read_materials(gltf, numbers, in_child=in_child)
    part_of_primitive: dict[int, Part] = {}
    parts = []
    for primitive, matrix in visible:
        if id(primitive) not in part_of_primitive:
            material = materials[primitive.get("material")]
            part_of_primitive[id(primitive)] = _part(gltf, primitive, material)
        part = part_of_primitive[id(primitive)]
        points = part.points @ matrix[:3, :3].T + matrix[:3, 3]
        faces = part.faces
        if faces is not None and np.linalg.det(matrix[:3, :3]) < 0:
            faces = faces[:, [0, 2, 1]]
        parts.append(replace(part, points=points, faces=faces))
    if not sum(len(part.points) for part in parts):
        raise ValueError("it has no surface")
    return join_parts(parts, notes)


def _check_extensions(gltf: GltfFile) -> None:
    """Raise SceneError if the file requires an unsupported extension."""
    for name in gltf.tree.get("extensionsRequired") or []:
        if name not in READ and not str(name).startswith(HARMLESS):
            raise unreadable(
                gltf.path,
                f"it requires the glTF extension {truncate(name)}, which is not supported",
                "convert it with `gltf-transform copy IN.glb OUT.glb`, or export it without",
            )


def _check_promises(gltf: GltfFile) -> None:
    """Raise SceneError if accessors without data declare more values than the file can contain."""
    counts = [
        entry.get("count", 0)
        for entry in gltf.tree.get("accessors") or []
        if "bufferView" not in entry
    ]
    compressed = DRACO in (gltf.tree.get("extensionsUsed") or [])
    declared = sum(max(0, int(count)) for count in counts)
    # Draco needs at least two bits per vertex.
    if declared > gltf.size * (32 if compressed else 1):
        reason = f"it declares {declared:,} values that it does not have"
        raise unreadable(gltf.path, reason)


def _check_sizes(
    gltf: GltfFile, instances: list[tuple[int, FloatArray]], *, in_child: bool
) -> None:
    """Check the number of vertices and face corners in all instances together.

    Raises:
        SceneError: There are far more than in the meshes themselves.
        NeedsChildProcess: There are many, and this is not a child process.
    """
    times = Counter(mesh for mesh, _ in instances)
    for noun, limit, size in (
        ("vertices", MAX_VERTICES, _vertices),
        ("corners of faces", MAX_CORNERS, _corners),
    ):
        sizes = {mesh: size(gltf.tree, gltf.tree["meshes"][mesh]) for mesh in times}
        total = sum(sizes[mesh] * count for mesh, count in times.items())
        if total > max(limit, sum(sizes.values())):
            raise unreadable(
                gltf.path,
                f"its mesh instances have {total:,} {noun} in total",
                f"reduce them to {limit:,}",
            )
        if total > limit // 16 and not in_child:
            raise NeedsChildProcess


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


def _instances(tree: Tree) -> Iterator[tuple[int, FloatArray]]:
    """Yield the meshes in the scene, each with its node's (4, 4) world matrix."""
    nodes = tree.get("nodes") or []
    children = {child for node in nodes for child in node.get("children") or []}
    scenes = tree.get("scenes") or [{"nodes": sorted({*range(len(nodes))} - children)}]
    pending = [(root, np.eye(4), 0) for root in scenes[tree.get("scene", 0)].get("nodes") or []]
    visited = set()
    while pending:
        number, outer, depth = pending.pop()
        if number in visited or depth > MAX_DEPTH:
            raise ValueError("its nodes do not form a tree")
        visited.add(number)
        node = nodes[number]
        matrix = outer @ _node_matrix(node)
        if "mesh" in node:
            yield int(node["mesh"]), matrix
        pending += [(child, matrix, depth + 1) for child in reversed(node.get("children") or [])]


def _part(gltf: GltfFile, primitive: Tree, mapping: MappedMaterial) -> Part:
    """Build the part of a primitive in the frame of its mesh."""
    material, uv_set, transform = mapping
    points = gltf.attribute(primitive, "POSITION")
    assert points is not None
    if points.shape[1] != 3:
        raise ValueError("its positions do not have x, y and z")
    colours = gltf.attribute(primitive, "COLOR_0")
    if colours is not None:
        kind = gltf.tree["accessors"][primitive["attributes"]["COLOR_0"]]["componentType"]
        has_picture = material is not None and material.picture is not None
        colours = _vertex_light(colours, screen=kind == 5121 and not has_picture)
    uv = None
    if material is not None and material.picture is not None:
        uv = gltf.attribute(primitive, f"TEXCOORD_{uv_set}")
    if uv is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            uv = uv.astype(np.float64) @ transform[:, :2].T + transform[:, 2]
    for extra in (colours, uv):
        if extra is not None and len(extra) != len(points):
            raise ValueError("the numbers of its vertex attributes differ")
    mode = primitive.get("mode", TRIANGLES)
    faces = None if mode == POINTS else _faces(gltf, primitive, mode, len(points))
    with np.errstate(invalid="ignore"):
        return Part(points.astype(np.float64), faces, material, uv, colours)


def _faces(gltf: GltfFile, primitive: Tree, mode: int, count: int) -> NDArray[np.int64]:
    """Return the faces, (f, 3), of a primitive with `count` vertices; strips and fans as separate triangles."""
    draco_attributes = gltf.draco_attributes(primitive)
    if DRACO_FACES in draco_attributes:
        return draco_attributes[DRACO_FACES].astype(np.int64).reshape(-1, 3)
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
    """Return a node's (4, 4) matrix, given directly or as translation, rotation and scale."""
    if "matrix" in node:
        return np.asarray(node["matrix"], np.float64).reshape(4, 4).T
    matrix = np.eye(4)
    x, y, z, w = np.asarray(node.get("rotation", (0, 0, 0, 1)), np.float64)
    size = math.sqrt(x * x + y * y + z * z + w * w)
    if not size > 0:
        raise ValueError("a rotation is invalid")
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

    Args:
        colours: (n, 3) or (n, 4).
        screen: Whether they are sRGB. The standard requires linear values, but trimesh, Open3D, MeshLab and
            CloudCompare write scanned colours as unconverted bytes on meshes without an image.
    """
    if colours.dtype.kind == "u":  # not marked as normalised, which other readers ignore, too
        colours = colours / np.float64(np.iinfo(colours.dtype).max)
    light = np.clip(np.nan_to_num(colours[:, :3].astype(np.float64)), 0, 1)
    return to_linear(light) if screen else light
