"""Read a glTF 2.0 scene: its nodes and the meshes they instantiate.

trimesh's reader is not used: it ignores samplers, texture transforms, second texture coordinates, and sparse and
normalised accessors, and it creates all instances before their size can be limited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.declared_size import check_expansion, check_memory, too_many
from render_agent.scans.formats.reading_process import NeedsChildProcess
from render_agent.scans.formats.textured.gltf.deformation import (
    is_skinned,
    morph,
    morph_weights,
    skin,
)
from render_agent.scans.formats.textured.gltf.gltf_file import (
    DRACO,
    DRACO_FACES,
    MESHOPT,
    GltfFile,
    Tree,
)
from render_agent.scans.formats.textured.gltf.materials import MappedMaterial, read_materials
from render_agent.scans.formats.textured.gltf.scene_graph import (
    INSTANCING,
    VISIBILITY,
    FloatArray,
    Placement,
    SceneGraph,
)
from render_agent.scans.formats.textured.gltf.splat_primitives import (
    SPLAT,
    SPZ,
    is_splat,
    read_splats,
)
from render_agent.scans.formats.textured.parts import (
    MAX_CORNERS,
    MAX_VERTICES,
    Part,
    join_parts,
    place_copies,
)
from render_agent.scans.srgb import to_linear
from render_agent.util.reasons import reason_of, truncate

# Supported extensions, and ones that are rejected with their own message where they matter.
READ = {
    DRACO,
    SPLAT,
    *SPZ,
    *MESHOPT,
    INSTANCING,
    VISIBILITY,
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_unlit",
    "KHR_mesh_quantization",
    "KHR_texture_basisu",
    "KHR_texture_transform",
    "EXT_texture_webp",
}

# Prefixes of extensions that change neither base colours nor shapes.
HARMLESS = ("KHR_materials_", "KHR_lights_", "KHR_animation_", "KHR_xmp")

BYTES_PER_VALUE = 12  # of a position

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6  # primitive modes; lines are skipped


def read_gltf(
    path: Path,
    size: int,  # its size in bytes
    *,
    in_child: bool,
) -> Scan:
    """Read a GLB or glTF file of `size` bytes, with the file's axes (y up). Raises NeedsChildProcess."""
    with _schema_errors():
        return _read(path, size, in_child=in_child)


@contextmanager
def _schema_errors() -> Iterator[None]:
    """Name what is wrong with a file that does not follow the schema of glTF."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{error} is missing in its JSON") from error
    except (AttributeError, TypeError) as error:
        raise ValueError(f"a value in its JSON has the wrong type: {reason_of(error)}") from error
    except IndexError as error:
        raise ValueError("its JSON refers to an object that does not exist") from error


def _read(path: Path, size: int, *, in_child: bool) -> Scan:
    gltf = GltfFile(path, size)
    _check_extensions(gltf)
    _check_promises(gltf)
    if not in_child and DRACO in (gltf.tree.get("extensionsUsed") or ()):
        raise NeedsChildProcess  # its own header decides how much it decompresses to
    graph = SceneGraph(gltf.tree)
    _check_sizes(gltf, graph.placements, in_child=in_child)
    declared = Declared(_names(gltf.tree))
    declared.use(*READ, *(f"mesh {_mesh_name(gltf.tree, each.mesh)}" for each in graph.placements))
    primitives = [
        (placement, primitive)
        for placement in graph.placements
        for primitive in gltf.tree["meshes"][placement.mesh]["primitives"]
    ]
    kinds: dict[str, list[tuple[Placement, Tree]]] = {}
    for placement, primitive in primitives:
        kinds.setdefault(_kind(primitive), []).append((placement, primitive))
    kind = next((kind for kind in ("splats", "surfaces", "points") if kind in kinds), None)
    if kind is None:
        raise ValueError(f"it has no surface{', only lines' if kinds else ''}")
    for other in kinds.keys() - {kind}:
        declared.add(other)
    visible = kinds[kind]
    for _, primitive in visible:
        for name in primitive.get("attributes") or ():
            declared.add(name)
    if kind == "splats":
        scan = replace(read_splats(gltf, visible, declared), up="y", metres=1.0)
    else:
        scan = _mesh_scan(gltf, graph, visible, declared, in_child=in_child)
    return replace(scan, notes=(*scan.notes, *declared.notes), files=gltf.siblings.opened)


def _mesh_scan(
    gltf: GltfFile,
    graph: SceneGraph,
    visible: Sequence[tuple[Placement, Tree]],
    declared: Declared,
    *,
    in_child: bool,
) -> Scan:
    """Join placed primitives, all surfaces or all points, to one scan."""
    numbers = {primitive.get("material") for _, primitive in visible}
    materials, notes = read_materials(gltf, numbers, declared, in_child=in_child)
    part_of_primitive: dict[tuple[int, tuple[float, ...]], Part] = {}
    parts = []
    for placement, primitive in visible:
        weights = morph_weights(gltf.tree, placement)
        key = id(primitive), weights
        if key not in part_of_primitive:
            material = materials[primitive.get("material")]
            part_of_primitive[key] = _part(gltf, primitive, material, weights, declared)
        part = part_of_primitive[key]
        if is_skinned(placement, primitive):
            influences = ("JOINTS_", "WEIGHTS_")
            declared.use(*(each for each in primitive["attributes"] if each.startswith(influences)))
            points = skin(gltf, graph, placement, primitive, part.points)
            parts.append(replace(part, points=points))
        else:
            parts.append(_instantiate(part, list(placement.matrices(gltf))))
    if not sum(len(part.points) for part in parts):
        raise ValueError("it has no surface")
    return join_parts(parts, notes)


def _instantiate(part: Part, matrices: Sequence[FloatArray]) -> Part:
    """Return the instances of a part, each with its (4, 4) matrix, as one part."""
    points, faces = place_copies(part.points, part.faces, matrices)
    uv, colours = (
        array if array is None or len(matrices) == 1 else np.tile(array, (len(matrices), 1))
        for array in (part.uv, part.colours)
    )
    return replace(part, points=points, faces=faces, uv=uv, colours=colours)


def _names(tree: Tree) -> Iterator[str]:
    """Yield the names of what a file declares, apart from materials and vertex attributes."""
    yield from (str(name) for name in tree.get("extensionsUsed") or ())
    scenes = tree.get("scenes") or ()
    scene_number = tree.get("scene", 0)
    yield from (
        f"scene {scene.get('name', number)}"
        for number, scene in enumerate(scenes)
        if number != scene_number and scene.get("nodes") != scenes[scene_number].get("nodes")
    )
    yield from (
        f"mesh {_mesh_name(tree, number)}" for number in range(len(tree.get("meshes") or ()))
    )
    if tree.get("animations"):
        yield "animations"


def _mesh_name(tree: Tree, number: int) -> str:
    return str(tree["meshes"][number].get("name", number))


def _kind(primitive: Tree) -> str:
    if is_splat(primitive):
        return "splats"
    mode = primitive.get("mode", TRIANGLES)
    if mode in (TRIANGLES, STRIP, FAN):
        return "surfaces"
    return "points" if mode == POINTS else "lines"


def _check_extensions(gltf: GltfFile) -> None:
    """Raise SceneError if the file requires an unsupported extension."""
    for name in gltf.tree.get("extensionsRequired") or []:
        if name not in READ and not str(name).startswith(HARMLESS):
            raise unreadable(
                gltf.path,
                f"it requires the glTF extension {truncate(name)}, which is not supported",
                "export it without this extension",
            )


def _check_promises(gltf: GltfFile) -> None:
    """Raise SceneError if accessors without data declare more values than the file can contain."""
    counts = [
        entry.get("count", 0)
        for entry in gltf.tree.get("accessors") or []
        if "bufferView" not in entry
    ]
    compressions = {DRACO, *SPZ} & {str(name) for name in gltf.tree.get("extensionsUsed") or []}
    num_values = sum(max(0, int(count)) for count in counts)
    content = f"{num_values:,} values"
    if compressions:
        check_expansion(gltf.path, gltf.size, num_values * BYTES_PER_VALUE, content)
        check_memory(gltf.path, 4 * num_values * BYTES_PER_VALUE, content)
    elif num_values > gltf.size:
        raise too_many(gltf.path, gltf.size, content)


def _check_sizes(gltf: GltfFile, placements: Sequence[Placement], *, in_child: bool) -> None:
    """Check the number of vertices and face corners in all instances together. Raises NeedsChildProcess."""
    times: Counter[int] = Counter()
    for placement in placements:
        times[placement.mesh] += placement.count
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
        if not is_splat(entry)
    )


def _corners(tree: Tree, mesh: Tree) -> int:
    return sum(
        int(tree["accessors"][entry.get("indices", entry["attributes"]["POSITION"])]["count"])
        * (3 if entry.get("mode", TRIANGLES) in (STRIP, FAN) else 1)
        for entry in mesh["primitives"]
        if not is_splat(entry)
    )


def _part(
    gltf: GltfFile,
    primitive: Tree,
    mapping: MappedMaterial,
    weights: tuple[float, ...],
    declared: Declared,
) -> Part:
    """Build the part of a primitive in the frame of its mesh, with its morph targets."""
    material, uv_set, transform = mapping
    points = gltf.attribute(primitive, "POSITION")
    assert points is not None
    if points.shape[1] != 3:
        raise ValueError("its positions do not have x, y and z")
    points = morph(gltf, primitive, "POSITION", points, weights)
    declared.use("POSITION", "NORMAL", "TANGENT", "COLOR_0", f"TEXCOORD_{uv_set}")
    colours = gltf.attribute(primitive, "COLOR_0")
    if colours is not None:
        declared.add_nan(colours)
        kind = gltf.tree["accessors"][primitive["attributes"]["COLOR_0"]]["componentType"]
        has_image = material is not None and material.image is not None
        colours = morph(gltf, primitive, "COLOR_0", colours, weights)
        colours = _vertex_light(colours, screen=kind == 5121 and not has_image)
    uv = None
    if material is not None and material.image is not None:
        uv = gltf.attribute(primitive, f"TEXCOORD_{uv_set}")
    if uv is not None:
        with np.errstate(invalid="ignore", over="ignore"):
            uv = uv.astype(np.float64) @ transform[:, :2].T + transform[:, 2]
    for extra in (colours, uv):
        if extra is not None and len(extra) != len(points):
            raise ValueError("the numbers of its vertex attributes differ")
    mode = primitive.get("mode", TRIANGLES)
    faces = None if mode == POINTS else _faces(gltf, primitive, mode, len(points), declared)
    with np.errstate(invalid="ignore"):
        return Part(points.astype(np.float64), faces, material, uv, colours)


def _faces(
    gltf: GltfFile, primitive: Tree, mode: int, count: int, declared: Declared
) -> NDArray[np.int64]:
    """Return the faces, (f, 3), of a primitive with `count` vertices; strips and fans as separate triangles."""
    draco_attributes = gltf.draco_attributes(primitive)
    if DRACO_FACES in draco_attributes:
        return draco_attributes[DRACO_FACES].astype(np.int64).reshape(-1, 3)
    order = np.arange(count)
    if "indices" in primitive:
        order = gltf.values(primitive["indices"])[:, 0].astype(np.int64)
    if mode == TRIANGLES:
        if len(order) % 3:
            declared.add("an incomplete triangle")
        return order[: len(order) // 3 * 3].reshape(-1, 3)
    if len(order) < 3:
        return np.empty((0, 3), np.int64)
    if mode == FAN:
        hub = np.full(len(order) - 2, order[0])
        return np.column_stack([hub, order[1:-1], order[2:]])
    faces = np.column_stack([order[:-2], order[1:-1], order[2:]])
    faces[1::2] = faces[1::2, [1, 0, 2]]
    return faces


def _vertex_light(
    colours: NDArray[Any],  # (n, 3) or (n, 4)
    screen: bool,
) -> FloatArray:
    """Return the linear light, (n, 3), of a primitive's vertex colours.

    glTF requires linear values, but most scanning programs write sRGB bytes on meshes without an image (`screen`).
    """
    if colours.dtype.kind == "u":  # not marked as normalised, which other readers ignore, too
        colours = colours / np.float64(np.iinfo(colours.dtype).max)
    light = np.clip(np.nan_to_num(colours[:, :3].astype(np.float64)), 0, 1)
    return to_linear(light) if screen else light
