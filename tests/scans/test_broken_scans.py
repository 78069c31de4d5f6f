"""No file ends in anything but a scene or one sentence that names it."""

import subprocess
import sys

import numpy as np
import pytest
from factories.scans import CORNERS, FORMATS, XYZ, mesh_ply, ply, room
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene
from render_agent.scans.scene import Scene

POINTS, FACES = room()
COLOURS = np.full((len(POINTS), 3), 90)
WHOLE = {order: mesh_ply(POINTS, FACES, COLOURS, order) for order in FORMATS}


def refusal(path):
    """Return the error's sentence, which names the file and says what to do."""
    with pytest.raises(SceneError) as caught:
        load_scene(path)
    text = str(caught.value)
    assert str(path) in text
    assert "; " in text
    assert "\n" not in text
    return text


def refused(tmp_path, data, name="scan.ply"):
    path = tmp_path / name
    path.write_bytes(data)
    return refusal(path)


def header(*lines, order="binary_little_endian"):
    return "\n".join(["ply", f"format {order} 1.0", *lines, "end_header", ""]).encode()


XYZ_LINES = ("property float x", "property float y", "property float z")
LIST_LINE = "property list uchar int vertex_indices"


def test_paths_that_are_no_file_are_refused(tmp_path):
    assert "no such file" in refusal(tmp_path / "nowhere.ply")
    assert "directory" in refusal(tmp_path)
    assert "name too long" in refusal(tmp_path / ("x" * 300 + ".ply"))
    assert "zero byte" in refusal(tmp_path / "a\0b.ply")
    assert "ordinary file" in refusal(type(tmp_path)("/dev/null"))
    loop = tmp_path / "loop.ply"
    loop.symlink_to(loop)
    refusal(loop)


def test_a_file_without_permission_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "scan.ply"
    path.write_bytes(WHOLE["ascii"])

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", denied)  # root may read any file
    assert "permission denied" in refusal(path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n" * 100, "PLY"),
        (b"ply\nformat ascii 1.0\n", "no end"),
        (header("element vertex many", *XYZ_LINES), "makes no sense"),
        (header("property float x"), "makes no sense"),
        (header("element face 1", "property list float int vertex_indices"), "makes no sense"),
        (header("element vertex 1", "property float x") + b"1234", "x, y and z"),
        (header(), "x, y and z"),
        (mesh_ply(POINTS * 0 + 3, FACES), "one place"),
        (ply([("vertex", XYZ, POINTS[:1])]), "one place"),
        (mesh_ply(POINTS * 1000, FACES), "metres"),
    ],
)
def test_malformed_scans_are_refused(tmp_path, data, told):
    assert told in refused(tmp_path, data)


def test_an_unknown_format_is_told_those_that_are_known(tmp_path):
    assert "PLY, GLB" in refused(tmp_path, b"solid x", "scan.docx")


@pytest.mark.parametrize("order", FORMATS)
def test_a_file_cut_short_anywhere_is_refused(tmp_path, order):
    whole = WHOLE[order]
    for length in np.linspace(1, len(whole) - 4, 60).astype(int):
        refused(tmp_path, whole[:length])


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize(("face", "named"), [([0, 1, 24], "24"), ([0, -1, 2], "-1")])
def test_faces_out_of_range_are_refused(tmp_path, order, face, named):
    text = refused(
        tmp_path, ply([("vertex", XYZ, POINTS), ("face", CORNERS, [([0, 1, 2],), (face,)])], order)
    )
    assert f"uses vertex {named}" in text


@pytest.mark.parametrize("order", FORMATS)
def test_a_scan_without_finite_faces_is_refused(tmp_path, order):
    assert "finite" in refused(tmp_path, mesh_ply(POINTS * np.nan, FACES, order=order))
    points = POINTS.copy()
    points[::4] = np.nan
    points[1::4] = np.nan
    assert "finite" in refused(tmp_path, mesh_ply(points, FACES, order=order))


def test_lists_with_a_wrong_length_are_refused(tmp_path):
    start = header("element vertex 24", *XYZ_LINES, "element face 2", LIST_LINE)
    points = POINTS.astype("<f4").tobytes()
    one = b"\x03" + np.array([0, 1, 2], "<i4").tobytes()
    assert "ends before" in refused(tmp_path, start + points + one + b"\xff" + one[1:])
    wide = header(
        "element vertex 24", *XYZ_LINES, "element face 2", "property list uint int vertex_indices"
    )
    lie = np.array([2**32 - 1, 0, 1, 2] * 2, "<u4").tobytes()
    assert "ends before" in refused(tmp_path, wide + points + lie)
    signed = header(
        "element vertex 24", *XYZ_LINES, "element face 2", "property list int int vertex_indices"
    )
    lie = np.array([3, 0, 1, 2, -5, 0, 1, 2], "<i4").tobytes()
    assert "-5 entries" in refused(tmp_path, signed + points + lie)


@pytest.mark.parametrize(
    ("text", "instead", "told"),
    [
        (b"6.0", b"6,0", "numbers"),
        (b"3 0 1 2\n", b"3 0 1.5 2\n", "whole number"),
        (b"3 0 1 2\n", b"3 0 nan 2\n", "whole number"),
        (b"3 0 1 2\n", b"3.5 0 1 2\n", "entries"),
    ],
)
def test_malformed_numbers_are_refused(tmp_path, text, instead, told):
    assert told in refused(tmp_path, WHOLE["ascii"].replace(text, instead))


BOMBS = {
    "vertices": (["element vertex 4000000000", *XYZ_LINES], b"\0" * 4000),
    "faces": (
        ["element vertex 24", *XYZ_LINES, "element face 4000000000", LIST_LINE],
        b"\1" * 4000,
    ),
    "empty rows": (["element vertex 999999999999999"], b"\0" * 4000),
    "unknown rows": (
        [
            "element junk 999999999999999",
            "property list uint int x",
            "element vertex 24",
            *XYZ_LINES,
        ],
        b"\0" * 4000,
    ),
    "no columns": (["element junk 999999999999999", "element vertex 24", *XYZ_LINES], b"\1" * 4000),
    "long list": (
        [
            "element vertex 24",
            *XYZ_LINES,
            "element face 1",
            "property list uint int vertex_indices",
        ],
        np.arange(24 * 3, dtype="<f4").tobytes()
        + np.array([4_000_000_000, 1, 2, 3], "<u4").tobytes(),
    ),
}

LIMITED = """
import resource, sys
from pathlib import Path
import numpy, scipy.spatial, trimesh
from render_agent.scans.formats.load import load_scene
from render_agent.errors import SceneError
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20),) * 2)
for name in sys.argv[1:]:
    try:
        load_scene(Path(name))
    except SceneError as error:
        assert "memory" not in str(error), error
        continue
    raise SystemExit(f"{name} was read")
"""


def test_nothing_is_allocated_for_a_promise(tmp_path):
    names = []
    for order in FORMATS:
        for title, (lines, body) in BOMBS.items():
            path = tmp_path / f"{order} {title}.ply"
            path.write_bytes(
                header(*lines, order=order) + (body if order != "ascii" else b"1 " * 4000)
            )
            names.append(path)
    for suffix, data in {
        "stl": b"\0" * 80 + b"\xff\xff\xff\xee" + b"\0" * 500,
        "off": b"OFF\n4000000000 4000000000 0\n0 0 0\n",
        "gltf": b'{"asset": {"version": "2.0"}, "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],'
        b'"accessors": [{"count": 4000000000, "componentType": 5126, "type": "VEC3"}]}',
    }.items():
        names.append(tmp_path / f"bomb.{suffix}")
        names[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, names)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


OFTEN = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def ends_well(path):
    """Assert that a file gives a lawful scene or is refused by its name."""
    sentence = None
    try:
        scene = load_scene(path)
    except SceneError as error:
        sentence = str(error)
    if sentence is not None:
        assert str(path) in sentence
        assert "\n" not in sentence
        return
    assert isinstance(scene, Scene)
    assert np.isfinite(scene.points).all()
    assert np.isfinite([scene.floor, scene.ceiling, *scene.bounds.ravel()]).all()
    assert (scene.bounds[0] <= scene.bounds[1]).all()
    assert scene.colours.shape == scene.points.shape
    if scene.faces is not None:
        assert 0 <= scene.faces.min() <= scene.faces.max() < len(scene.points)


LINES = st.one_of(
    st.builds("element {} {}".format, st.sampled_from(["vertex", "face", "edge"]), st.integers(0, 40)),
    st.builds("property {} {}".format, st.sampled_from(["float", "uchar", "double", "int"]), st.sampled_from("x y z red green blue".split())),
    st.builds("property list {} {} vertex_indices".format, st.sampled_from(["uchar", "char", "int", "uint"]), st.sampled_from(["int", "uint", "short", "uchar"])),
    st.sampled_from(["comment made", "obj_info", "element", "property list", ""]),
)  # fmt: skip


@OFTEN
@given(
    order=st.sampled_from(FORMATS),
    lines=st.lists(LINES, max_size=12),
    start=st.booleans(),
    body=st.one_of(
        st.binary(max_size=600),
        st.lists(st.integers(0, 6), max_size=200).map(
            lambda numbers: " ".join(map(str, numbers)).encode()
        ),
        st.lists(st.integers(0, 3), max_size=600).map(bytes),
    ),
)
def test_made_up_headers_give_a_scene_or_a_refusal(tmp_path_factory, order, lines, start, body):
    known = ["element vertex 5", *XYZ_LINES] if start else []
    path = tmp_path_factory.getbasetemp() / "made_up.ply"
    path.write_bytes(header(*known, *lines, order=order) + body)
    ends_well(path)
