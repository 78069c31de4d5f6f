"""A glTF file: its JSON tree, and the rows of numbers and the bytes that its entries point at."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import require_reader, unreadable
from render_agent.scans.formats.textured.picture_files import Unusable, file_beside
from render_agent.util.safe_parse import parse_json

Tree = dict[str, Any]

NUMBERS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}

DRACO = "KHR_draco_mesh_compression"

DRACO_FACES = -1
"""The key of faces among what Draco compressed, beside the ids of attributes."""


class GltfFile:
    """A GLB or glTF file of `size` bytes: its JSON `tree`, and what the numbers in it point at.

    SceneError where a chunk is longer than the file; whatever Python raises where it is damaged.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        text = memoryview(path.read_bytes())
        self._binary: memoryview | None = None
        if bytes(text[:4]) == b"glTF":
            text, self._binary = _chunks(path, text, size)
        tree = parse_json(bytes(text))
        if not isinstance(tree, dict):
            raise ValueError("its JSON is no object")
        self.tree: Tree = tree
        self._buffers: dict[int, memoryview] = {}
        self._decompressed: dict[int, dict[int, NDArray[Any]]] = {}

    def attribute(self, primitive: Tree, name: str) -> NDArray[Any] | None:
        """Return a primitive's attribute, (n, width), or None where it has none."""
        attributes = primitive["attributes"]
        draco = (primitive.get("extensions") or {}).get(DRACO) or {}
        if name in (draco.get("attributes") or {}):
            rows = self.decompressed(primitive)[draco["attributes"][name]]
            return _normalised(rows, self.tree["accessors"][attributes[name]])
        return self.values(attributes[name]) if name in attributes else None

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
        data = self.view(view)
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

    def view(self, number: int) -> memoryview:
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
                if self._binary is None or number != 0:
                    raise ValueError("its binary data is not there")
                self._buffers[number] = self._binary
            else:
                try:
                    self._buffers[number] = memoryview(file_beside(self.path.parent, uri))
                except Unusable as error:
                    raise unreadable(self.path, f"its data {error}", "copy it whole") from None
        return self._buffers[number]

    def decompressed(self, primitive: Tree) -> dict[int, NDArray[Any]]:
        """Return what Draco compressed of a primitive: attributes by their id, the faces as DRACO_FACES."""
        draco = (primitive.get("extensions") or {}).get(DRACO)
        if draco is None:
            return {}
        view = int(draco["bufferView"])
        if view not in self._decompressed:
            remedy = "; or convert it by `gltf-transform copy IN.glb OUT.glb`"
            require_reader(self.path, "Draco's compression", "DracoPy", remedy=remedy)
            import DracoPy

            mesh = DracoPy.decode(bytes(self.view(view)))
            attributes = {
                int(part["unique_id"]): np.asarray(part["data"]) for part in mesh.attributes
            }
            faces = getattr(mesh, "faces", None)
            if faces is not None:
                attributes[DRACO_FACES] = np.asarray(faces)
            self._decompressed[view] = attributes
        return self._decompressed[view]


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


def _normalised(rows: NDArray[Any], entry: Tree) -> NDArray[Any]:
    """Return an accessor's rows, integers as shares of their largest value where it says so."""
    if not entry.get("normalized") or rows.dtype.kind == "f":
        return rows
    return np.maximum(rows / np.float64(np.iinfo(rows.dtype).max), -1.0)
