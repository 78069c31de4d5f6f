"""A glTF file: its JSON tree, accessors and buffers."""

from __future__ import annotations

import codecs
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import require_reader, unreadable
from render_agent.scans.formats.textured.image_files import ImageError, Siblings
from render_agent.util.reasons import truncate
from render_agent.util.safe_parse import parse_json

Tree = dict[str, Any]

NUMBERS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT2": 4, "MAT3": 9, "MAT4": 16}

MAGIC, BINARY = b"glTF", b"BIN\0"  # of a GLB file, and of its binary chunk

MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
DRACO = "KHR_draco_mesh_compression"
DRACO_FACES = -1  # key of the faces among Draco-compressed attributes


class GltfFile:
    """A GLB or glTF file of `size` bytes: its JSON `tree`, and access to its accessors and buffers."""

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.siblings = Siblings(path.parent)
        text = memoryview(path.read_bytes())
        self._binary: memoryview | None = None
        if bytes(text[:4]) == MAGIC:
            _check_version(path, int.from_bytes(text[4:8], "little"))
            text, self._binary = _chunks(path, text)
        # Writers pad the JSON with spaces as required, or with null bytes.
        tree = parse_json(bytes(text).removeprefix(codecs.BOM_UTF8).rstrip(b"\0"))
        if not isinstance(tree, dict):
            raise ValueError("its JSON is not an object")
        _check_version(path, (tree.get("asset") or {}).get("version", "2.0"))
        self.tree: Tree = tree
        self._buffers: dict[int, memoryview] = {}
        self._decompressed: dict[int, dict[int, NDArray[Any]]] = {}

    def attribute(self, primitive: Tree, name: str) -> NDArray[Any] | None:
        """Return an attribute of a primitive, (n, width), or None if it has none."""
        attributes = primitive["attributes"]
        draco = extension(primitive, DRACO)
        if name in (draco.get("attributes") or {}):
            rows = self.draco_attributes(primitive)[draco["attributes"][name]]
            return _normalise(rows, self.tree["accessors"][attributes[name]])
        return self.values(attributes[name]) if name in attributes else None

    def values(self, number: int) -> NDArray[Any]:
        """Return the values of an accessor, (count, width), with normalised integers as floats."""
        entry = self.tree["accessors"][number]
        kind = NUMBERS[entry["componentType"]]
        count, width = int(entry["count"]), WIDTHS[entry["type"]]
        if "bufferView" in entry:
            values = self._rows(entry, count, width, kind)
        else:
            values = np.zeros((count, width), kind)
        if sparse := entry.get("sparse"):
            indices, size = sparse["indices"], int(sparse["count"])
            at = self._rows(indices, size, 1, NUMBERS[indices["componentType"]])[:, 0]
            values = values.copy()
            values[at] = self._rows(sparse["values"], size, width, kind)
        return _normalise(values, entry)

    def _rows(self, entry: Tree, count: int, width: int, kind: str) -> NDArray[Any]:
        """Return numbers, (count, width), from the buffer view of an entry."""
        view, offset = entry["bufferView"], int(entry.get("byteOffset", 0))
        data, itemsize = self.view(view), np.dtype(kind).itemsize
        row = width * itemsize
        stride = int(self.tree["bufferViews"][view].get("byteStride", row))
        if count < 1 or offset < 0 or stride < row:
            raise ValueError("an accessor has no rows")
        if offset + (count - 1) * stride + row > len(data):
            raise ValueError("an accessor is longer than its data")
        rows: NDArray[Any] = np.ndarray(
            (count, width), np.dtype(kind), data, offset, strides=(stride, itemsize)
        )
        return rows

    def view(self, number: int) -> memoryview:
        entry = self.tree["bufferViews"][number]
        buffer = self.tree["buffers"][entry["buffer"]]
        if "uri" not in buffer and any(extension(buffer, name) for name in MESHOPT):
            remedy = "export it without compression"
            if extension(buffer, MESHOPT[0]):  # the one that gltf-transform decodes
                remedy = "decompress it with `gltf-transform copy IN.glb OUT.glb`"
            raise unreadable(
                self.path, "it uses meshopt compression, which is not supported", remedy
            )
        start, length = int(entry.get("byteOffset", 0)), int(entry["byteLength"])
        data = self._buffer(entry["buffer"])
        if start < 0 or length < 0 or start + length > len(data):
            raise ValueError("a buffer view is longer than its buffer")
        return data[start : start + length]

    def _buffer(self, number: int) -> memoryview:
        if number not in self._buffers:
            uri = self.tree["buffers"][number].get("uri")
            if uri is None:
                if self._binary is None or number != 0:
                    raise ValueError("its binary chunk is missing")
                self._buffers[number] = self._binary
            else:
                try:
                    self._buffers[number] = memoryview(self.siblings.read(uri))
                except ImageError as error:
                    raise unreadable(
                        self.path, f"cannot load its data: {error}", "copy all of its files"
                    ) from None
        return self._buffers[number]

    def draco_attributes(self, primitive: Tree) -> dict[int, NDArray[Any]]:
        """Return the Draco-compressed attributes of a primitive by id, with the faces as DRACO_FACES."""
        draco = extension(primitive, DRACO)
        if not draco:
            return {}
        view = int(draco["bufferView"])
        if view not in self._decompressed:
            remedy = "; or decompress it with `gltf-transform copy IN.glb OUT.glb`"
            require_reader(self.path, "Draco compression", "DracoPy", remedy=remedy)
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


def extension(entry: Tree, name: str) -> Tree:
    """Return an extension of an object of the tree, or an empty one."""
    value = (entry.get("extensions") or {}).get(name) or {}
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not an object")
    return value


def _check_version(path: Path, version: object) -> None:
    major = str(version).partition(".")[0]
    if major != "2":
        raise unreadable(
            path,
            f"it is glTF {truncate(version, 20)}, and only glTF 2.0 is supported",
            "convert it with `gltf-pipeline -i IN.gltf -o OUT.glb`",
        )


def _chunks(path: Path, data: memoryview) -> tuple[memoryview, memoryview | None]:
    """Return the JSON and the binary chunk of a GLB file, ignoring bytes after them."""
    chunks: list[memoryview] = []
    offset = 12
    while offset + 8 <= len(data) and len(chunks) < 2:
        length, kind = struct.unpack_from("<I4s", data, offset)
        if chunks and kind != BINARY:
            if offset + 8 + length > len(data):
                break
        elif offset + 8 + length > len(data):
            num_missing = offset + 8 + length - len(data)
            raise unreadable(path, f"it is cut short: its last {num_missing:,} bytes are missing")
        else:
            chunks.append(data[offset + 8 : offset + 8 + length])
        offset += 8 + length
    if not chunks:
        raise ValueError("it has no JSON")
    return chunks[0], chunks[1] if len(chunks) > 1 else None


def _normalise(rows: NDArray[Any], entry: Tree) -> NDArray[Any]:
    """Return the rows of an accessor, with integers divided by their maximum if it is marked as normalised."""
    if not entry.get("normalized") or rows.dtype.kind == "f":
        return rows
    return np.maximum(rows / np.float64(np.iinfo(rows.dtype).max), -1.0)
