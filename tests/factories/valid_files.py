"""Small valid files of every format that the program reads, as bytes."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from factories.clouds import e57_fields, write_e57, write_las, write_pcd, write_usd
from factories.gltf import Gltf, splat_gltf, spz_gltf
from factories.scans import CORNERS, FORMATS, RGB, XYZ, mesh_ply, ply, room, sample_points
from factories.splats import compressed_ply, dot_splat, original_ply, random_splat, spz


@cache
def scans(suffix: str) -> tuple[bytes, ...]:
    """Return scans in the format of a file suffix."""
    points, faces = room()
    colours = np.full((len(points), 3), 90)
    if suffix == "ply":
        return _plys(points, faces, colours)
    if suffix in CLOUDS:
        return _written(CLOUDS[suffix])
    import trimesh

    mesh = trimesh.Trimesh(points, faces, process=False)
    mesh.visual.vertex_colors = np.column_stack([colours, np.full(len(colours), 255)]).astype(
        np.uint8
    )
    made = [
        _exported(mesh, "gltf" if suffix == "gltf" else suffix),
        *([_exported(mesh, "stl_ascii")] if suffix == "stl" else []),
    ]
    if suffix in ("glb", "gltf"):
        files = _animated_gltf(points, faces), splat_gltf(random_splat(20)), _spz_gltf()
        made += [each.glb() if suffix == "glb" else each.gltf() for each in files]
    if suffix == "off":
        rows = [f"{x:g} {y:g} {z:g} 200 60 20 255" for x, y, z in points]
        rows += [f"3 {a} {b} {c}" for a, b, c in faces]
        made.append("\n".join(["COFF", f"{len(points)} {len(faces)} 0", *rows, ""]).encode())
    if suffix in ("glb", "gltf", "obj"):
        plain = trimesh.Trimesh(points[:8], [[0, 1, 2], [2, 3, 0]], process=False)
        made += [_exported(plain, suffix), _exported(_textured_mesh(), suffix)]
    return tuple(made)


def _animated_gltf(points: np.ndarray, faces: np.ndarray) -> Gltf:
    """Return a glTF with a skin, morph targets, instances, a hidden node and an emission image."""
    instances = {"TRANSLATION": 0}
    made = Gltf(
        {"mesh": 0, "skin": 0, "weights": [0.5]},
        {"translation": [1, 0, 0]},
        {"mesh": 1, "extensions": {"EXT_mesh_gpu_instancing": {"attributes": instances}}},
        {"mesh": 1, "extensions": {"KHR_node_visibility": {"visible": False}}},
        scenes=[{"nodes": [0, 1, 2, 3]}],
        skins=[{"joints": [1]}],
    )
    made.accessor([[0, 0, 0], [5, 0, 0]])
    joints = made.accessor(np.zeros((len(points), 4)), "u1")
    weights = np.zeros((len(points), 4))
    weights[:, 0] = 1
    made.mesh(points, faces, targets=[points * 0.1], JOINTS_0=joints, WEIGHTS_0=weights)
    material = {
        "pbrMetallicRoughness": {"baseColorFactor": [0, 0, 0, 1]},
        "emissiveFactor": [1, 1, 1],
        "emissiveTexture": {"index": made.image((200, 60, 20))},
    }
    made.mesh(points[:8], [[0, 1, 2], [2, 3, 0]], material, TEXCOORD_0=points[:8, :2])
    return made


def _spz_gltf() -> Gltf:
    splat = random_splat(20)
    return spz_gltf(spz(splat), len(splat.points))


def _textured_mesh() -> object:
    """Return a mesh with two materials: a texture with transparent texels, and a plain colour."""
    import trimesh
    from PIL import Image
    from trimesh.visual.material import PBRMaterial
    from trimesh.visual.texture import TextureVisuals

    points, faces = room()
    shades = np.random.default_rng(2).integers(0, 256, (8, 8, 4)).astype(np.uint8)
    materials = (
        PBRMaterial(
            baseColorTexture=Image.fromarray(shades), alphaMode="MASK", alphaCutoff=0.5,
            baseColorFactor=[255, 200, 100, 255],
        ),
        PBRMaterial(baseColorFactor=[90, 200, 255, 255]),
    )  # fmt: skip
    parts = []
    for own, material in zip((faces[:-1], faces[-1:]), materials, strict=True):
        visual = TextureVisuals(uv=points[:, :2] / 3, material=material)
        parts.append(trimesh.Trimesh(points, own, visual=visual, process=False))
    return trimesh.Scene(parts)


def _las(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    write_las(folder / "7.las", points, colours, colours[:, 0])
    write_las(folder / "2.las", points, colours, form=2)
    return [folder / "7.las", folder / "2.las"]


def _laz(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    write_las(folder / "a.laz", points, colours, colours[:, 0])
    return [folder / "a.laz"]


def _e57(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    scans = [(e57_fields(points, colours, colours[:, 0]), np.eye(3), (1, 2, 3))]
    write_e57(folder / "a.e57", scans)
    return [folder / "a.e57"]


def _pcd(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    kinds = ("ascii", "binary", "compressed")
    for kind in kinds:
        write_pcd(folder / f"{kind}.pcd", points, colours, kind=kind)
        write_pcd(folder / f"{kind}_i.pcd", points, intensity=colours[:, 0], kind=kind)
    return [folder / f"{kind}{end}.pcd" for kind in kinds for end in ("", "_i")]


def _columns(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    table = np.column_stack([points, colours, colours[:, 0]])
    for name, end, head, between in (
        ("a", 6, "", " "), ("b", 7, "X,Y,Z,R,G,B,Intensity", ","), ("c", 7, str(len(points)), " "), ("d", 3, "", ";"),
    ):  # fmt: skip
        np.savetxt(folder / name, table[:, :end], "%.3f", between, header=head, comments="")
    return [folder / name for name in "abcd"]


def _usd(folder: Path, points: np.ndarray, colours: np.ndarray) -> list[Path]:
    corners, faces = room()
    for name in ("a.usda", "b.usdc"):
        write_usd(folder / name, corners, faces, colours=corners / 6)
    (folder / "c.usda").write_text(USD_NETWORK)
    return [folder / "a.usda", folder / "b.usdc", folder / "c.usda"]


USD_NETWORK = """#usda 1.0
def Mesh "wall" (prepend apiSchemas = ["MaterialBindingAPI"]) {
    point3f[] points = [(0, 0, 0), (400, 0, 0), (400, 300, 0), (100, 100, 0)]
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [0, 1, 2, 3]
    rel material:binding = </M>
}
def PointInstancer "many" {
    point3f[] positions = [(0, 0, 0), (500, 0, 0)]
    int[] protoIndices = [0, 0]
    rel prototypes = </many/cube>
    def Cube "cube" { }
}
def Material "M" {
    color3f inputs:paint = (1, 0, 0)
    token outputs:surface.connect = </M/s.outputs:surface>
    def Shader "s" {
        uniform token info:id = "UsdPreviewSurface"
        color3f inputs:diffuseColor.connect = </M.inputs:paint>
        token outputs:surface
    }
}
""".replace("{", "\n{\n").replace("}", "\n}\n")


# Writers of valid files by format; each uses the format's own library.
CLOUDS = {"las": _las, "laz": _laz, "e57": _e57, "pcd": _pcd, "txt": _columns, "usd": _usd}


def _written(
    write: Callable[[Path, np.ndarray, np.ndarray], list[Path]],
) -> tuple[bytes, ...]:
    points = np.round(sample_points(*room(), 150), 3)
    colours = np.random.default_rng(1).integers(0, 256, points.shape).astype(np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        return tuple(path.read_bytes() for path in write(Path(folder), points, colours))


def _exported(mesh: object, kind: str) -> bytes:
    import trimesh

    if kind == "gltf":
        return _embedded(trimesh.Scene(mesh).export(file_type="gltf"))
    more = {"mtl_name": "material.mtl"} if kind == "obj" and isinstance(mesh, trimesh.Scene) else {}
    data = mesh.export(file_type=kind, **more)
    return data if isinstance(data, bytes) else data.encode()


def _embedded(files: dict[str, bytes]) -> bytes:
    """Return a glTF with embedded buffers."""
    import base64

    tree = json.loads(files["model.gltf"])
    for buffer in tree["buffers"]:
        content = base64.b64encode(files[buffer["uri"]]).decode()
        buffer["uri"] = f"data:application/octet-stream;base64,{content}"
    return json.dumps(tree).encode()


def _plys(points: np.ndarray, faces: np.ndarray, colours: np.ndarray) -> tuple[bytes, ...]:
    uneven = [([*face, 0],) if number % 2 else (face,) for number, face in enumerate(faces)]
    rows = [(*point, *colour) for point, colour in zip(points, colours, strict=True)]
    junk = ("junk", (("uint", "short", "some"), ("double", "one")), [([1, 2], 0.5), ([], 1)])
    return (
        *(mesh_ply(points, faces, colours, order) for order in FORMATS),
        *(ply([("vertex", XYZ, points), ("face", CORNERS, uneven)], order) for order in FORMATS),
        *(ply([junk, ("vertex", XYZ + RGB, rows)], order) for order in FORMATS),
    )


@cache
def splats() -> tuple[bytes, ...]:
    """Return splats in the formats other than PLY."""
    scene, plain = random_splat(60), random_splat(60, degree=0)
    versions = (spz(scene, version) for version in (1, 2, 3, 4))
    return (dot_splat(plain), *versions, spz(plain, 3), spz(plain, 4))


@cache
def splat_plys() -> tuple[bytes, ...]:
    """Return splats as PLY files: the original layout in every encoding, and compressed."""
    scene, plain = random_splat(60), random_splat(60, degree=0)
    original = (original_ply(plain, order) for order in FORMATS)
    return (*original, original_ply(scene), compressed_ply(scene), compressed_ply(plain))


ROWS = [
    {
        "id": 0,
        "dataset": "scannet",
        "scene_name": "scene0011_00",
        "question_type": "object_counting",
        "question": "How many chair(s) are in this room?",
        "options": None,
        "ground_truth": "3",
        "pruned": False,
    },
    {
        "id": 1,
        "dataset": "arkitscenes",
        "scene_name": "41069025",
        "question_type": "object_rel_direction_easy",
        "question": "Is the sofa left or right of the stove?",
        "options": ["A. left", "B. right"],
        "ground_truth": "B",
        "pruned": True,
    },
    {
        "id": 2,
        "dataset": "scannetpp",
        "scene_name": "room",
        "question_type": "obj_appearance_order",
        "question": "What comes first: lamp, bed, tv, door?",
        "options": ["A. lamp, bed", "B. bed, lamp", "C. tv, door", "D. door, tv"],
        "ground_truth": "D",
        "pruned": False,
    },
    {
        "id": 3,
        "dataset": "scannet",
        "scene_name": "scene0011_00",
        "question_type": "object_abs_distance",
        "question": "How far is the bed from the door, in metres?",
        "options": None,
        "ground_truth": 1.5,
        "pruned": False,
    },
]


def json_lines(rows: list[dict]) -> bytes:
    """Encode rows as JSON lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@cache
def questions(suffix: str) -> tuple[bytes, ...]:
    """Return question files with a file suffix."""
    if suffix == "jsonl":
        return (json_lines(ROWS), json_lines(ROWS[:1]))
    if suffix == "json":
        return (json.dumps(ROWS).encode(), json.dumps(ROWS[1:2], indent=1).encode())
    if suffix == "tsv":
        texts = (
            "index\tvideo\tquestion_type\tquestion\tcandidates\tanswer\n"
            "0\tscannet/scene0011_00.mp4\tobject_counting\tHow many?\t\t3\n"
            "1\tscannet/scene0011_00.mp4\troute_planning\tWhich way?\t['A. left', 'B. back']\tB\n",
            "id\tdataset\tscene_name\tquestion_type\tquestion\toptions\tground_truth\tpruned\n"
            '0\tscannetpp\troom\tobject_counting\t"How ""many""?"\tnan\t3\tTrue\n',
        )
        return tuple(text.encode() for text in texts)
    return _parquets()


def _parquets() -> tuple[bytes, ...]:
    import pyarrow
    from pyarrow import parquet

    texts = [row | {"ground_truth": str(row["ground_truth"])} for row in ROWS]
    tables = [pyarrow.Table.from_pylist(texts), pyarrow.Table.from_pylist(texts[:1])]
    found = []
    for table in tables:
        for compression in ("none", "snappy"):
            file = io.BytesIO()
            parquet.write_table(table, file, compression=compression)
            found.append(file.getvalue())
    return tuple(found)


TRUTH_BOX = {
    "number": 0, "kind": "table", "room": 0, "on": None, "centroid": [1.0, 2.0, 0.5],
    "axesLengths": [2.0, 1.0, 0.5], "normalizedAxes": [0, 1, 0, -1, 0, 0, 0, 0, 1],
    "min": [0.5, 1.0, 0.25], "max": [1.5, 3.0, 0.75], "longest_cm": 200.0,
}  # fmt: skip

TRUTH = {
    "dataset": "rooms", "scene": "room", "kind": "flat", "room_size": 12.0, "room_center": [2, 1.5, 1.3],
    "height": 2.6, "rooms": [{"purpose": "kitchen", "area": 12.0, "polygon": [[0, 0], [4, 0], [4, 3], [0, 3]]}],
    "ways": [[0, 0, 1, 1]], "object_counts": {"table": 1, "chair": 1},
    "object_bbox": {"table": [TRUTH_BOX], "chair": [TRUTH_BOX | {"number": 1, "on": 0}]},
    "distances": [["chair", "table", 0.0]],
}  # fmt: skip

ANNOTATIONS = {
    "room7": {
        "room_size": 12.5,
        "room_center": [0, 0, 1],
        "object_counts": {"table": 1, "chair": 2},
        "object_bbox": {"table": [TRUTH_BOX], "chair": [TRUTH_BOX | {"centroid": [3, 2, 0.5]}]},
    },
    "text": {
        "dataset": "scannetpp",
        "room_size": "9.5",
        "room_center": "[0, 0, 1]",
        "object_counts": "{'table': 1}",
        "object_bbox": {"table": [TRUTH_BOX]},
    },
}
