"""STL, OFF and OBJ meshes as programs write them: colours, trailing bytes, and polygons."""

import numpy as np
import pytest
import trimesh
from factories.scans import room

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene

POINTS, FACES = room()
RED = (200, 60, 20)


def area(points, faces):
    corners = points[faces].astype(float)
    sides = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    return np.linalg.norm(np.cross(*sides), axis=1).sum() / 2


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
        (off("STCOFF", "200 60 20 255 0.5 0.5"), RED, None),
        (off("NOFF", "0 0 1", counts=" "), None, None),
        (off(face="200 60 20"), RED, None),
        (off(face="0.78431 0.23529 0.07843 1"), RED, None),
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
