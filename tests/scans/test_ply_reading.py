"""All valid encodings of a scan in PLY give the same scene."""

import numpy as np
import pytest
from factories.scans import CORNERS, FORMATS, RGB, XYZ, mesh_ply, ply, room, sample_points

from render_agent.scans.formats.load import UNCOLOURED_NOTE, load_scene

POINTS, FACES = room()
POINTS = POINTS.astype(np.float32)
COLOURS = np.random.default_rng(1).integers(0, 256, (len(POINTS), 3))


def load(tmp_path, data, name="scan.ply"):
    path = tmp_path / name
    path.write_bytes(data)
    return load_scene(path)


@pytest.mark.parametrize("order", FORMATS)
def test_points_colours_and_faces_are_read_exactly(tmp_path, order):
    scene = load(tmp_path, mesh_ply(POINTS, FACES, COLOURS, order))
    assert np.array_equal(scene.points, POINTS)
    assert np.array_equal(scene.colours, COLOURS)
    assert np.array_equal(scene.faces, FACES)
    assert scene.points.dtype == np.float32
    assert scene.faces.dtype == np.int32
    assert scene.colours.dtype == np.uint8
    assert scene.id == "scan"
    assert scene.origin == (0, 0, 0)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("order", FORMATS)
def test_any_newline_is_accepted(tmp_path, order, newline):
    # The first byte of data looks like a newline, but belongs to the data.
    rows = [(10, *point) for point in POINTS]
    elements = [
        ("vertex", (("uchar", "quality"), *XYZ), rows),
        ("face", CORNERS, [(f,) for f in FACES]),
    ]
    scene = load(tmp_path, ply(elements, order, newline))
    assert np.array_equal(scene.points, POINTS)


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize(
    ("kind", "scale"),
    [("uchar", 1), ("float", 1 / 255), ("double", 1 / 255), ("float", 1), ("ushort", 257)],
)
def test_colours_of_any_type_are_read(tmp_path, order, kind, scale):
    channels = tuple((kind, name) for name in ("red", "green", "blue"))
    colours = COLOURS.copy()
    colours[0] = 255
    rows = [(*point, *(colour * scale)) for point, colour in zip(POINTS, colours, strict=True)]
    scene = load(
        tmp_path,
        ply([("vertex", XYZ + channels, rows), ("face", CORNERS, [(f,) for f in FACES])], order),
    )
    assert np.array_equal(scene.colours, colours)


@pytest.mark.parametrize("order", FORMATS)
def test_extra_properties_and_elements_are_skipped(tmp_path, order):
    vertex = (
        ("double", "x"),
        ("float", "nx"),
        ("double", "y"),
        ("double", "z"),
        *RGB,
        ("uchar", "alpha"),
        ("int", "label"),
    )
    rows = [(x, 0.5, y, z, 1, 2, 3, 255, -7) for x, y, z in POINTS]
    face = (
        ("float", "quality"),
        ("uchar", "uint", "vertex_index"),
        ("uchar", "float", "texcoord"),
        ("short", "flags"),
    )
    elements = [
        ("camera", (("float", "f"),), [(1.0,), (2.0,)]),
        ("strip", (("int", "int", "entries"),), [([1, 2],), ([],), ([3],)]),
        ("vertex", vertex, rows),
        ("face", face, [(0.1, f, [0.0] * 6, 3) for f in FACES]),
        ("edge", (("int", "a"),), [(1,)] * 4),
    ]
    scene = load(tmp_path, ply(elements, order))
    assert np.array_equal(scene.points, POINTS)
    assert np.array_equal(scene.faces, FACES)
    assert (scene.colours == (1, 2, 3)).all()


@pytest.mark.parametrize("order", FORMATS)
def test_faces_may_precede_vertices(tmp_path, order):
    elements = [("face", CORNERS, [(f,) for f in FACES]), ("vertex", XYZ, POINTS)]
    scene = load(tmp_path, ply(elements, order))
    assert np.array_equal(scene.points, POINTS)
    assert np.array_equal(scene.faces, FACES)


@pytest.mark.parametrize("order", FORMATS)
def test_triangles_quads_and_polygons_mixed(tmp_path, order):
    angles = np.linspace(0, 2 * np.pi, 6, endpoint=False)
    ring = np.column_stack([np.cos(angles), np.sin(angles), np.zeros(6)])
    points = np.concatenate([ring, ring + np.array([0, 0, 1])]).astype(np.float32)
    polygons = [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9], [6, 9, 10, 11], [0, 1, 7], [], [3, 4]]
    scene = load(
        tmp_path, ply([("vertex", XYZ, points), ("face", CORNERS, [(p,) for p in polygons])], order)
    )
    assert len(scene.faces) == 4 + 2 + 2 + 1
    corners = scene.points[scene.faces]
    areas = (
        np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        )
        / 2
    )
    hexagon = 3 * np.sqrt(3) / 2
    assert areas.sum() == pytest.approx(2 * hexagon + 0.5, rel=1e-5)


@pytest.mark.parametrize("order", FORMATS)
def test_cloud_has_no_faces(tmp_path, order):
    points = sample_points(POINTS, FACES, 2000).astype(np.float32)
    colours = np.random.default_rng(2).integers(0, 256, points.shape)
    rows = [(*point, *colour) for point, colour in zip(points, colours, strict=True)]
    elements = [("vertex", XYZ + RGB, rows), ("face", CORNERS, [])]
    scene = load(tmp_path, ply(elements, order))
    assert scene.is_cloud
    assert np.array_equal(scene.points, points)
    assert np.array_equal(scene.colours, colours)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
@pytest.mark.parametrize("order", FORMATS)
def test_non_finite_vertices_are_dropped_with_their_faces(tmp_path, order, bad):
    points = POINTS.copy()
    points[5, 1] = bad
    scene = load(tmp_path, mesh_ply(points, FACES, COLOURS, order))
    is_finite = np.arange(len(points)) != 5
    assert np.array_equal(scene.points, points[is_finite])
    assert np.array_equal(scene.colours, COLOURS[is_finite])
    good_faces = FACES[(FACES != 5).all(axis=1)]
    assert np.array_equal(scene.points[scene.faces], points[good_faces])


def test_coordinates_far_from_zero_stay_precise(tmp_path):
    offset = np.array([458_123.0, 5_429_876.0, 312.0])
    doubles = tuple(("double", name) for name in "xyz")
    exact = room()[0]
    data = ply([("vertex", doubles, exact + offset), ("face", CORNERS, [(f,) for f in FACES])])
    scene = load(tmp_path, data)
    assert np.allclose(scene.points + np.array(scene.origin), exact + offset, atol=1e-5)
    assert np.abs(scene.bounds).max() < 10
    assert all(value == round(value) for value in scene.origin)


def test_uncoloured_sides_differ_in_grey(tmp_path):
    scene = load(tmp_path, mesh_ply(POINTS, FACES))
    greys = {tuple(scene.colours[corner]) for corner in (0, 8, 16)}
    assert len(greys) == 3
    assert all(50 < shade[0] == shade[1] == shade[2] for shade in greys)
    assert UNCOLOURED_NOTE in scene.description


def test_uncoloured_cloud_is_shaded_deterministically(tmp_path):
    points = sample_points(POINTS, FACES, 20_000)
    data = ply([("vertex", XYZ, points)])
    scene, reloaded = load(tmp_path, data), load(tmp_path, data, "again.ply")
    assert np.array_equal(scene.colours, reloaded.colours)
    assert UNCOLOURED_NOTE in scene.description
    grey = scene.colours.astype(float).mean(axis=1)
    inner = ((scene.points > 0.3) & (scene.points < np.array([5.7, 3.7, 2.4]))).sum(axis=1) == 2
    wall = [np.abs(scene.points[:, axis]) < 1e-3 for axis in range(3)]
    shades = [np.median(grey[inner & side]) for side in wall]
    assert min(abs(a - b) for i, a in enumerate(shades) for b in shades[:i]) > 8


def test_up_axis_can_be_specified(tmp_path):
    path = tmp_path / "scan.ply"
    path.write_bytes(mesh_ply(POINTS, FACES))
    scene = load_scene(path, "kitchen", up="y")
    assert scene.id == "kitchen"
    assert np.array_equal(scene.points, POINTS[:, [0, 2, 1]] * np.float32([1, -1, 1]))
