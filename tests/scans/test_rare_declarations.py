"""Rare declarations are used or named in a note; files whose content does not match their suffix are rejected."""

import gzip
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from factories.clouds import e57_fields, write_e57, write_las
from factories.gltf import Gltf
from PIL import Image

from render_agent.errors import SceneError
from render_agent.scans.formats.load import UNCOLOURED_NOTE, load_scene

SIZE = (4.0, 3.0, 2.5)
POINTS = np.array([[x, y, z] for z in (0, 2.5) for y in (0, 3) for x in (0, 4)], float)
FACES = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]  # fmt: skip
GRID = np.stack(np.meshgrid(*[np.linspace(0, side, 12) for side in SIZE]), axis=-1).reshape(-1, 3)
RED = np.tile([200, 50, 50], (len(GRID), 1))


def load_error(path):
    with pytest.raises(SceneError) as error:
        load_scene(path)
    return str(error.value)


def rows(table, *columns):
    return "".join(" ".join(map(str, [*row, *columns])) + "\n" for row in table)


def ply(comment="", properties="", *values, scale=1, more_faces=()):
    faces = [*([3, *face] for face in FACES), *more_faces]
    return (
        f"ply\nformat ascii 1.0\n{comment}element vertex 8\nproperty float x\nproperty float y\nproperty float z\n"
        f"{properties}element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
        f"{rows(POINTS * scale, *values)}{rows(faces)}"
    ).encode()


def obj(head="", tail="", scale=1, first=1):
    vertices = "".join(f"v {x * scale} {z * scale} {-y * scale}\n" for x, y, z in POINTS)
    return f"{head}{vertices}{''.join(f'f {a + first} {b + first} {c + first}' + chr(10) for a, b, c in FACES)}{tail}".encode()


def stl(header=b"", attribute=0, scale=1):
    record = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    triangles = np.zeros(len(FACES), record)
    triangles["corners"], triangles["attribute"] = (POINTS * scale)[np.array(FACES)], attribute
    return header.ljust(80) + struct.pack("<I", len(FACES)) + triangles.tobytes()


def ascii_stl():
    text = "solid a\n"
    for face in FACES:
        text += f"facet normal 0 0 0\nouter loop\n{rows([['vertex', *POINTS[v]] for v in face])}endloop\nendfacet\n"
    return f"{text}endsolid a\n".upper().encode()


def off(kind="OFF", *values, more_faces=()):
    faces = [*([3, *face] for face in FACES), *more_faces]
    return f"{kind}\n8 {len(faces)} 0\n{rows(POINTS, *values)}{rows(faces)}".encode()


def pcd(viewpoint="0 0 0 1 0 0 0", table=GRID, width=None):
    return (
        f"VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {width or len(table)}\nHEIGHT 1\n"
        f"VIEWPOINT {viewpoint}\nPOINTS {len(table)}\nDATA ascii\n{rows(table)}"
    ).encode()


WITH_GAPS = np.where(np.arange(len(GRID))[:, None] % 4 == 1, np.nan, GRID)
DROPPED = "432 of 1,728 points have invalid coordinates and were dropped"

NOTES = {
    "ply half transparent": ("ply", ply("", "property uchar alpha\n", 128), "ignored: alpha"),
    "ply lists of vertices": ("ply", ply("", "property list uchar float weights\n", 2, 0.5, 0.5), "ignored: weights"),
    "ply opaque": ("ply", ply("", "property uchar alpha\n", 255), None),
    "ply lines as faces": ("ply", ply(more_faces=[[2, 0, 1], [0]]), "ignored: faces with fewer than 3 corners"),
    "ply byte order mark": ("ply", b"\xef\xbb\xbf" + ply(), None),
    "off lines as faces": ("off", off(more_faces=[[2, 0, 1]]), "ignored: faces with fewer than 3 corners"),
    "off texture": ("off", off("STOFF", 0, 1), "ignored: texture coordinates"),
    "obj opacity map": ("obj", obj("mtllib a.mtl\nusemtl m\n"), "ignored: map_d"),
    "obj far coordinates": ("obj", obj("mtllib a.mtl\nusemtl m\n", "vt 0 0\nf 1/9 2/1 4/1\n"), "texture coordinates that do not exist"),
    "obj spectral colour": ("obj", obj("mtllib a.mtl\nusemtl spectral\n"), "ignored: kd spectral"),
    "stl colours": ("stl", stl(b"", 0x8000 | 25 << 10), "ignored: attribute bytes of the triangles"),
    "stl header colour": ("stl", stl(b"COLOR=\xc8\x32\x32\xff"), "ignored: colour in the header"),
    "stl capitals": ("stl", ascii_stl(), None),
    "pcd viewpoint": ("pcd", pcd("1 0 0 1 0 0 0"), "ignored: viewpoint"),
    "pcd no viewpoint": ("pcd", pcd("0.0 0 0 1 0 0 0"), None),
    "pcd two counts": ("pcd", pcd(width=1800), "ignored: 72 points beyond POINTS"),
    "pcd gaps": ("pcd", pcd(table=WITH_GAPS), DROPPED),
    "text gaps": ("xyz", rows(WITH_GAPS).encode(), DROPPED),
    "text between points": ("xyz", (rows(GRID) + "end of scan\n# note\n" + rows(GRID)).encode(), "ignored: 1 line of text between the points"),
    "text other header": ("csv", ("a b c\n" + rows(GRID)).encode(), "assumed the columns x, y, z (the file names them a, b, c)"),
    "text count": ("pts", ("1800\n" + rows(GRID)).encode(), "it declares 1,800 points, but has only 1,728"),
    "text old line ends": ("xyz", rows(GRID).replace("\n", "\r").encode(), None),
    "text quoted": ("csv", ('"x","y","z"\n' + re.sub(r"\S+", r'"\g<0>"', rows(GRID)).replace(" ", ",")).encode(), None),
    "text without a name": ("csv", (",x,y,z\n" + re.sub("(?m)^(?=.)", "7 ", rows(GRID))).encode(), "ignored: column 1"),
    "text right count": ("pts", ("1728\n" + rows(GRID)).encode(), None),
}  # fmt: skip


@pytest.mark.parametrize("name", NOTES)
def test_declaration_is_used_or_named(tmp_path, name):
    suffix, content, note = NOTES[name]
    path = tmp_path / f"scan.{suffix}"
    path.write_bytes(content)
    (tmp_path / "a.mtl").write_text(
        "newmtl m\nmap_d mask.png\nnewmtl spectral\nKd spectral a.rfl\n"
    )
    scene = load_scene(path)
    assert np.abs(np.ptp(scene.points, axis=0) - SIZE).max() < 1e-4
    unrelated = ("assumed the columns x, y, z (not", "12 faces", "13 faces", UNCOLOURED_NOTE)
    notes = [text for text in scene.notes if not text.startswith(unrelated)]
    assert len(notes) == (note is not None)
    assert note is None or note in notes[0]


@pytest.mark.parametrize(
    ("suffix", "content", "metres"),
    [
        ("ply", ply("comment unit: mm\n", scale=1000), 0.001),
        ("ply", ply("obj_info Units in inches\n", scale=100), 0.0254),
        ("obj", obj("# File units = centimeters\n", scale=100), 0.01),
        ("obj", obj("#units: feet\n", scale=3), 0.3048),
        ("stl", stl(b"UNITS=mm", scale=1000), 0.001),
        ("csv", ("X [cm],Y [cm],Z [cm]\n" + rows(GRID * 100)).encode(), 0.01),
        ("txt", ("# x(mm) y(mm) z(mm)\n" + rows(GRID * 1000)).encode(), 0.001),
        ("txt", ("x_ft y_ft z_ft\n" + rows(GRID * 3)).encode(), 0.3048),
        ("txt", ("x_ft y_ft z_m\n" + rows(GRID)).encode(), 1.0),
        ("ply", ply("comment the units are unknown\n"), 1.0),
        ("obj", obj("# units\n# unit vector m\n"), 1.0),
    ],
)
def test_unit_of_a_comment(tmp_path, suffix, content, metres):
    path = tmp_path / f"scan.{suffix}"
    path.write_bytes(content)
    scene = load_scene(path)
    assert scene.frame.metres == metres
    assert ("unit" in scene.frame.assumed) is (metres == 1.0)


@pytest.mark.parametrize("comment", ["up y", "up axis: Y", "Vertical Axis: y", "up_axis = +y"])
def test_up_axis_of_a_comment(tmp_path, comment):
    path = tmp_path / "scan.ply"
    path.write_bytes(ply(f"comment {comment}\n"))
    scene = load_scene(path)
    assert (scene.frame.up, scene.frame.assumed) == ("y", ("unit",))
    assert np.allclose(np.ptp(scene.points, axis=0), (4, 2.5, 3))


def test_up_axis_of_an_obj_comment(tmp_path):
    path = tmp_path / "scan.obj"
    path.write_bytes(obj("# Up axis: Z\n"))
    assert load_scene(path).frame.up == "z"


def test_polypaint_of_zbrush(tmp_path):
    path = tmp_path / "scan.obj"
    path.write_bytes(obj(tail=f"#MRGB {'ffc83c14' * 5}\n#MRGB {'ffc83c14' * 3}\n"))
    assert np.abs(load_scene(path).colours.astype(int) - (200, 60, 20)).max() <= 1


def test_material_libraries_of_one_statement(tmp_path):
    path = tmp_path / "scan.obj"
    (tmp_path / "a.mtl").write_text("newmtl one\nKd 0 1 0\n")
    (tmp_path / "b.mtl").write_text("newmtl two\nKd 1 0 0\nmap_Ks shine.png\n")
    path.write_bytes(obj("mtllib a.mtl b.mtl\nusemtl two\n"))
    assert {Path(file).name for file in load_scene(path).files} >= {"a.mtl", "b.mtl"}
    assert load_scene(path).colours[:, 0].min() > load_scene(path).colours[:, 1:].max()
    (tmp_path / "b.mtl").unlink()
    assert any("'b.mtl' does not exist" in note for note in load_scene(path).notes)
    (tmp_path / "a.mtl b.mtl").write_text("newmtl two\nKd 0 0 1\n")
    assert load_scene(path).colours[:, 2].min() > load_scene(path).colours[:, :2].max()
    path.write_bytes(obj("mtllib my own.mtl\nusemtl two\n"))
    notes = [note for note in load_scene(path).notes if "materials" in note]
    assert notes == ["materials were skipped: 'my own.mtl' does not exist"]


@pytest.mark.parametrize(("form", "dropped"), [(7, 288), (3, 144)])
def test_las_noise_is_dropped(tmp_path, form, dropped):
    import laspy

    path = tmp_path / "scan.las"
    write_las(path, GRID, RED, form=form)
    las = laspy.read(path)
    las.z[::12] = 90.0
    las.classification = np.where(np.arange(len(GRID)) % 12 == 0, 7, 2).astype(np.uint8)
    las.classification[6::12] = 18
    las.write(path)
    scene = load_scene(path)
    assert len(scene.points) == len(GRID) - dropped
    assert scene.bounds[1, 2] < 3
    assert f"{dropped} points classified as noise were dropped" in scene.notes


def test_las_coordinate_system_in_an_extended_record(tmp_path):
    import laspy

    path = tmp_path / "scan.las"
    write_las(path, GRID / 0.3048, RED)
    las = laspy.read(path)
    records = [("other", 5, b"x" * 70), ("LASF_Projection", 2112, b'PROJCS["x",UNIT["foot",0.3048]]\0')]  # fmt: skip
    las.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR(user, number, "", data) for user, number, data in records])  # fmt: skip
    las.write(path)
    scene = load_scene(path)
    assert scene.frame.metres == 0.3048
    assert np.abs(np.ptp(scene.points, axis=0) - SIZE).max() < 0.01


def test_e57_images_and_invalid_points_are_named(tmp_path):
    import pye57
    from pye57 import libe57

    path = tmp_path / "scan.e57"
    fields = e57_fields(GRID, RED)
    fields["cartesianInvalidState"] = (np.arange(len(GRID)) % 4 == 1).astype(np.uint8)
    write_e57(path, [(fields, np.eye(3), (0, 0, 0))])
    assert "432 points marked as invalid were dropped" in load_scene(path).notes
    file = pye57.E57(str(path), "w")
    file.write_scan_raw(e57_fields(GRID, RED))
    image = libe57.StructureNode(file.image_file)
    image.set("guid", libe57.StringNode(file.image_file, "{1}"))
    file.image_file.root()["images2D"].append(image)
    file.close()
    assert load_scene(path).notes == ("ignored: images",)


@pytest.mark.parametrize("suffix", ["ply", "glb", "obj", "stl", "off", "xyz", "las", "usda", "splat", "spz", "bin"])  # fmt: skip
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "Git LFS pointer"),
        (b"\n<!DOCTYPE html>\n<html><body>404</body></html>", "HTML page"),
        (gzip.compress(ply()), "compressed with gzip"),
        (b"PK\x03\x04" + b"\0" * 60, "ZIP archive"),
        (b"7z\xbc\xaf\x27\x1c" + b"\0" * 60, "an archive"),
    ],
)
def test_other_content_is_named(tmp_path, suffix, content, reason):
    path = tmp_path / f"scan.{suffix}"
    path.write_bytes(content)
    assert reason in load_error(path)


@pytest.mark.parametrize("header", ["lat,lon,height", "Longitude Latitude z"])
def test_text_columns_in_degrees_are_refused(tmp_path, header):
    path = tmp_path / "scan.csv"
    path.write_text(f"{header}\n" + rows(GRID))
    assert "longitude and latitude" in load_error(path)
    path.write_text(f"x y z {header.split(',')[0].split()[0]}\n" + rows(GRID, 48.1))
    assert len(load_scene(path).points) == len(GRID)


def test_text_without_numbers_shows_its_first_line(tmp_path):
    path = tmp_path / "scan.txt"
    path.write_text("chair 1 2 3\n" * 9)
    assert "first line is 'chair 1 2 3'" in load_error(path)


def test_obj_vertices_with_a_weight_before_the_colour(tmp_path):
    path = tmp_path / "scan.obj"
    for numbers, colour in (("1 0.8 0.2 0.2", (204, 51, 51)), ("1 0.8 0.2 1", (255, 204, 51))):
        lines = obj().decode().splitlines()
        path.write_text(
            "\n".join(f"{line} {numbers}" if line[0] == "v" else line for line in lines)
        )
        assert (load_scene(path).colours == colour).all()


def test_obj_texture_replaces_vertex_colours_with_a_note(tmp_path):
    path = tmp_path / "scan.obj"
    Image.new("RGB", (2, 2), (200, 50, 50)).save(tmp_path / "red.png")
    (tmp_path / "b.mtl").write_text("newmtl red\nmap_Kd red.png\n")
    lines = obj("mtllib b.mtl\nusemtl red\nvt 0 0\n").decode().splitlines()
    lines = [f"{line} 0 1 0\n" if line.startswith("v ") else f"{line}\n" for line in lines]
    faces = [f"f {' '.join(f'{v + 1}/1' for v in face)}\n" for face in FACES]
    path.write_text("".join([line for line in lines if not line.startswith("f ")] + faces))
    scene = load_scene(path)
    assert (scene.colours == (200, 50, 50)).all()
    assert "ignored: vertex colours (the texture is used)" in scene.notes


def test_damaged_image_is_named(tmp_path):
    path = tmp_path / "scan.obj"
    (tmp_path / "c.mtl").write_text("newmtl c\nmap_Kd notes.png\n")
    (tmp_path / "notes.png").write_text("text")
    path.write_bytes(obj("mtllib c.mtl\nusemtl c\n"))
    assert any(
        note.startswith("a texture 'notes.png' was skipped") for note in load_scene(path).notes
    )


def test_obj_with_a_fractional_index_is_refused(tmp_path):
    path = tmp_path / "scan.obj"
    path.write_bytes(obj(tail="f 1.5 2 3\n"))
    assert "not a whole number" in load_error(path)


def test_glb_with_another_suffix(tmp_path):
    gltf = Gltf()
    gltf.mesh(POINTS[:, [0, 2, 1]].astype(np.float32), FACES)
    (tmp_path / "scan.ply").write_bytes(gltf.glb())
    scene = load_scene(tmp_path / "scan.ply")
    assert (scene.frame.up, len(scene.faces)) == ("y", len(FACES))
