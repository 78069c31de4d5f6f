"""Every format: a note names each declaration of a file that the reader does not use."""

import struct

import numpy as np
import pytest
from factories.clouds import e57_fields, write_e57, write_las, write_pcd, write_usd
from factories.gltf import Gltf, splat_gltf
from factories.scans import CORNERS, XYZ, mesh_ply, room, sample_points
from factories.scans import ply as ply_file
from factories.splats import compressed_ply, original_ply, random_splat, spz

from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.readers import FORMATS

POINTS, FACES = room()
CLOUD = np.round(sample_points(POINTS, FACES, 200), 3)
COLOURS = np.full((200, 3), 90, np.uint8)


def ply(path):
    text = mesh_ply(POINTS, FACES, order="ascii").decode()
    text = text.replace("property list", "property float wear\nproperty list", 1)
    head, _, body = text.partition("end_header\n")
    rows = body.splitlines()
    count = len(POINTS)
    rows[count:] = ["0 " + row for row in rows[count:]]
    path.write_text(head + "end_header\n" + "\n".join(rows) + "\n")


def splat_ply(path):
    data = original_ply(random_splat(), order="ascii").decode()
    head, _, body = data.partition("end_header\n")
    rows = "\n".join(f"{row} 1" for row in body.splitlines())
    path.write_text(head + "property float wear\nend_header\n" + rows + "\n")


def packed_ply(path):
    data = compressed_ply(random_splat())
    path.write_bytes(
        data.replace(b"end_header\n", b"element wear 1\nproperty uchar a\nend_header\n") + b"\0"
    )


def gltf(path):
    document = Gltf(extensionsUsed=["wear"])
    document.mesh(POINTS, FACES)
    path.write_bytes(document.gltf() if path.suffix == ".gltf" else document.glb())


def splat_glb(path):
    document = splat_gltf(random_splat())
    attributes = document.tree["meshes"][0]["primitives"][0]["attributes"]
    attributes["wear"] = document.accessor(np.zeros(300))
    path.write_bytes(document.glb())


def obj(path):
    rows = [f"v {x:g} {y:g} {z:g}" for x, y, z in POINTS] + ["wear 1 2"]
    path.write_text("\n".join([*rows, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in FACES), ""]))


def mtl(path):
    obj(path)
    path.write_text(f"mtllib {path.stem}.mtl\nusemtl a\n" + path.read_text().replace("wear", "#"))
    path.with_suffix(".mtl").write_text("newmtl a\nKd 1 0 0\nmap_wear 1\n")


def stl(path):
    corners = POINTS[FACES].astype("<f4").reshape(-1, 9)
    rows = b"".join(struct.pack("<12fH", 0, 0, 0, *row, at) for at, row in enumerate(corners))
    path.write_bytes(b"\0" * 80 + struct.pack("<I", len(FACES)) + rows)


def off(path):
    rows = [" ".join(f"{each:g}" for each in row) for row in POINTS]
    faces = [f"3 {a} {b} {c} 1 2 3 4 5" for a, b, c in FACES]
    path.write_text("\n".join(["OFF", f"{len(POINTS)} {len(FACES)} 0", *rows, *faces, ""]))


def las(path):
    import laspy

    write_las(path, CLOUD, COLOURS)
    file = laspy.read(path)
    file.add_extra_dim(laspy.ExtraBytesParams("wear", np.uint8))
    file.write(path)


def e57(path):
    fields = e57_fields(CLOUD, COLOURS)
    fields |= {name: np.arange(200) for name in ("rowIndex", "columnIndex")}
    write_e57(path, [(fields, np.eye(3), (0, 0, 0))])
    # pye57 cannot write other fields, so one is renamed, in a page of 1020 bytes and its checksum.
    pages = [path.read_bytes()[at : at + 1020] for at in range(0, path.stat().st_size, 1024)]
    pages = [page.replace(b"rowIndex", b"pageWear") for page in pages]
    path.write_bytes(b"".join(page + struct.pack(">I", crc32c(page)) for page in pages))


def crc32c(data):
    """Return the CRC-32C of E57 pages."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def pcd(path):
    write_pcd(path, CLOUD, kind="ascii")
    lines = path.read_text().splitlines()
    field = {"FIELDS": "wear", "SIZE": "4", "TYPE": "F", "COUNT": "1"}
    at = next(number for number, line in enumerate(lines) if line.startswith("DATA"))
    head = [
        f"{line} {field[line.split()[0]]}" if line.split()[0] in field else line
        for line in lines[: at + 1]
    ]
    path.write_text("\n".join([*head, *(f"{line} 0" for line in lines[at + 1 :]), ""]))


def usd(path):
    stage = write_usd(path, POINTS, FACES)
    from pxr import Usd

    stage = Usd.Stage.Open(str(path)) if stage is None else stage
    stage.DefinePrim("/extra", "BasisCurves")
    stage.GetRootLayer().Save()


def usdz(path):
    from pxr import Sdf, UsdUtils

    usd(path.with_suffix(".usdc"))
    UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(str(path.with_suffix(".usdc"))), str(path))


def text(path):
    rows = "\n".join(f"{x} {y} {z} 1" for x, y, z in CLOUD)
    path.write_text(f"x y z wear\n{rows}\n")


def packed_spz(path):
    import gzip

    data = bytearray(gzip.decompress(spz(random_splat())))
    data[14] |= 2
    path.write_bytes(gzip.compress(bytes(data)))


FILES = {
    "a.ply": (ply, "face wear"),
    "splat.ply": (splat_ply, "wear"),
    "a.compressed.ply": (packed_ply, "wear"),
    "a.glb": (gltf, "wear"),
    "splat.glb": (splat_glb, "wear"),
    "a.gltf": (gltf, "wear"),
    "a.obj": (obj, "statement wear"),
    "b.obj": (mtl, "map_wear"),
    "a.stl": (stl, "attribute bytes"),
    "a.off": (off, "further numbers of the faces"),
    "a.las": (las, "wear"),
    "a.laz": (las, "wear"),
    "a.e57": (e57, "pageWear"),
    "a.pcd": (pcd, "wear"),
    "a.usd": (usd, "BasisCurves"),
    "a.usda": (usd, "BasisCurves"),
    "a.usdc": (usd, "BasisCurves"),
    "a.usdz": (usdz, "BasisCurves"),
    "a.xyz": (text, "wear"),
    "a.pts": (text, "wear"),
    "a.txt": (text, "wear"),
    "a.csv": (text, "wear"),
    "a.asc": (text, "wear"),
    "a.spz": (packed_spz, "SPZ extensions"),
}


def test_every_format_is_tested():
    # A .splat file has no header, so it cannot declare anything.
    suffixes = {suffix for each in FORMATS for suffix in each.suffixes} - {".splat"}
    assert suffixes == {name[name.index(".") :] for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_unused_declarations_are_named(tmp_path, name):
    write, expected = FILES[name]
    path = tmp_path / name
    write(path)
    ignored = [note for note in load_scene(path).notes if note.startswith("ignored: ")]
    assert len(ignored) == 1
    assert expected in ignored[0]


NAN_COLOURS = np.ones((len(POINTS), 3), np.float32)
NAN_COLOURS[2, 1] = np.nan


def nan_ply(path, faces=FACES):
    channels = tuple(("float", name) for name in ("red", "green", "blue"))
    rows = np.column_stack([POINTS, NAN_COLOURS])
    surface = [("face", CORNERS, [(face,) for face in faces])] if len(faces) else []
    path.write_bytes(ply_file([("vertex", XYZ + channels, rows), *surface], "ascii"))


def nan_off(path):
    rows = [" ".join(map(str, row)) for row in np.column_stack([POINTS, NAN_COLOURS]).tolist()]
    faces = ["3 " + " ".join(map(str, face)) for face in FACES]
    path.write_text("\n".join(["COFF", f"{len(POINTS)} {len(FACES)} 0", *rows, *faces]))


def nan_gltf(path):
    document = Gltf()
    document.mesh(POINTS, FACES, COLOR_0=NAN_COLOURS)
    path.write_bytes(document.glb())


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.ply", nan_ply),
        ("cloud.ply", lambda path: nan_ply(path, ())),
        ("a.off", nan_off),
        ("a.glb", nan_gltf),
        ("a.usda", lambda path: write_usd(path, POINTS, FACES, colours=NAN_COLOURS)),
    ],
)
def test_colours_with_nan_are_noted(tmp_path, name, write):
    write(tmp_path / name)
    notes = load_scene(tmp_path / name).notes
    assert "ignored: 1 colour with NaN (now black)" in notes


def test_long_and_many_names_are_shortened():
    declared = Declared([f"property {number}" for number in range(40)])
    declared.use("property 0")
    assert "property 12, 27 more" in declared.notes[0]
    assert len(Declared(["x" * 500]).notes[0]) < 60
    assert Declared(["a\nb"]).notes == ("ignored: a?b",)
