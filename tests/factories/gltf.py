"""An independent glTF writer that supports any extension."""

from __future__ import annotations

import base64
import io
import json
import struct

import numpy as np
from PIL import Image

KINDS = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}


class Gltf:
    """Builder of a glTF file: its JSON `tree`, which tests may edit, and its binary data."""

    def __init__(self, *nodes, **tree):
        self.data = b""
        self.tree = {
            "asset": {"version": "2.0"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": list(nodes) or [{"mesh": 0}],
            "meshes": [],
            "accessors": [],
            "bufferViews": [],
            **tree,
        }

    def view(self, data: bytes) -> int:
        """Add a buffer view; return its number."""
        self.data += b"\0" * (-len(self.data) % 4)
        self.tree["bufferViews"].append(
            {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(data)}
        )
        self.data += data
        return len(self.tree["bufferViews"]) - 1

    def accessor(self, values, kind="f4", normalized=False) -> int:
        """Add an accessor of values, (n, width) or (n,); return its number."""
        values = np.asarray(values).astype("<" + kind)
        values = values.reshape(len(values), -1)
        self.tree["accessors"].append(
            {
                "bufferView": self.view(values.tobytes()),
                "componentType": KINDS[kind],
                "count": len(values),
                "type": TYPES[values.shape[1]],
                "normalized": normalized,
            }
        )
        return len(self.tree["accessors"]) - 1

    def mesh(self, points, faces=None, material=None, targets=(), extensions=None, **attributes):
        """Add a mesh of one primitive, or a point cloud if there are no faces; return the primitive."""
        numbers = {"POSITION": self.accessor(points)} if points is not None else {}
        for name, value in attributes.items():
            numbers[name] = value if isinstance(value, int) else self.accessor(value)
        primitive = {"attributes": numbers, "mode": 0 if faces is None else 4}
        if faces is not None:
            primitive["indices"] = self.accessor(np.ravel(faces), "u4")
        if material is not None:
            primitive["material"] = self.material(material)
        if targets:
            primitive["targets"] = [{"POSITION": self.accessor(target)} for target in targets]
        if extensions:
            primitive["extensions"] = extensions
        self.tree["meshes"].append({"primitives": [primitive]})
        return primitive

    def material(self, entry) -> int:
        """Add a material; return its number."""
        self.tree.setdefault("materials", []).append(entry)
        return len(self.tree["materials"]) - 1

    def image(self, colour) -> int:
        """Add a single-colour image and its texture; return the texture's number."""
        file = io.BytesIO()
        Image.new("RGB", (4, 4), tuple(colour)).save(file, "PNG")
        images = self.tree.setdefault("images", [])
        images.append({"bufferView": self.view(file.getvalue()), "mimeType": "image/png"})
        self.tree.setdefault("textures", []).append({"source": len(images) - 1})
        return len(images) - 1

    def glb(self, padding=b" ", version=2) -> bytes:
        """Return the file as GLB."""
        tree = {**self.tree, "buffers": [{"byteLength": len(self.data)}]}
        text, data = json.dumps(tree).encode(), self.data
        text += padding * (-len(text) % 4)
        data += b"\0" * (-len(data) % 4)
        chunks = struct.pack("<I4s", len(text), b"JSON") + text
        chunks += struct.pack("<I4s", len(data), b"BIN\0") + data
        return struct.pack("<4sII", b"glTF", version, 12 + len(chunks)) + chunks

    def gltf(self) -> bytes:
        """Return the file as glTF with embedded data."""
        uri = "data:application/octet-stream;base64," + base64.b64encode(self.data).decode()
        buffers = [{"byteLength": len(self.data), "uri": uri}]
        return json.dumps({**self.tree, "buffers": buffers}).encode()


def splat_gltf(scene, *nodes, **extension) -> Gltf:
    """Return a splat in the released form of KHR_gaussian_splatting."""
    gltf, gaussians = Gltf(*nodes, extensionsUsed=["KHR_gaussian_splatting"]), scene.gaussians
    columns = {
        "SCALE": gaussians.scales,
        "ROTATION": gaussians.rotations[:, [1, 2, 3, 0]],
        "OPACITY": gaussians.opacities,
    }
    for index in range(gaussians.harmonics.shape[1]):
        degree = int(np.sqrt(index))
        name = f"SH_DEGREE_{degree}_COEF_{index - degree**2}"
        columns[name] = gaussians.harmonics[:, index]
    extensions = {"KHR_gaussian_splatting": {"kernel": "ellipse", **extension}}
    columns = {f"KHR_gaussian_splatting:{name}": values for name, values in columns.items()}
    gltf.mesh(scene.points, extensions=extensions, **columns)
    return gltf


def spz_gltf(data: bytes, count: int, *nodes) -> Gltf:
    """Return a glTF with a splat as SPZ data."""
    name = "KHR_gaussian_splatting_compression_spz_2"
    gltf = Gltf(*nodes, extensionsUsed=["KHR_gaussian_splatting", name])
    packed = {"extensions": {name: {"bufferView": gltf.view(data)}}}
    gltf.tree["accessors"].append({"componentType": 5126, "count": count, "type": "VEC3"})
    gltf.mesh(None, POSITION=0, extensions={"KHR_gaussian_splatting": packed})
    return gltf
