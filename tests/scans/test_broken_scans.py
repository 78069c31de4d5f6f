"""Every file gives either a valid scene or a one-line error that names the file."""

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
CONTENT = {order: mesh_ply(POINTS, FACES, COLOURS, order) for order in FORMATS}


def load_error(path):
    """Return the error message, after checking that it names the file and a remedy."""
    with pytest.raises(SceneError) as error:
        load_scene(path)
    text = str(error.value)
    assert str(path) in text
    assert "; " in text
    assert "\n" not in text
    return text


def content_error(tmp_path, data, name="scan.ply"):
    path = tmp_path / name
    path.write_bytes(data)
    return load_error(path)


def header(*lines, order="binary_little_endian"):
    return "\n".join(["ply", f"format {order} 1.0", *lines, "end_header", ""]).encode()


XYZ_LINES = ("property float x", "property float y", "property float z")
LIST_LINE = "property list uchar int vertex_indices"


def test_paths_that_are_not_files_are_rejected(tmp_path):
    assert "no such file" in load_error(tmp_path / "nowhere.ply")
    assert "folder" in load_error(tmp_path)
    assert "name too long" in load_error(tmp_path / ("x" * 300 + ".ply"))
    assert "null byte" in load_error(tmp_path / "a\0b.ply")
    assert "regular file" in load_error(type(tmp_path)("/dev/null"))
    loop = tmp_path / "loop.ply"
    loop.symlink_to(loop)
    load_error(loop)


def test_file_without_permission_is_rejected(tmp_path, monkeypatch):
    path = tmp_path / "scan.ply"
    path.write_bytes(CONTENT["ascii"])

    def denied(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "open", denied)  # chmod does not stop root
    assert "permission denied" in load_error(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\x89PNG\r\n\x1a\n" * 100, "PLY"),
        (b"ply\nformat ascii 1.0\n", "incomplete"),
        (header("element vertex many", *XYZ_LINES), "invalid line"),
        (header("property float x"), "invalid line"),
        (header("element face 1", "property list float int vertex_indices"), "invalid line"),
        (header("element vertex 1", "property float x") + b"1234", "x, y and z"),
        (header(), "no vertices"),
        (mesh_ply(POINTS * 0 + 3, FACES), "coincide"),
        (ply([("vertex", XYZ, POINTS[:1])]), "coincide"),
        (mesh_ply(POINTS * 1000, FACES), "metres"),
    ],
)
def test_malformed_scans_are_rejected(tmp_path, data, message):
    assert message in content_error(tmp_path, data)


def test_unknown_format_error_lists_the_supported_ones(tmp_path):
    assert "PLY, GLB" in content_error(tmp_path, b"solid x", "scan.docx")


@pytest.mark.parametrize("order", FORMATS)
def test_truncated_files_are_rejected(tmp_path, order):
    content = CONTENT[order]
    for length in np.linspace(1, len(content) - 4, 60).astype(int):
        content_error(tmp_path, content[:length])


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize(("face", "vertex"), [([0, 1, 24], "24"), ([0, -1, 2], "-1")])
def test_faces_out_of_range_are_rejected(tmp_path, order, face, vertex):
    text = content_error(
        tmp_path, ply([("vertex", XYZ, POINTS), ("face", CORNERS, [([0, 1, 2],), (face,)])], order)
    )
    assert f"vertex {vertex}," in text


@pytest.mark.parametrize("order", FORMATS)
def test_scan_without_finite_faces_is_rejected(tmp_path, order):
    assert "finite" in content_error(tmp_path, mesh_ply(POINTS * np.nan, FACES, order=order))
    points = POINTS.copy()
    points[::4] = np.nan
    points[1::4] = np.nan
    assert "finite" in content_error(tmp_path, mesh_ply(points, FACES, order=order))


def test_lists_with_invalid_lengths_are_rejected(tmp_path):
    start = header("element vertex 24", *XYZ_LINES, "element face 2", LIST_LINE)
    points = POINTS.astype("<f4").tobytes()
    face = b"\x03" + np.array([0, 1, 2], "<i4").tobytes()
    assert "ends before" in content_error(tmp_path, start + points + face + b"\xff" + face[1:])
    wide = header(
        "element vertex 24", *XYZ_LINES, "element face 2", "property list uint int vertex_indices"
    )
    faces = np.array([2**32 - 1, 0, 1, 2] * 2, "<u4").tobytes()
    assert "ends before" in content_error(tmp_path, wide + points + faces)
    signed = header(
        "element vertex 24", *XYZ_LINES, "element face 2", "property list int int vertex_indices"
    )
    faces = np.array([3, 0, 1, 2, -5, 0, 1, 2], "<i4").tobytes()
    assert "-5 entries" in content_error(tmp_path, signed + points + faces)


@pytest.mark.parametrize(
    ("text", "replacement", "message"),
    [
        (b"6.0", b"6,0", "not a number"),
        (b"3 0 1 2\n", b"3 0 1.5 2\n", "not an integer"),
        (b"3 0 1 2\n", b"3 0 nan 2\n", "not an integer"),
        (b"3 0 1 2\n", b"3.5 0 1 2\n", "entries"),
    ],
)
def test_malformed_numbers_are_rejected(tmp_path, text, replacement, message):
    assert message in content_error(tmp_path, CONTENT["ascii"].replace(text, replacement))


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
    raise SystemExit(f"{name} was read without an error")
"""


def test_declared_sizes_do_not_cause_allocations(tmp_path):
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
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, names)], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout == process.stderr == ""


EXAMPLES = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def check_outcome(path):
    """Assert that a file gives a valid scene, or an error that names the file."""
    message = None
    try:
        scene = load_scene(path)
    except SceneError as error:
        message = str(error)
    if message is not None:
        assert str(path) in message
        assert "\n" not in message
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


@EXAMPLES
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
def test_random_headers_give_a_scene_or_an_error(tmp_path_factory, order, lines, start, body):
    prefix = ["element vertex 5", *XYZ_LINES] if start else []
    path = tmp_path_factory.getbasetemp() / "random.ply"
    path.write_bytes(header(*prefix, *lines, order=order) + body)
    check_outcome(path)
