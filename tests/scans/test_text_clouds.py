"""Text clouds as programs write them: columns are judged by names or by rows of the whole file, and notes name the rest."""

import numpy as np
import pytest
from factories.scans import block, room, sample_points

from render_agent.errors import SceneError
from render_agent.scans.formats.clouds import text_columns
from render_agent.scans.formats.load import load_scene

MESH = room(block((1, 1, 0), (2, 2, 0.75)))
POINTS = np.round(sample_points(*MESH, 3000), 3)
COUNT = len(POINTS)
RANDOM = np.random.default_rng(3)
BASE = RANDOM.integers(30, 220, (COUNT, 1))
COLOURS = np.clip(BASE + RANDOM.integers(-25, 25, (COUNT, 3)), 0, 255)  # channels are similar
LABELS = RANDOM.integers(0, 41, COUNT)
INSTANCES = RANDOM.integers(0, 900, COUNT)
AXES = np.eye(3)[RANDOM.integers(0, 3, COUNT)]


def write(tmp_path, columns, name="a.txt", *, header="", form="%g", delimiter=" ", start=b""):
    path = tmp_path / name
    np.savetxt(
        path, np.column_stack([POINTS, *columns]), form, delimiter, header=header, comments=""
    )
    path.write_bytes(start + path.read_bytes())
    return path


@pytest.mark.parametrize("places", [256, 4])
@pytest.mark.parametrize(
    ("name", "columns", "ignored"),
    [
        ("a.txt", [COLOURS, LABELS], "column 7"),
        ("a.txt", [COLOURS, LABELS, INSTANCES], "column 7, column 8"),
        ("a.txt", [COLOURS, INSTANCES], "column 7"),
        ("a.xyz", [COLOURS, np.full(COUNT, 255)], "column 7"),
        ("a.txt", [COLOURS / 255, LABELS], "column 7"),
        ("a.txt", [COLOURS * 257], None),
        ("a.txt", [COLOURS, AXES, LABELS], "column 7, column 8, column 9, column 10"),
        ("a.txt", [AXES, COLOURS, LABELS], "column 4, column 5, column 6, column 10"),
        ("a.pts", [LABELS * 6, COLOURS], None),
        ("a.txt", [LABELS, COLOURS], None),
        ("a.txt", [INSTANCES - 450, COLOURS], None),
        ("a.txt", [RANDOM.random(COUNT), COLOURS], None),
    ],
)
def test_columns_without_names(tmp_path, monkeypatch, name, columns, ignored, places):
    # Few places: rows are taken from all over a file that is too large to be looked at as a whole.
    monkeypatch.setattr(text_columns, "SAMPLED_PLACES", places)
    monkeypatch.setattr(text_columns, "START_BYTES", 1 << 14)
    scene = load_scene(write(tmp_path, columns, name))
    assert np.abs(scene.colours.astype(int) - COLOURS).max() <= 1
    assert any(note.startswith("assumed the columns x, y, z") for note in scene.notes)
    notes = [note for note in scene.notes if note.startswith("ignored")]
    assert notes == ([] if ignored is None else [f"ignored: {ignored}"])


def test_black_first_points_do_not_decide_the_range(tmp_path):
    colours = COLOURS.copy()
    colours[:2500] = 0
    for scale in (1, 257, 1 / 255):
        scene = load_scene(write(tmp_path, [colours * scale]))
        assert np.abs(scene.colours.astype(int) - colours).max() <= 1


@pytest.mark.parametrize("normals", [AXES, -AXES, np.tile([0.6, 0.0, 0.8], (COUNT, 1))])
def test_normals_are_no_colours(tmp_path, normals):
    scene = load_scene(write(tmp_path, [normals]))
    assert np.median(scene.colours) > 60
    assert "ignored: column 4, column 5, column 6" in scene.notes


@pytest.mark.parametrize(
    ("header", "columns", "ignored"),
    [
        ("X,Y,Z,Red,Green,Blue", [COLOURS * 256], None),
        ("X,Y,Z,R,G,B,A,Classification", [COLOURS, LABELS, LABELS], "a, classification"),
        ("x,y,z,label,r,g,b", [LABELS, COLOURS / 255], "label"),
        ("X,Y,Z,Nx,Ny,Nz,red,green,blue", [AXES, COLOURS], None),
        ("made by hand\nX,Y,Z,R,G,B", [COLOURS], None),
    ],
)
def test_columns_with_names(tmp_path, header, columns, ignored):
    scene = load_scene(write(tmp_path, columns, "a.csv", header=header, delimiter=","))
    assert np.abs(scene.colours.astype(int) - COLOURS).max() <= 1
    assert list(scene.notes)[:1] == ([] if ignored is None else [f"ignored: {ignored}"])


@pytest.mark.parametrize("header", ["", "x y z r g b", "//X Y Z R G B\n3000", "3000"])
def test_byte_order_mark_title_and_count(tmp_path, header):
    path = write(tmp_path, [COLOURS], "a.xyz", header=header, start=b"\xef\xbb\xbf")
    scene = load_scene(path)
    assert len(scene.points) == COUNT
    assert np.array_equal(scene.colours, COLOURS)


@pytest.mark.parametrize("delimiter", [";", " ", "\t", "; "])
def test_decimal_commas(tmp_path, delimiter):
    path = write(tmp_path, [COLOURS], "a.csv", form="%.3f", delimiter=delimiter)
    path.write_bytes(path.read_bytes().replace(b".", b","))
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS).max() < 1e-6
    assert np.array_equal(scene.colours, COLOURS)


@pytest.mark.parametrize("delimiter", [",", ", ", " , "])
def test_commas_between_integers_are_separators(tmp_path, delimiter):
    path = tmp_path / "a.csv"
    table = np.column_stack([RANDOM.integers(0, 5, (50, 3)), COLOURS[:50]])
    np.savetxt(path, table, "%d", delimiter)
    assert load_scene(path).points.max() == 4


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b"ncols 3\r\nnrows 2\r\nxllcorner 0\r\nyllcorner 0\r\ncellsize 1\r\n1 2 3\r\n4 5 6\r\n",
            "ESRI",
        ),
        (b"NCOLS        3\nNROWS 2\nCELLSIZE 1\n1 2 3\n4 5 6\n", "ESRI"),
        ("1 2 3\n4 5 6\n".encode("utf-16"), "UTF-16"),
        ("1 2 3\n4 5 6\n".encode("utf-16-le"), "UTF-16"),
    ],
)
def test_other_text_is_rejected_by_name(tmp_path, content, reason):
    path = tmp_path / "a.asc"
    path.write_bytes(content)
    with pytest.raises(SceneError, match=reason):
        load_scene(path)
