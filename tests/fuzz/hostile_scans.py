"""Scans made to take all memory, all time, or somebody's files: each is read, or refused in a sentence, within bounds.

    python tests/fuzz/hostile_scans.py --output FILE.json

Of every format those tricks that its readers could fall for. Counted are the memory that this process and its children
take beside what they had, and their seconds of a processor, which others that use the machine do not change.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import io
import json
import os
import platform
import struct
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import psutil
from factories.clouds import write_las
from PIL import Image

from render_agent.errors import SceneError

MOST_BYTES = 3 << 30
MOST_SECONDS = 60.0
"""What reading one of them may take, of memory and of a processor."""

Tree = dict
POINTS = np.random.default_rng(1).uniform(0, 4, (200_000, 3)).astype("<f4")
SECRET = "/etc/passwd"


def png(side: int) -> bytes:
    """Return a picture of so many pixels a side in a few bytes."""
    file = io.BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    return file.getvalue()


def gltf(vertices: int = 30, corners: int = 30, nodes: list | None = None, **extra: object) -> Tree:
    """Return the tree of a glTF file of one mesh, and its buffer under "binary"."""
    positions, indices = POINTS[:vertices].tobytes(), np.arange(corners, dtype="<u4") % vertices
    binary = positions + indices.tobytes()
    return {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [*range(len(nodes or [0]))]}],
        "nodes": nodes or [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": vertices, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5125, "count": corners, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteLength": len(positions)},
            {"buffer": 0, "byteOffset": len(positions), "byteLength": 4 * corners},
        ],
        "buffers": [{"byteLength": len(binary)}],
        "binary": binary,
        **extra,
    }


def pictured(count: int, side: int) -> Tree:
    """Return a tree whose mesh has so many materials, each with a picture of so many pixels a side."""
    tree = gltf()
    picture = png(side)
    tree["bufferViews"] += [
        {"buffer": 0, "byteOffset": len(tree["binary"]), "byteLength": len(picture)},
        {"buffer": 0, "byteOffset": 0, "byteLength": 240},
    ]
    tree["binary"] += picture
    tree["accessors"].append({"bufferView": 3, "componentType": 5126, "count": 30, "type": "VEC2"})
    tree["images"] = [{"bufferView": 2, "mimeType": "image/png"} for _ in range(count)]
    tree["textures"] = [{"source": number} for number in range(count)]
    tree["materials"] = [
        {"pbrMetallicRoughness": {"baseColorTexture": {"index": number}}} for number in range(count)
    ]
    one = {"attributes": {"POSITION": 0, "TEXCOORD_0": 2}, "indices": 1}
    tree["meshes"] = [{"primitives": [{**one, "material": number} for number in range(count)]}]
    return tree


def glb(tree: Tree) -> bytes:
    """Return a tree as GLB."""
    tree = dict(tree)
    binary = tree.pop("binary")
    binary += bytes(-len(binary) % 4)
    tree["buffers"] = [{"byteLength": len(binary)}]
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text
    chunks += struct.pack("<I4s", len(binary), b"BIN\0") + binary
    return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks


def json_of(tree: Tree, uri: str | None = None) -> bytes:
    """Return a tree as glTF whose buffer is embedded, or lies elsewhere."""
    tree = dict(tree)
    binary = tree.pop("binary")
    inside = "data:application/octet-stream;base64," + base64.b64encode(binary).decode()
    tree["buffers"] = [{"byteLength": len(binary), "uri": uri or inside}]
    return json.dumps(tree).encode()


def changed(tree: Tree, what: str, number: int, **more: object) -> Tree:
    """Return a tree in which an entry has other values."""
    tree[what][number] = {**tree[what][number], **more}
    return tree


def gltf_tricks() -> Iterator[tuple[str, Tree]]:
    """Give what both kinds of glTF can be asked for."""
    yield "300 instances of 200,000 vertices", gltf(200_000, nodes=[{"mesh": 0}] * 300)
    yield "95 instances of 200,000 vertices", gltf(200_000, nodes=[{"mesh": 0}] * 95)
    yield "16 pictures of 13,000 x 13,000", pictured(16, 13_000)
    yield "3 pictures of 13,000 x 13,000", pictured(3, 13_000)
    yield "a picture of 30,000 x 30,000", pictured(1, 30_000)
    chain = [{"children": [number + 1]} for number in range(99_999)]
    yield "100,000 nodes in each other", gltf(nodes=[*chain, {"mesh": 0}], scenes=[{"nodes": [0]}])
    yield "a node in itself", gltf(nodes=[{"mesh": 0, "children": [0]}])
    forks = [{"children": [number + 1] * 2} for number in range(40)]
    yield "nodes that fork 40 times", gltf(nodes=[*forks, {"mesh": 0}], scenes=[{"nodes": [0]}])
    yield "2,000,000,000 numbers promised", changed(gltf(), "accessors", 0, count=2 * 10**9)
    yield "numbers without a buffer", changed(gltf(), "accessors", 0, bufferView=None, count=10**9)
    yield "indices beyond the vertices", changed(gltf(), "accessors", 1, byteOffset=-4)
    sparse = {"count": 10**9, "indices": {"bufferView": 1, "componentType": 5125}, "values": {}}
    yield "a billion sparse numbers", changed(gltf(), "accessors", 0, sparse=sparse)
    matrix = [1e38] * 16
    yield "a matrix that overflows", gltf(nodes=[{"mesh": 0, "matrix": matrix}])
    yield "a million empty nodes", gltf(nodes=[{"mesh": 0}, *[{}] * 10**6])


def ply(header: str, body: bytes = b"", form: str = "binary_little_endian") -> bytes:
    """Return a PLY file."""
    return f"ply\nformat {form} 1.0\n{header}\nend_header\n".encode() + body


XYZ = "property float x\nproperty float y\nproperty float z"


def plies() -> Iterator[tuple[str, bytes]]:
    """Give PLY files."""
    body = POINTS[:9].tobytes()
    face = "element face 1\nproperty list {} int vertex_indices"
    yield "10^12 points promised", ply(f"element vertex {10**12}\n{XYZ}", body)
    yield (
        "a face of 2^32 corners",
        ply(f"element vertex 9\n{XYZ}\n{face.format('uint')}", body + b"\xff" * 4),
    )
    yield (
        "a face of -1 corners",
        ply(f"element vertex 9\n{XYZ}\n{face.format('int')}", body + b"\xff" * 4),
    )
    many = "\n".join(f"property double p{number}" for number in range(100_000))
    yield "100,000 properties", ply(f"element vertex 9\n{XYZ}\n{many}", body)
    yield "a line without an end", ply(f"element vertex 9\n{XYZ}", b"1 " * 10**7, "ascii")
    yield (
        "coordinates without an end",
        ply(f"element vertex 9\n{XYZ}", (b"1e999999999 nan -inf\n") * 9, "ascii"),
    )
    yield (
        "10^5 elements",
        ply("\n".join(f"element e{n} 0\nproperty int a" for n in range(10**5)), body),
    )
    yield (
        "coordinates of 10^38 metres",
        ply(f"element vertex 9\n{XYZ}", np.full((9, 3), 3e38, "<f4").tobytes()),
    )


def objs(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Give OBJ files."""
    corners = "v 0 0 0\nv 4 0 0\nv 0 3 0\n"
    yield "a face of a million corners", (corners + "f" + " 1 2 3" * 333_333).encode()
    yield "indices of 10^18", f"{corners}f 1 2 {10**18}\n".encode()
    yield "indices before the first", f"{corners}f -1 -2 -9999999\n".encode()
    yield "materials from a device", f"mtllib /dev/zero\n{corners}usemtl a\nf 1 2 3\n".encode()
    materials = "".join(f"newmtl m{number}\nmap_Kd bomb.png\n" for number in range(10**4))
    (folder / "m.mtl").write_text(materials)
    (folder / "bomb.png").write_bytes(png(16_000))
    uses = "".join(f"usemtl m{number}\nf 1/1 2/1 3/1\n" for number in range(10**4))
    yield "10,000 materials of one bomb", f"mtllib m.mtl\n{corners}vt 0 0\n{uses}".encode()
    yield "a line of 30 MB", corners.encode() + b"f " + b"1 " * 15_000_000
    yield "10^5 groups", (corners + "".join(f"g {n}\nf 1 2 3\n" for n in range(10**5))).encode()


def clouds(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Give clouds: LAS, PCD, columns of text, E57."""
    place = folder / "made.las"
    write_las(place, POINTS[:100].astype(float))
    las = place.read_bytes()
    yield "las: 2^40 points", las[:107] + b"\xff" * 4 + las[111:247] + b"\xff" * 6 + las[253:]
    yield "las: 2^32 notes", las[:100] + b"\xff" * 4 + las[104:]
    yield "las: steps of 10^300", las[:131] + struct.pack("<3d", *[1e300] * 3) + las[155:]
    yield "las: points begin beyond the end", las[:96] + b"\xff" * 4 + las[100:]
    place = folder / "made.laz"
    write_las(place, POINTS[:100].astype(float))
    laz = bytearray(place.read_bytes())
    laz[107:111] = b"\xff\xff\xff\x7f"
    yield "laz: 2^31 points", bytes(laz)
    yield "laz: noise", bytes(laz[:400]) + np.random.default_rng(2).bytes(10**6)
    head = "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nHEIGHT 1\n"
    yield "pcd: 10^12 points", f"{head}WIDTH {10**12}\nPOINTS {10**12}\nDATA binary\n".encode()
    bomb = struct.pack("<II", 64, 2**32 - 1) + bytes(64)
    yield (
        "pcd: 64 bytes become 4 GB",
        f"{head}WIDTH 9\nPOINTS 9\nDATA binary_compressed\n".encode() + bomb,
    )
    fields = " ".join(f"f{number}" for number in range(10**5))
    yield "pcd: 100,000 fields", f"VERSION .7\nFIELDS x y z {fields}\nDATA ascii\n".encode()
    wide = head.replace("COUNT 1 1 1", "COUNT 1 1 1000000000")
    yield "pcd: a field of 10^9 numbers", f"{wide}WIDTH 9\nPOINTS 9\nDATA binary\n".encode()
    yield "xyz: a line of 40 MB", b"1 " * 20_000_000
    yield "xyz: numbers of a million digits", (b"1" * 10**6 + b" 2 3\n") * 9
    yield "xyz: 100,000 columns", (b"1 " * 10**5 + b"\n") * 5
    laughs = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))
    xml = f'<!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><e57Root>&a9;</e57Root>'.encode()
    header = struct.pack("<8sIIQQQQ", b"ASTM-E57", 1, 0, 10**4, 48, len(xml), 1024)
    yield "e57: a billion laughs", header + xml
    yield "e57: no end", struct.pack("<8sIIQQQQ", b"ASTM-E57", 1, 0, 2**60, 2**59, 2**58, 1024)


def others(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Give STL, OFF, USD and splats."""
    yield "stl: 2^32 faces", bytes(80) + b"\xff" * 4 + bytes(50)
    yield "stl: a word that never ends", b"solid " + b"facet " * 5_000_000
    yield "off: 10^12 vertices", f"OFF\n{10**12} {10**12} 0\n0 0 0\n".encode()
    yield "off: a face of 10^9 corners", b"OFF\n3 1 0\n0 0 0\n4 0 0\n0 3 0\n1000000000 0 1 2\n"
    nested = "".join(f'def "a{n}" {{\n' for n in range(3000)) + "}" * 3000
    yield "usda: 3,000 prims in each other", f"#usda 1.0\n{nested}".encode()
    yield "usda: somebody's file", f"#usda 1.0\n(subLayers = [@{SECRET}@])\n".encode()
    instancer = (
        '#usda 1.0\ndef PointInstancer "a" {\nrel prototypes = </a/b>\nint[] protoIndices = ['
        + "0, " * 99_999
        + '0]\npoint3f[] positions = [(0, 0, 0)]\ndef Sphere "b" {}\n}\n'
    )
    yield "usda: 100,000 instances", instancer.encode()
    mesh = (
        'def Mesh "m" {{\nint[] faceVertexCounts = [{0}]\nint[] faceVertexIndices = [0, 1, 2]\n'
        "point3f[] points = [(0, 0, 0), (4, 0, 0), (0, 3, 0)]\n}}\n"
    )
    yield "usda: a face of 2^31 corners", f"#usda 1.0\n{mesh.format(2**31 - 1)}".encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.usda", b"#usda 1.0\n" + b" " * 10**9)
    yield "usdz: 1 MB become 1 GB", file.getvalue()
    yield "spz: 1 MB become 1 GB", gzip.compress(bytes(10**9), 9)
    spz = struct.pack("<IIIBBBB", 0x5053474E, 2, 2**31, 3, 12, 0, 0)
    yield "spz: 2^31 splats", gzip.compress(spz + bytes(64))
    yield "splat: scales without bounds", np.full(32 * 1000, 255, np.uint8).tobytes()
    rest = "\n".join(f"property float f_rest_{n}" for n in range(10**4))
    yield (
        "splat.ply: 10,000 harmonics",
        ply(
            f"element vertex 9\n{XYZ}\n{rest}\nproperty float f_dc_0\nproperty float opacity",
            bytes(999),
        ),
    )
    yield (
        "compressed.ply: 10^9 splats in 9 chunks",
        ply(
            "element chunk 9\nproperty float min_x\nelement vertex 1000000000\nproperty uint"
            " packed_position\nproperty uint packed_rotation\nproperty uint packed_scale\nproperty uint"
            " packed_color",
            bytes(10**4),
        ),
    )


def scans(folder: Path) -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Give the format, the trick and what makes the file of every hostile scan."""
    for name, tree in gltf_tricks():
        yield "glb", name, lambda tree=tree: glb(tree)
        if len(tree["nodes"]) < 10**6 and "instances" not in name:
            yield "gltf", name, lambda tree=tree: json_of(tree)
    for place in (
        "/dev/zero",
        "../../../../etc/passwd",
        "http://127.0.0.1:9/x",
        "file:///dev/zero",
    ):
        yield "gltf", f"a buffer from {place}", lambda place=place: json_of(gltf(), place)
    yield (
        "glb",
        "JSON 10^6 deep",
        lambda: b"glTF" + struct.pack("<IIII", 2, 20 + 10**6, 10**6, 0x4E4F534A) + b"[" * 10**6,
    )
    for name, data in plies():
        yield "ply", name, lambda data=data: data
    for name, data in objs(folder):
        yield "obj", name, lambda data=data: data
    for name, data in (*clouds(folder), *others(folder)):
        suffix, _, trick = name.partition(": ")
        yield suffix, trick, lambda data=data: data


class Peak:
    """The most memory that this process and its children take together, beside what this one had."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self.most = self.before = self.process.memory_info().rss
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while not self.ended.wait(0.02):
            taken = self.process.memory_info().rss
            for child in self.process.children(recursive=True):
                try:
                    taken += child.memory_info().rss
                except psutil.Error:
                    continue
            self.most = max(self.most, taken)

    def bytes(self) -> int:
        """Return it."""
        self.ended.set()
        self.thread.join()
        return self.most - self.before


def tried(path: Path) -> dict:
    """Return how reading a scan ended, and what it took."""
    from render_agent.scene.formats.load import load_scene

    peak, began = Peak(), sum(os.times()[:4])
    try:
        told = f"read: {len(load_scene(path).points):,} points"
    except SceneError as error:
        told = f"refused: {error}"
    except BaseException as error:  # noqa: BLE001 - it is what is looked for
        told = f"{type(error).__name__}: {error}"
    seconds, taken = sum(os.times()[:4]) - began, peak.bytes()
    good = told.startswith(("read", "refused")) and "root:" not in told
    good = good and taken <= MOST_BYTES and seconds <= MOST_SECONDS
    return {"survived": good, "told": told[:300], "seconds": round(seconds, 2), "bytes": taken}


def main() -> int:
    """Try all of them; exit code 1 where one was not held."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="those whose format and trick hold this")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    began, kinds = time.monotonic(), {}
    with tempfile.TemporaryDirectory(prefix="hostile-") as folder:
        for number, (suffix, trick, make) in enumerate(scans(Path(folder))):
            if given.only and given.only not in f"{suffix} {trick}":
                continue
            path = Path(folder) / f"{number}.{suffix}"
            path.write_bytes(make())
            size = path.stat().st_size
            found = tried(path)
            path.unlink()
            row = kinds.setdefault(
                suffix,
                {"injected": 0, "survived": 0, "not_survived": [], "not_here": None, "tricks": {}},
            )
            row["injected"] += 1
            row["survived"] += found["survived"]
            row["tricks"][trick] = {"size": size, **found}
            if not found["survived"]:
                what = f"{trick}: {found['told']}, {found['seconds']} s, {found['bytes']:,} bytes"
                row["not_survived"].append({"seed": suffix, "number": number, "what": what})
            sys.stderr.write(
                f"{suffix} {trick} ({size:,} bytes): {found['seconds']} s,"
                f" {found['bytes'] / 1e6:,.0f} MB, {found['told'][:160]}\n"
            )
    for row in kinds.values():
        row["most_bytes"] = max(trick["bytes"] for trick in row["tricks"].values())
        row["most_seconds"] = max(trick["seconds"] for trick in row["tricks"].values())
    found = {
        "machine": platform.platform(),
        "seconds": round(time.monotonic() - began, 1),
        "kinds": kinds,
    }
    if given.output:
        given.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return any(row["not_survived"] for row in kinds.values())


if __name__ == "__main__":
    sys.exit(main())
