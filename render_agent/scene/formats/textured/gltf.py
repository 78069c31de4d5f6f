"""glTF 2.0 read as a scan: its node tree, its accessors, its materials.

Our own reader: trimesh leaves out samplers, texture transforms, second texture coordinates, sparse
and normalised accessors, and makes every instance before its size can be bounded.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.formats.cleaning import Scan, require_reader, unreadable
from render_agent.scene.formats.reading_process import NeedsProcess
from render_agent.scene.formats.textured.parts import Part, joined
from render_agent.scene.formats.textured.picture_files import (
    Picture,
    Unusable,
    decoded,
    file_beside,
)
from render_agent.scene.srgb import linear
from render_agent.scene.texture import Material, Wrap
from render_agent.text.safe_parse import parse_json

Tree = dict[str, Any]
FloatArray = NDArray[np.float64]

Look = tuple[Material | None, int, FloatArray]
"""A material, its set of texture coordinates, and their transform, (2, 3)."""

MAX_VERTICES = 20_000_000
"""Vertices of all instances together, where the file itself does not hold as many."""

MAX_CORNERS = 120_000_000
"""The same for corners of faces."""

MAX_DEPTH = 1000
"""Nodes within nodes."""

READ = {
    "KHR_draco_mesh_compression",
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

NUMBERS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}
WRAPS: dict[int, Wrap] = {10497: "repeat", 33071: "clamp", 33648: "mirror"}

POINTS, TRIANGLES, STRIP, FAN = 0, 4, 5, 6
"""Modes of primitives; lines are left out."""

BLEND_CUTOFF = 0.5
"""Texels that are more than half clear are holes where a material blends."""


def read_gltf(path: Path, size: int, *, apart: bool) -> Scan:
    """Return the scan of a GLB or glTF file of `size` bytes, y up, as its file has it.

    apart: whether this is a process of its own; NeedsProcess where what it holds needs one.
    SceneError where it asks for more than its bounds or for an extension that is not read, Refused
    where its pictures do; whatever Python raises where it is damaged.
    """
    data = memoryview(path.read_bytes())
    binary: memoryview | None = None
    text: bytes | memoryview = data
    if bytes(data[:4]) == b"glTF":
        text, binary = _chunks(path, data, size)
    tree = parse_json(bytes(text))
    if not isinstance(tree, dict):
        raise ValueError("its JSON is no object")
    return _File(path, tree, binary, size, apart=apart).scan()


def _chunks(path: Path, data: memoryview, size: int) -> tuple[memoryview, memoryview | None]:
    """Return the JSON and the first binary chunk of a GLB file. SceneError where a chunk is too long."""
    chunks: list[memoryview] = []
    offset = 12
    while offset < size:
        length = int(struct.unpack("<I", bytes(data[offset : offset + 4]).ljust(4, b"\0"))[0])
        if offset + 8 + length > size:
            raise unreadable(path, f"it promises {length:,} bytes that it does not hold")
        chunks.append(data[offset + 8 : offset + 8 + length])
        offset += 8 + length
    if not chunks:
        raise ValueError("it holds no JSON")
    return chunks[0], chunks[1] if len(chunks) > 1 else None


class _File:
    """One glTF file: its JSON `tree`, and what its numbers point at."""

    def __init__(
        self, path: Path, tree: Tree, binary: memoryview | None, size: int, *, apart: bool
    ) -> None:
        self.path = path
        self.tree = tree
        self.binary = binary
        self.size = size
        self.apart = apart
        self.notes: list[str] = []
        self._buffers: dict[int, memoryview] = {}
        self._draco: dict[int, dict[int, NDArray[Any]]] = {}

    def scan(self) -> Scan:
        self._check_extensions()
        self._check_promises()
        placed = list(self._placed())
        self._check_sizes(placed)
        shown = [
            (primitive, matrix)
            for mesh, matrix in placed
            for primitive in self.tree["meshes"][mesh]["primitives"]
        ]
        solid = [entry for entry in shown if entry[0].get("mode", TRIANGLES) in (4, 5, 6)]
        drawn = solid or [entry for entry in shown if entry[0].get("mode", TRIANGLES) == POINTS]
        looks = self._looks({entry.get("material") for entry, _ in drawn})
        made: dict[int, Part] = {}
        parts = []
        for primitive, matrix in drawn:
            if id(primitive) not in made:
                made[id(primitive)] = self._part(primitive, looks[primitive.get("material")])
            part = made[id(primitive)]
            points = part.points @ matrix[:3, :3].T + matrix[:3, 3]
            faces = part.faces
            if faces is not None and np.linalg.det(matrix[:3, :3]) < 0:
                faces = faces[:, [0, 2, 1]]
            parts.append(replace(part, points=points, faces=faces))
        if not sum(len(part.points) for part in parts):
            raise ValueError("it holds no surface")
        return joined(parts, self.notes)

    def _check_extensions(self) -> None:
        needed = self.tree.get("extensionsRequired") or []
        for name in needed:
            if name not in READ and not str(name).startswith(HARMLESS):
                raise unreadable(
                    self.path,
                    f"it needs the glTF extension {str(name)[:60]}, which is not read here",
                    "convert it by `gltf-transform copy IN.glb OUT.glb` or export it without",
                )

    def _check_promises(self) -> None:
        """SceneError where the file asks for room that it does not fill."""
        counts = [
            entry.get("count", 0)
            for entry in self.tree.get("accessors") or []
            if "bufferView" not in entry
        ]
        compressed = "KHR_draco_mesh_compression" in (self.tree.get("extensionsUsed") or [])
        promised = sum(max(0, int(count)) for count in counts)
        # Draco needs two bits and more for a vertex.
        if promised > self.size * (32 if compressed else 1):
            why = f"its header promises {promised:,} numbers that it does not hold"
            raise unreadable(self.path, why)

    def _check_sizes(self, placed: list[tuple[int, FloatArray]]) -> None:
        """SceneError where instances together have far more vertices or corners than the file.

        NeedsProcess where they have many, and this is no process of its own.
        """
        times: dict[int, int] = {}
        for mesh, _ in placed:
            times[mesh] = times.get(mesh, 0) + 1
        for what, most, size in (
            ("vertices", MAX_VERTICES, self._vertices),
            ("corners of faces", MAX_CORNERS, self._corners),
        ):
            held = {mesh: size(self.tree["meshes"][mesh]) for mesh in times}
            shown = sum(held[mesh] * count for mesh, count in times.items())
            if shown > max(most, sum(held.values())):
                raise unreadable(
                    self.path,
                    f"it shows its meshes so often that they have {shown:,} {what}",
                    f"thin it out to {most:,}",
                )
            if shown > most // 16 and not self.apart:
                raise NeedsProcess

    def _vertices(self, mesh: Tree) -> int:
        return sum(
            int(self.tree["accessors"][entry["attributes"]["POSITION"]]["count"])
            for entry in mesh["primitives"]
        )

    def _corners(self, mesh: Tree) -> int:
        return sum(
            int(
                self.tree["accessors"][entry.get("indices", entry["attributes"]["POSITION"])][
                    "count"
                ]
            )
            * (3 if entry.get("mode", TRIANGLES) in (STRIP, FAN) else 1)
            for entry in mesh["primitives"]
        )

    def _placed(self) -> Iterator[tuple[int, FloatArray]]:
        """Give the meshes that the scene shows, each with the (4, 4) matrix of its node."""
        nodes = self.tree.get("nodes") or []
        children = {child for node in nodes for child in node.get("children") or []}
        scenes = self.tree.get("scenes") or [{"nodes": sorted({*range(len(nodes))} - children)}]
        pending = [
            (root, np.eye(4), 0) for root in scenes[self.tree.get("scene", 0)].get("nodes") or []
        ]
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
            pending += [
                (child, matrix, depth + 1) for child in reversed(node.get("children") or [])
            ]

    def _part(self, primitive: Tree, look: Look) -> Part:
        """Return the part of one primitive in the frame of its mesh."""
        draco = (primitive.get("extensions") or {}).get("KHR_draco_mesh_compression")
        self._draco_decoded = {} if draco is None else self._decompressed(draco)
        material, uv_set, transform = look
        attributes = primitive["attributes"]
        points = self._attribute(attributes, "POSITION", draco)
        assert points is not None
        if points.shape[1] != 3:
            raise ValueError("its positions have no x, y and z")
        colours = self._attribute(attributes, "COLOR_0", draco)
        if colours is not None:
            kind = self.tree["accessors"][attributes["COLOR_0"]]["componentType"]
            pictured = material is not None and material.picture is not None
            colours = _vertex_light(colours, screen=kind == 5121 and not pictured)
        uv = None
        if material is not None and material.picture is not None:
            uv = self._attribute(attributes, f"TEXCOORD_{uv_set}", draco)
        if uv is not None:
            with np.errstate(invalid="ignore", over="ignore"):
                uv = uv.astype(np.float64) @ transform[:, :2].T + transform[:, 2]
        for extra in (colours, uv):
            if extra is not None and len(extra) != len(points):
                raise ValueError("its vertices differ in number")
        mode = primitive.get("mode", TRIANGLES)
        faces = None if mode == POINTS else self._faces(primitive, mode, len(points))
        with np.errstate(invalid="ignore"):
            return Part(points.astype(np.float64), faces, material, uv, colours)

    def _attribute(self, attributes: Tree, name: str, draco: Tree | None) -> NDArray[Any] | None:
        """Return a primitive's attribute, (n, width), or None where it has none."""
        if draco is not None and name in (draco.get("attributes") or {}):
            decoded = self._draco_decoded[draco["attributes"][name]]
            return _normalised(decoded, self.tree["accessors"][attributes[name]])
        return self.values(attributes[name]) if name in attributes else None

    def _faces(self, primitive: Tree, mode: int, count: int) -> NDArray[np.int64]:
        if -1 in self._draco_decoded:
            return self._draco_decoded[-1].astype(np.int64).reshape(-1, 3)
        order = np.arange(count)
        if "indices" in primitive:
            order = self.values(primitive["indices"])[:, 0].astype(np.int64)
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

    def values(self, number: int) -> NDArray[Any]:
        """Return an accessor, (count, width), normalised integers as floats."""
        entry = self.tree["accessors"][number]
        kind = np.dtype(NUMBERS[entry["componentType"]])
        count, width = int(entry["count"]), WIDTHS[entry["type"]]
        if "bufferView" in entry:
            values = self._rows(
                entry["bufferView"], int(entry.get("byteOffset", 0)), count, width, kind
            )
        else:
            values = np.zeros((count, width), kind)
        sparse = entry.get("sparse")
        if sparse:
            places, fresh = sparse["indices"], sparse["values"]
            size = int(sparse["count"])
            at = self._rows(
                places["bufferView"], int(places.get("byteOffset", 0)), size, 1,
                np.dtype(NUMBERS[places["componentType"]]),
            )[:, 0]  # fmt: skip
            values = values.copy()
            values[at] = self._rows(
                fresh["bufferView"], int(fresh.get("byteOffset", 0)), size, width, kind
            )
        return _normalised(values, entry)

    def _rows(
        self, view: int, offset: int, count: int, width: int, kind: np.dtype[Any]
    ) -> NDArray[Any]:
        data = self._view(view)
        row = width * kind.itemsize
        stride = int(self.tree["bufferViews"][view].get("byteStride", row))
        if count < 1 or offset < 0 or stride < row:
            raise ValueError("an accessor of it has no rows")
        if offset + (count - 1) * stride + row > len(data):
            raise ValueError("an accessor of it is longer than its data")
        rows: NDArray[Any] = np.ndarray(
            (count, width), kind, data, offset, strides=(stride, kind.itemsize)
        )
        return rows

    def _view(self, number: int) -> memoryview:
        """Return the bytes of a buffer view."""
        entry = self.tree["bufferViews"][number]
        if "EXT_meshopt_compression" in (entry.get("extensions") or {}):
            raise unreadable(
                self.path,
                "its numbers are compressed by meshopt, which is not read here",
                "convert it by `gltf-transform copy IN.glb OUT.glb`",
            )
        start, length = int(entry.get("byteOffset", 0)), int(entry["byteLength"])
        data = self._buffer(entry["buffer"])
        if start < 0 or length < 0 or start + length > len(data):
            raise ValueError("a part of it is longer than its data")
        return data[start : start + length]

    def _buffer(self, number: int) -> memoryview:
        if number not in self._buffers:
            uri = self.tree["buffers"][number].get("uri")
            if uri is None:
                if self.binary is None or number != 0:
                    raise ValueError("its binary data is not there")
                self._buffers[number] = self.binary
            else:
                try:
                    self._buffers[number] = memoryview(file_beside(self.path.parent, uri))
                except Unusable as error:
                    raise unreadable(self.path, f"its data {error}", "copy it whole") from None
        return self._buffers[number]

    def _decompressed(self, draco: Tree) -> dict[int, NDArray[Any]]:
        """Return what Draco compressed: attributes by their id, and the faces as -1."""
        remedy = "; or convert it by `gltf-transform copy IN.glb OUT.glb`"
        require_reader(self.path, "Draco's compression", "DracoPy", remedy=remedy)
        view = int(draco["bufferView"])
        if view not in self._draco:
            import DracoPy

            mesh = DracoPy.decode(bytes(self._view(view)))
            attributes = {
                int(part["unique_id"]): np.asarray(part["data"]) for part in mesh.attributes
            }
            faces = getattr(mesh, "faces", None)
            if faces is not None:
                attributes[-1] = np.asarray(faces)
            self._draco[view] = attributes
        return self._draco[view]

    def _looks(self, numbers: set[int | None]) -> dict[int | None, Look]:
        """Return materials by their number. Refused where their pictures are too large."""
        read = {number: self._material(number) for number in numbers if number is not None}
        wanted = dict.fromkeys(
            look["source"] for look, _ in read.values() if look.get("source") is not None
        )
        pictures, notes = decoded(
            {source: partial(self._picture, source) for source in wanted}, apart=self.apart
        )
        self.notes += notes
        looks: dict[int | None, Look] = {None: (None, 0, np.eye(2, 3))}
        for number, (look, material) in read.items():
            picture = pictures.get(look.get("source", -1))
            if picture is None:
                looks[number] = (replace(material, alpha_cutoff=None), 0, np.eye(2, 3))
            else:
                shown = replace(material, picture=picture, captured=True)
                looks[number] = (shown, look["uv"], look["transform"])
        return looks

    def _material(self, number: int) -> tuple[Tree, Material]:
        """Return where a material's picture is, and the material without it."""
        entry = self.tree["materials"][number]
        extensions = entry.get("extensions") or {}
        base = entry.get("pbrMetallicRoughness") or {}
        glossy = extensions.get("KHR_materials_pbrSpecularGlossiness")
        factor, texture = base.get("baseColorFactor"), base.get("baseColorTexture")
        if glossy:
            factor, texture = glossy.get("diffuseFactor"), glossy.get("diffuseTexture")
        tint = np.ones(4) if factor is None else np.asarray(factor, np.float64).reshape(4)
        if not np.isfinite(tint).all():
            raise ValueError("a colour of it is not finite")
        red, green, blue, alpha = (float(share) for share in np.clip(tint, 0, 1))
        material = Material(
            None, (red, green, blue, alpha), captured="KHR_materials_unlit" in extensions
        )
        look: Tree = {}
        if texture:
            look, wrap = self._texture(texture)
            material = replace(material, wrap=wrap, alpha_cutoff=_cutoff(entry, alpha))
        return look, material

    def _texture(self, info: Tree) -> tuple[Tree, tuple[Wrap, Wrap]]:
        entry = self.tree["textures"][info["index"]]
        extensions = entry.get("extensions") or {}
        source = entry.get("source")
        for name in ("EXT_texture_webp", "KHR_texture_basisu"):
            if name in extensions and (source is None or name == "EXT_texture_webp"):
                source = extensions[name].get("source")
        look: Tree = {"source": source, "uv": int(info.get("texCoord", 0))}
        look["transform"] = np.eye(2, 3)
        change = (info.get("extensions") or {}).get("KHR_texture_transform")
        if change:
            look["uv"] = int(change.get("texCoord", look["uv"]))
            look["transform"] = _uv_transform(change)
        sampler = self.tree["samplers"][entry["sampler"]] if "sampler" in entry else {}
        kinds = (sampler.get("wrapS", 10497), sampler.get("wrapT", 10497))
        return look, (WRAPS[kinds[0]], WRAPS[kinds[1]])

    def _picture(self, number: int) -> Picture:
        entry = self.tree["images"][number]
        if "bufferView" in entry:
            return Picture.of(self._view(entry["bufferView"]))
        uri = str(entry["uri"])
        return Picture.of(file_beside(self.path.parent, uri), uri)


def _cutoff(material: Tree, alpha: float) -> float | None:
    """Return the alpha below which texels are holes; the factor's alpha is taken out of it."""
    mode = material.get("alphaMode", "OPAQUE")
    if mode == "BLEND":
        return BLEND_CUTOFF
    if mode != "MASK":
        return None
    cutoff = float(material.get("alphaCutoff", 0.5))
    return cutoff / alpha if alpha > 0 else 2.0


def _uv_transform(change: Tree) -> FloatArray:
    """Return the (2, 3) matrix of KHR_texture_transform: scale, then turn, then shift."""
    (x, y), (across, down) = change.get("offset", (0, 0)), change.get("scale", (1, 1))
    angle = float(change.get("rotation", 0))
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array(
        [[cosine * across, sine * down, x], [-sine * across, cosine * down, y]], np.float64
    )


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


def _normalised(rows: NDArray[Any], entry: Tree) -> NDArray[Any]:
    """Return an accessor's rows, integers as shares of their largest value where it says so."""
    if not entry.get("normalized") or rows.dtype.kind == "f":
        return rows
    return np.maximum(rows / np.float64(np.iinfo(rows.dtype).max), -1.0)


def _vertex_light(colours: NDArray[Any], screen: bool) -> FloatArray:
    """Return the linear light, (n, 3), of a primitive's vertex colours.

    screen: they are a screen's colours. The standard has them linear, but what was scanned is written
    as bytes on a mesh without a picture, as they were: so by trimesh, Open3D, MeshLab and CloudCompare.
    """
    if colours.dtype.kind == "u":  # not marked as normalised, which other readers overlook
        colours = colours / np.float64(np.iinfo(colours.dtype).max)
    light = np.clip(np.nan_to_num(colours[:, :3].astype(np.float64)), 0, 1)
    return linear(light) if screen else light
