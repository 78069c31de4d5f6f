"""STL, OFF and OBJ meshes as programs write them: colours, trailing bytes, and polygons."""

import numpy as np
import pytest
import trimesh
from factories.scans import area, room
from PIL import Image

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.textured import obj_file
from render_agent.scans.formats.textured.image_files import ImageError, Siblings

POINTS, FACES = room()
RED = (200, 60, 20)


def stl(attribute=0, header=b"made by a test"):
    table = np.zeros(
        len(FACES), [("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("bytes", "<u2")]
    )
    table["corners"], table["bytes"] = POINTS[FACES], attribute
    return header.ljust(80, b"\0") + len(FACES).to_bytes(4, "little") + table.tobytes()


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (stl(), None),
        (stl(header=b"solid made by a test"), None),
        (stl() + b"\0" * 7, "ignored: 7 bytes after the last triangle"),
        (stl(np.arange(len(FACES))), "ignored: attribute bytes of the triangles"),
    ],
)
def test_binary_stl(tmp_path, data, note):
    path = tmp_path / "a.stl"
    path.write_bytes(data)
    scene = load_scene(path)
    assert np.allclose(scene.points[scene.faces], POINTS[FACES])
    assert [n for n in scene.notes if n.startswith("ignored")] == ([note] if note else [])


def stl_with_attributes(lengths):
    """Return a binary STL file with attribute bytes behind each triangle, as the format defines them."""
    data, size = stl(np.asarray(lengths)), 50
    triangles = [data[84 + at : 84 + at + size] for at in range(0, len(data) - 84, size)]
    attributes = [bytes(range(1, length + 1)) for length in lengths]
    pairs = zip(triangles, attributes, strict=True)
    return data[:84] + b"".join(triangle + more for triangle, more in pairs)


@pytest.mark.parametrize("lengths", [[4] * 12, [50] * 12, [0] * 11 + [7], [3, 0, 250] * 4])
def test_stl_attribute_bytes_are_skipped(tmp_path, lengths):
    """Regression test: of twelve faces with attribute bytes, four were read."""
    (tmp_path / "a.stl").write_bytes(stl_with_attributes(lengths))
    scene = load_scene(tmp_path / "a.stl")
    assert np.allclose(scene.points[scene.faces], POINTS[FACES])
    assert "ignored: attribute bytes of the triangles" in scene.notes


def test_stl_with_unclear_attribute_bytes_is_refused(tmp_path):
    (tmp_path / "a.stl").write_bytes(stl_with_attributes([9] * 12) + b"more")
    with pytest.raises(SceneError, match="attribute bytes"):
        load_scene(tmp_path / "a.stl")
    colours = stl(np.arange(12) + 1000) + b"more"
    (tmp_path / "a.stl").write_bytes(colours)
    assert len(load_scene(tmp_path / "a.stl").faces) == 12


def test_ascii_and_incomplete_stl(tmp_path):
    path = tmp_path / "a.stl"
    path.write_text(trimesh.Trimesh(POINTS, FACES, process=False).export(file_type="stl_ascii"))
    assert area(load_scene(path).points, load_scene(path).faces) == pytest.approx(
        area(POINTS, FACES)
    )
    path.write_bytes(stl()[:-10])
    with pytest.raises(SceneError, match="before the last of its 12 triangles"):
        load_scene(path)


def off(kind="OFF", vertex="", face="", counts="\n"):
    rows = [f"{kind}{counts}# a comment\n{len(POINTS)} {len(FACES)} 0"]
    if counts == " ":
        rows = [f"{kind} {len(POINTS)} {len(FACES)} 0 # a comment"]
    rows += [f"{x:g} {y:g} {z:g} {vertex}" for x, y, z in POINTS]
    rows += [f"3 {a} {b} {c} {face}" for a, b, c in FACES]
    return "\n".join([*rows, ""])


@pytest.mark.parametrize(
    ("text", "colour", "note"),
    [
        (off("COFF", "200 60 20 255"), RED, None),
        (off("COFF", "0.78431 0.23529 0.07843 1.0"), RED, None),
        (off("COFF", "200 60 20"), RED, None),
        (off("CNOFF", "0 0 1 200 60 20 255"), RED, None),
        (off("NCOFF", "200 60 20 255 0 0 1"), RED, None),  # MeshLab
        (off("CSTOFF", "200 60 20 255 0.5 0.5"), RED, "ignored: texture coordinates"),
        (off("STCOFF", "200 60 20 255 0.5 0.5"), RED, "ignored: texture coordinates"),
        (off("NOFF", "0 0 1", counts=" "), None, None),
        (off(face="200 60 20"), RED, None),
        (off(face="0.78431 0.23529 0.07843 1"), RED, None),
        (off() + "0 0 0\n", None, "ignored: 1 line after the last face"),
        (off(face="7"), None, "ignored: colour map indices of the faces"),
    ],
)
def test_off_colours(tmp_path, text, colour, note):
    path = tmp_path / "a.off"
    path.write_text(text)
    scene = load_scene(path)
    assert np.allclose(scene.points[scene.faces], POINTS[FACES], atol=1e-4)
    if colour is not None:
        assert np.abs(scene.colours.astype(int) - colour).max() <= 1
    assert [n for n in scene.notes if n.startswith("ignored")] == ([note] if note else [])


L_SHAPE = [(0, 0), (4, 0), (4, 1), (1, 1), (1, 3), (0, 3)]


def test_off_concave_polygons_keep_their_area(tmp_path):
    path = tmp_path / "a.off"
    rows = [f"{x} {y} {z}" for z in (0, 2) for x, y in L_SHAPE]
    path.write_text(
        "\n".join(["OFF", "12 3 0", *rows, "6 0 1 2 3 4 5", "4 6 7 8 9", "6 6 7 8 9 10 11"])
    )
    scene = load_scene(path)
    assert area(scene.points, scene.faces) == pytest.approx(6 + 6 + 3.5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("OFF BINARY\n", "binary"),
        ("OFF\n3 1 0\n0 0 0\n", "ends before"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 9\n", "vertex 9"),
        ("OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n5 0 1 2\n", "fewer vertices"),
        ("OFF\n3 1 0\n0 0\n1 0\n0 1\n3 0 1 2\n", "three coordinates"),
        ("solid a\n", "OFF"),
        ("OFF\n", "counts"),
    ],
)
def test_damaged_off_is_rejected(tmp_path, text, reason):
    path = tmp_path / "a.off"
    path.write_text(text)
    with pytest.raises(SceneError, match=reason):
        load_scene(path)


@pytest.mark.parametrize("scale", [1, 257, 1 / 255])
def test_obj_vertex_colours_of_any_range(tmp_path, scale):
    path = tmp_path / "a.obj"
    colour = " ".join(f"{level * scale:.6g}" for level in RED)
    rows = [f"v {x:g} {y:g} {z:g} {colour}" for x, y, z in POINTS]
    rows += ["f {} {} {}".format(*(face + 1)) for face in FACES]
    path.write_text("\n".join([*rows, ""]))
    assert np.abs(load_scene(path).colours.astype(int) - RED).max() <= 1


def write_obj(path, rows, mtl=None):
    if mtl is not None:
        path.with_suffix(".mtl").write_text(mtl)
        rows = [f"mtllib {path.stem}.mtl", *rows]
    path.write_text("\n".join([*rows, ""]))
    return path


@pytest.mark.parametrize("corner", ["{0}", "{0}/{1}", "{0}//{1}", "{0}/{1}/{1}"])
def test_obj_negative_indices_count_from_their_own_line(tmp_path, corner):
    rows = []
    for shift in (0, 10):
        rows += [f"v {x + shift:g} {y:g} {z:g}" for x, y, z in POINTS]
        rows += ["vt 0 0", "vn 0 0 1"]
        rows += [
            "f " + " ".join(corner.format(at - len(POINTS), -1) for at in face) for face in FACES
        ]
    scene = load_scene(write_obj(tmp_path / "a.obj", rows), up="z")
    assert np.ptp(scene.points[scene.faces].reshape(-1, 3), axis=0) == pytest.approx((16, 4, 2.7))
    assert area(scene.points, scene.faces) == pytest.approx(2 * area(POINTS, FACES))


QUAD_AREAS = {(1, 2, 3, 4): 3.5, (1, 3, 4, 6): 3.0}  # of corners of L_SHAPE


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    "extra_corners", [[], [(1, 2, 3)], [(1, 2, 3, 4)], [(1, 2, 3), (1, 3, 4, 6)]]
)
def test_obj_concave_polygons_keep_their_area(tmp_path, sign, extra_corners):
    rows = [f"v {x} {y} {z}" for z in (0, 2) for x, y in L_SHAPE]
    faces = [tuple(range(1, 7)), tuple(range(12, 6, -1)), *extra_corners]
    count = 0 if sign > 0 else 13
    rows += ["f " + " ".join(str(at - count) for at in face) for face in faces]
    scene = load_scene(write_obj(tmp_path / "a.obj", rows), up="z")
    expected = 12 + 2 * (len(extra_corners) > 0 and len(extra_corners[0]) == 3)
    expected += sum(QUAD_AREAS[face] for face in extra_corners if len(face) == 4)
    assert area(scene.points, scene.faces) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mtl", "colour"),
    [
        ("Kd 0 0 0\nKe 1 0 0", (255, 0, 0)),
        ("Ke 0.2 0.4 0.6\nKd 0 0 0", (51, 102, 153)),
        ("Kd 0 0 0\nmap_Ke blue.png", (0, 0, 255)),
        ("Kd 0 0 0\nmap_Kd blue.png\nmap_Ke lost.png", (0, 0, 255)),
    ],
)
def test_obj_emission_is_the_colour_of_a_black_material(tmp_path, mtl, colour):
    Image.new("RGB", (2, 2), (0, 0, 255)).save(tmp_path / "blue.png")
    rows = [f"v {x:g} {y:g} {z:g}" for x, y, z in POINTS]
    rows += ["vt 0.5 0.5", "usemtl a"]
    rows += ["f {}/1 {}/1 {}/1".format(*(face + 1)) for face in FACES]
    scene = load_scene(write_obj(tmp_path / "a.obj", rows, f"newmtl a\n{mtl}\n"))
    assert np.abs(np.median(scene.colours.astype(int), axis=0) - colour).max() <= 1


@pytest.mark.parametrize(
    "name",
    [
        "Küche/Wand.png",
        "ku\u0308che\\WAND.PNG",
        "K%C3%BCche/Wand.png",
        "D:\\data\\scan\\Küche\\wand.png",
        "./küche/./wand.png",
        '"Küche/Wand.png"',
        "Küche/Wand.png # baked",
    ],
)
def test_images_are_found_by_similar_names(tmp_path, name):
    (tmp_path / "Küche").mkdir()
    Image.new("RGB", (2, 2), (0, 0, 255)).save(tmp_path / "Küche" / "Wand.png")
    rows = [f"v {x:g} {y:g} {z:g}" for x, y, z in POINTS]
    rows += ["vt 0.5 0.5", "usemtl a"]
    rows += ["f {}/1 {}/1 {}/1".format(*(face + 1)) for face in FACES]
    scene = load_scene(write_obj(tmp_path / "a.obj", rows, f"newmtl a\nmap_Kd {name}\n"))
    assert np.median(scene.colours, axis=0).tolist() == [0, 0, 255]


@pytest.mark.parametrize("name", ["../SECRET.png", "C:\\..\\secret.png", "link/secret.png"])
def test_similar_names_stay_inside_the_folder(tmp_path, name):
    folder = tmp_path / "scan"
    folder.mkdir()
    Image.new("RGB", (2, 2), (0, 0, 255)).save(tmp_path / "secret.png")
    (folder / "Link").symlink_to(tmp_path)
    with pytest.raises(ImageError):
        Siblings(folder).read(name)


OBJ_FORMS = {
    "tabs and indents": "\tv\t0 0 0\n  v 4 0 0\nv 4 3 0 # corner\nv 0 3 0\nf\t1 2 3 4 # floor\n",
    "continued line": "v 0 0 0\nv 4 0 0\nv 4 3 0\nv 0 3 0\nf 1 2 \\\n3 4\n",
    "carriage returns": "v 0 0 0\rv 4 0 0\rv 4 3 0\rv 0 3 0\rf 1 2 3 4\r",
    "mixed corners": "v 0 0 0\nv 4 0 0\nvt 0 0\nvn 0 0 1\nv 4 3 0\nv 0 3 0\nf 1 2/1 3//1 4/1/1",
    "trailing slashes": "v 0 0 0\nv 4 0 0\nv 4 3 0\nv 0 3 0\nvt 0 0\nf 1/1/ 2/1/ 3/1/\nf 1// 3// 4//\n",
    "weights": "v 0 0 0 1\nv 4 0 0 1\nv 4 3 0 1\nv 0 3 0 1\nf 1 2 3 4\n",
    "faces among vertices": "v 0 0 0\nv 4 0 0\nv 4 3 0\nf 1 2 3\nv 0 3 0\nf 1 3 4\n",
}


@pytest.mark.parametrize("name", OBJ_FORMS)
def test_obj_forms_of_lines(tmp_path, name):
    path = tmp_path / "a.obj"
    path.write_bytes(OBJ_FORMS[name].encode())
    scene = load_scene(path, up="z")
    assert area(scene.points, scene.faces) == pytest.approx(12)
    assert scene.texture is None
    assert len(scene.faces) == 2


def test_obj_is_the_same_in_blocks_of_any_size(tmp_path, monkeypatch):
    rows = []
    for shift in (0, 10):
        rows += [f"v {x + shift:g} {y:g} {z:g}" for x, y, z in POINTS]
        rows += [f"usemtl paint {shift}", "s off"]
        rows += ["f " + " ".join(str(at - len(POINTS)) for at in face) for face in FACES]
        rows += ["f 1 2 3 4", "f 1 2 3 4 5"]
    path = write_obj(tmp_path / "a.obj", rows, "newmtl paint 10\nKd 1 0 0\n")
    expected = load_scene(path)
    monkeypatch.setattr(obj_file, "BLOCK_BYTES", 50)
    blocks = load_scene(path)
    for name in ("points", "faces", "colours"):
        assert np.array_equal(getattr(expected, name), getattr(blocks, name))
    assert any("material paint 0 (not found)" in note for note in blocks.notes)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("v 0 0 0\nv 4 0 0\nv 4 3 0\nf 1 2 9\n", "vertex 9"),
        ("v 0 0 0\nv 4 0 0\nv 4 3 0\nf 0 2 3\n", "vertex 0"),
        ("v 0 0 0\nv 4 0 0\nv 4 3 0\nf -4 2 3\n", "vertex 0"),
        ("v 0 0\nv 4 0 0\nv 4 3 0\nf 1 2 3\n", "fewer than 3 coordinates"),
        ("v 0 0 a\nv 4 0 0\nv 4 3 0\nf 1 2 3\n", "not a number"),
        ("v 0 0 0\nv 4 0 0\nv 4 3 0\nf 1/a 2 3\n", "a"),
        ("v 0 0 0\nv 4 0 0\nl 1 2\n", "no surface, only 2 points.*statement l"),
        ("\ufeffv 0 0 0\nv 4 0 0\n", "only 2 points"),
    ],
)
def test_damaged_obj_is_rejected(tmp_path, text, reason):
    (tmp_path / "a.obj").write_text(text)
    with pytest.raises(SceneError, match=reason):
        load_scene(tmp_path / "a.obj")


@pytest.mark.parametrize("suffix", ["obj", "off"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_meshes_are_rejected_by_name(tmp_path, suffix, encoding):
    path = tmp_path / f"a.{suffix}"
    path.write_bytes("\ufeffOFF\nv 0 0 0\n".encode(encoding))
    with pytest.raises(SceneError, match="UTF-16"):
        load_scene(path)


def test_images_of_a_hugging_face_cache_are_read(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1f"
    blobs.mkdir()
    (snapshot / "maps").mkdir(parents=True)
    Image.new("RGB", (2, 2), RED).save(blobs / "aa", "PNG")
    (tmp_path / "secret.png").write_bytes((blobs / "aa").read_bytes())
    rows = [f"v {x:g} {y:g} {z:g}" for x, y, z in POINTS] + ["vt 0 0", "usemtl a"]
    rows += ["f {}/1 {}/1 {}/1".format(*(face + 1)) for face in FACES]
    (blobs / "bb").write_text("\n".join(["mtllib a.mtl", *rows, ""]))
    (blobs / "cc").write_text("newmtl a\nmap_Kd maps/red.png\n")
    for name, blob in (("maps/red.png", "aa"), ("a.obj", "bb"), ("a.mtl", "cc")):
        (snapshot / name).symlink_to(blobs / blob)
    scene = load_scene(snapshot / "a.obj")
    assert np.abs(scene.colours.astype(int) - RED).max() <= 1
    (snapshot / "maps" / "red.png").unlink()
    (snapshot / "maps" / "red.png").symlink_to(tmp_path / "secret.png")
    assert any("outside" in note for note in load_scene(snapshot / "a.obj").notes)


@pytest.mark.parametrize(
    "name",
    ["/Volumes/me/maps/red.png", "../maps/red.png", "file:///C:/maps/red.png", "MAPS%5cRed.png"],
)
def test_leading_folders_of_other_machines_are_ignored(tmp_path, name):
    (tmp_path / "scan" / "maps").mkdir(parents=True)
    (tmp_path / "scan" / "maps" / "red.png").write_bytes(b"red")
    assert Siblings(tmp_path / "scan").read(name) == b"red"


def test_names_in_the_windows_code_page(tmp_path):
    Image.new("RGB", (2, 2), RED).save(tmp_path / "Grün.png")
    (tmp_path / "a.mtl").write_bytes("newmtl Wände\nmap_Kd Grün.png\n".encode("cp1252"))
    rows = [f"v {x} {y} {z}" for x, y, z in POINTS] + ["vt 0 0", "usemtl Wände"]
    rows += ["f " + " ".join(f"{corner + 1}/1" for corner in face) for face in FACES]
    (tmp_path / "a.obj").write_bytes("\n".join(["mtllib a.mtl", *rows]).encode("cp1252"))
    scene = load_scene(tmp_path / "a.obj")
    assert np.median(scene.colours, axis=0).tolist() == list(RED)


def test_weights_of_obj_vertices_are_noted(tmp_path):
    rows = [f"v {x} {y} {z} 2" for x, y, z in POINTS]
    rows += ["f " + " ".join(str(corner + 1) for corner in face) for face in FACES]
    (tmp_path / "a.obj").write_text("\n".join(rows))
    assert "ignored: weights of vertices" in load_scene(tmp_path / "a.obj").notes
