"""PLY files as programs write them: colours on faces, textures, strips, concave polygons, and unknown content."""

import io

import numpy as np
import pytest
from factories.scans import CORNERS, FORMATS, RGB, XYZ, area, mesh_ply, ply, room, sample_points
from PIL import Image

from render_agent.errors import SceneError
from render_agent.scans.formats import triangulation
from render_agent.scans.formats.load import load_scene, read_scan
from render_agent.scans.formats.triangulation import triangulate

POINTS, FACES = room()
POINTS = POINTS.astype(np.float32)
RED, BLUE = (200, 60, 20), (20, 60, 200)


def write(tmp_path, data, name="scan.ply"):
    path = tmp_path / name
    path.write_bytes(data)
    return path


def with_comments(data, *comments):
    head = b"".join(f"comment {text}\n".encode() for text in comments)
    return data.replace(b"comment made for a test\n", head)


def median_colour(scene):
    return np.median(scene.colours.astype(int), axis=0).tolist()


@pytest.mark.parametrize("order", FORMATS)
def test_unknown_content_is_noted(tmp_path, order):
    elements = [
        ("camera", (("float", "f"),), [(1.0,)]),
        ("empty", (("float", "f"),), []),
        ("vertex", (*XYZ, ("float", "nx"), ("int", "label")), [(*p, 0, 7) for p in POINTS]),
        ("face", (*CORNERS, ("short", "flags")), [(face, 3) for face in FACES]),
    ]
    scene = load_scene(write(tmp_path, ply(elements, order)))
    assert "ignored: element camera, label, face flags" in scene.notes
    assert any("label" in line for line in scene.description)
    assert not any("ignored" in note for note in known_notes(tmp_path, order))


def known_notes(tmp_path, order):
    colours = np.full((len(POINTS), 3), 90)
    return load_scene(write(tmp_path, mesh_ply(POINTS, FACES, colours, order), "known.ply")).notes


@pytest.mark.parametrize("order", FORMATS)
def test_rows_beyond_the_declared_ones_are_noted(tmp_path, order):
    points = sample_points(POINTS, FACES, 60)
    data = ply([("vertex", XYZ, [tuple(p) for p in points])], order)
    lying = data.replace(b"element vertex 60", b"element vertex 50")
    scene = load_scene(write(tmp_path, lying))
    amount = "30 numbers" if order == "ascii" else "120 bytes"
    assert len(scene.points) == 50
    assert f"ignored: {amount} after the last row" in scene.notes
    padded = load_scene(write(tmp_path, data + b"\n"))
    assert not any("ignored" in note for note in padded.notes)


@pytest.mark.parametrize("faces", [(), FACES])
def test_file_without_vertices_is_named(tmp_path, faces):
    elements = [("vertex", XYZ, []), ("face", CORNERS, [(face,) for face in faces])]
    with pytest.raises(SceneError, match="it has no vertices"):
        load_scene(write(tmp_path, ply(elements)))


def test_many_unknown_properties_are_counted(tmp_path):
    extra = tuple(("uchar", f"scalar_{i}\x1b[2J") for i in range(40))
    data = ply(
        [("vertex", XYZ + extra, [(*p, *[0] * 40) for p in sample_points(POINTS, FACES, 50)])]
    )
    (note,) = [n for n in load_scene(write(tmp_path, data)).notes if n.startswith("ignored")]
    assert note.endswith("28 more")
    assert note.isprintable()


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize("is_mixed", [False, True])
def test_colours_on_faces_are_used(tmp_path, order, is_mixed):
    faces = [list(face) for face in FACES]
    if is_mixed:  # rows of different lengths
        faces.append([0, 1, 2, 3])
    rows = [(9, face, *(RED if i % 2 else BLUE), 255) for i, face in enumerate(faces)]
    properties = (("int", "n"), *CORNERS, *RGB, ("uchar", "alpha"))
    path = write(tmp_path, ply([("vertex", XYZ, POINTS), ("face", properties, rows)], order))
    scene = load_scene(path)
    assert area(scene.points, scene.faces) > 0.99 * area(POINTS, FACES)
    assert np.array_equal(scene.colours[scene.faces][:, 0], scene.colours[scene.faces][:, 2])
    assert {tuple(colour) for colour in scene.colours.tolist()} == {RED, BLUE}
    assert scene.colours[scene.faces[1, 0]].tolist() == list(RED)
    assert "ignored: face n" in scene.notes


def test_colours_on_vertices_win_unless_they_are_never_filled(tmp_path):
    for colours, expected in (
        (np.arange(3 * len(POINTS)).reshape(-1, 3) % 256, None),
        (np.full((len(POINTS), 3), 255), list(RED)),
    ):
        vertices = ("vertex", XYZ + RGB, [(*p, *c) for p, c in zip(POINTS, colours, strict=True)])
        faces = ("face", CORNERS + RGB, [(face, *RED) for face in FACES])
        scene = load_scene(write(tmp_path, ply([vertices, faces])))
        if expected is None:
            assert np.array_equal(scene.colours, colours)
            assert "ignored: face red, face green, face blue" in scene.notes
        else:
            assert median_colour(scene) == expected


def image(*colours):
    buffer = io.BytesIO()
    Image.fromarray(np.array([colours], np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("order", FORMATS)
@pytest.mark.parametrize("coordinates_in", ["face", "s t", "U V", "texture_u texture_v"])
def test_textured_ply(tmp_path, order, coordinates_in):
    (tmp_path / "a b.png").write_bytes(image(RED, BLUE))
    if coordinates_in == "face":
        vertices = ("vertex", XYZ, POINTS)
        rows = [(face, [0.25, 0.5] * len(face)) for face in [*FACES.tolist(), [0, 1, 2, 3]]]
        faces = ("face", (*CORNERS, ("uchar", "float", "texcoord")), rows)
    else:
        names = tuple(("float", name) for name in coordinates_in.split())
        vertices = ("vertex", XYZ + names, [(*point, 0.25, 0.5) for point in POINTS])
        faces = ("face", CORNERS, [(face,) for face in FACES])
    data = with_comments(ply([vertices, faces], order), "TextureFile a b.png")
    scene = load_scene(write(tmp_path, data))
    assert scene.texture is not None
    assert median_colour(scene) == list(RED)
    assert not any("ignored" in note for note in scene.notes)


def test_second_texture_and_vertical_axis_of_texture_coordinates(tmp_path):
    (tmp_path / "one.png").write_bytes(image(RED))
    buffer = io.BytesIO()
    Image.fromarray(np.array([[BLUE], [RED]], np.uint8)).save(buffer, "PNG")
    (tmp_path / "two.png").write_bytes(buffer.getvalue())
    properties = (*CORNERS, ("uchar", "float", "texcoord"), ("int", "texnumber"))
    rows = [(face, [0.5, 0.75] * 3, int(i >= 6)) for i, face in enumerate(FACES)]
    data = ply([("vertex", XYZ, POINTS), ("face", properties, rows)], "ascii")
    data = with_comments(data, "TextureFile one.png", "TextureFile two.png")
    scene = load_scene(write(tmp_path, data))
    assert scene.colours[scene.faces[0, 0]].tolist() == list(RED)
    assert scene.colours[scene.faces[-1, 0]].tolist() == list(BLUE)


def test_texture_that_cannot_be_shown_is_named(tmp_path):
    properties = (*CORNERS, ("uchar", "float", "texcoord"))
    rows = [(face, [0.5, 0.5] * 3) for face in FACES]
    data = ply([("vertex", XYZ, POINTS), ("face", properties, rows)])
    scene = load_scene(write(tmp_path, with_comments(data, "TextureFile lost.png")))
    assert any("lost.png" in note and "skipped" in note for note in scene.notes)
    assert any("ignored: face texcoord, texture lost.png" in note for note in scene.notes)
    assert len(scene.faces) == len(FACES)
    scene = load_scene(write(tmp_path, data))
    assert "ignored: face texcoord" in scene.notes


L_SHAPE = [(0, 0), (4, 0), (4, 1), (1, 1), (1, 3), (0, 3)]
ARROW = [(0, 0), (2, 2), (0, 1), (-2, 2)]
COMB = [(0, 0), (9, 0), *((x, 3 if x % 2 else 1) for x in range(9, -1, -1))]
STRAIGHT = [(0, 0), (1, 0), (2, 0), (4, 0), (4, 4), (2, 4), (2, 1), (0, 1)]
SPIRAL = [(0, 0), (6, 0), (6, 6), (1, 6), (1, 2), (4, 2), (4, 4), (3, 4), (3, 3), (2, 3), (2, 5),
          (5, 5), (5, 1), (0, 1)]  # fmt: skip


def shoelace(ring):
    x, y = np.array(ring, float).T
    return abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2


@pytest.mark.parametrize("ring", [L_SHAPE, ARROW, COMB, STRAIGHT, SPIRAL])
@pytest.mark.parametrize("first", [0, 2, 3])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_concave_polygons_keep_their_area_and_side(ring, first, is_reversed):
    ring = np.roll(ring, -first, axis=0)
    flat = np.column_stack([ring, np.zeros(len(ring))])[:: -1 if is_reversed else 1]
    turn, _ = np.linalg.qr(np.random.default_rng(first).normal(size=(3, 3)))
    points = np.concatenate([flat @ turn.T, flat + np.array([0, 0, 5])])
    polygons = np.arange(2 * len(ring)).reshape(2, -1)
    faces = triangulate(polygons, points)[0]
    assert len(faces) == 2 * (len(ring) - 2)
    assert area(points, faces) == pytest.approx(2 * shoelace(ring))
    normals = np.cross(
        *(points[faces[len(ring) - 2 :, i]] - points[faces[len(ring) - 2 :, 0]] for i in (1, 2))
    )
    assert len(set(np.sign(normals[np.abs(normals[:, 2]) > 1e-9, 2]))) == 1


def test_large_and_degenerate_polygons_end(monkeypatch):
    monkeypatch.setattr(triangulation, "MAX_COMPARISONS", 4_000_000)
    angle = np.linspace(0, 2 * np.pi, 480, endpoint=False)
    radius = 2 + np.sin(40 * angle)
    star = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), 0 * angle])
    faces = triangulate(np.arange(len(star))[None], star)[0]
    assert area(star, faces) == pytest.approx(shoelace(star[:, :2]))
    random = np.random.default_rng(1).normal(size=(200, 3))  # crosses itself
    assert triangulate(np.arange(200)[None], random)[0].shape == (198, 3)
    assert triangulate(np.zeros((3, 5), int), random)[0].shape == (9, 3)
    assert triangulate(np.arange(5)[None], np.full((5, 3), np.nan))[0].shape == (3, 3)


def test_concave_faces_with_invalid_vertices_are_rejected(tmp_path):
    data = ply([("vertex", XYZ, POINTS), ("face", CORNERS, [([0, 1, 2, 900],)])])
    with pytest.raises(SceneError, match="vertex 900"):
        load_scene(write(tmp_path, data))


@pytest.mark.parametrize("order", FORMATS)
def test_triangle_strips(tmp_path, order):
    points = [(x, y, 0.01 * x) for x in range(5) for y in range(2)]
    strips = [([0, 1, 2, 3, 4, 5, -1, 6, 7, 8, 9],), ([4, 5, 6, 7],)]
    data = ply(
        [("vertex", XYZ, points), ("tristrips", (("int", "int", "vertex_indices"),), strips)], order
    )
    scene = load_scene(write(tmp_path, data))
    normals = np.cross(
        *(scene.points[scene.faces[:, i]] - scene.points[scene.faces[:, 0]] for i in (1, 2))
    )
    assert len(scene.faces) == 8
    assert len(set(np.sign(normals[:, 2]))) == 1
    assert scene.notes == () or not any("ignored" in note for note in scene.notes)


@pytest.mark.parametrize(
    ("line", "last"), [("\n", "\r\n"), ("\r\n", "\n"), ("\r", "\n"), ("\r\n", "\r\n")]
)
def test_mixed_line_ends_in_the_header(tmp_path, line, last):
    head, _, body = mesh_ply(POINTS, FACES).partition(b"end_header\n")
    data = head.replace(b"\n", line.encode()) + b"end_header" + last.encode() + body
    assert np.array_equal(load_scene(write(tmp_path, data)).points, POINTS)


def test_names_in_capitals(tmp_path):
    properties = tuple((kind, name.capitalize()) for kind, name in XYZ + RGB)
    data = ply(
        [("Vertex", properties, [(*p, *RED) for p in sample_points(POINTS, FACES, 500)])], "ascii"
    )
    scene = load_scene(write(tmp_path, data))
    assert median_colour(scene) == list(RED)
    assert scene.is_cloud


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        ("ushort", 257),
        ("float", 257),
        ("double", 257),
        ("int", 1),
        ("float", 1 / 255),
        ("uint", 16843009),
    ],
)
def test_colour_range_is_that_of_the_whole_column(tmp_path, kind, scale):
    points = sample_points(POINTS, FACES, 3000)
    levels = np.tile(RED, (len(points), 1))
    levels[:1500] = 0
    properties = XYZ + tuple((kind, name) for _, name in RGB)
    rows = [(*point, *(level * scale)) for point, level in zip(points, levels, strict=True)]
    scene = load_scene(write(tmp_path, ply([("vertex", properties, rows)])))
    assert np.array_equal(scene.colours, levels)


def test_filtered_colours_may_slightly_exceed_255(tmp_path):
    points = sample_points(POINTS, FACES, 500)
    rows = [(*point, *RED) for point in points[1:]] + [(*points[0], 255.4, 0, 0)]
    properties = XYZ + tuple(("float", name) for _, name in RGB)
    scene = load_scene(write(tmp_path, ply([("vertex", properties, rows)])))
    assert np.median(scene.colours, axis=0).tolist() == list(RED)


SHAPE = ("opacity", "scale_0", "scale_1", "scale_2", "rot_0", "rot_1", "rot_2", "rot_3")


@pytest.mark.parametrize(("axis", "up"), [("z", "z"), ("Y", "y"), ("-y", "-y")])
def test_nerfstudio_splats(tmp_path, axis, up):
    shape = tuple(("float", name) for name in SHAPE)
    rows = [(*p, 5, -4, -4, -4, 1, 0, 0, 0, *RED) for p in sample_points(POINTS, FACES, 300)]
    data = with_comments(
        ply([("vertex", XYZ + shape + RGB, rows)]),
        "Generated by Nerfstudio 1.1.5",
        f"Vertical Axis: {axis}",
        "SplatRenderMode: mip",
    )
    scan = read_scan(write(tmp_path, data))
    assert (scan.up, scan.gaussians is not None) == (up, True)
    assert scan.notes == ("ignored: SplatRenderMode: mip",)
    assert np.abs(np.median(scan.colours.astype(int), axis=0) - RED).max() <= 1


def test_texture_of_no_face_does_not_replace_colours(tmp_path):
    """All faces use the second image, which is missing."""
    (tmp_path / "one.png").write_bytes(image(RED))
    vertices = ("vertex", XYZ + RGB, [(*point, *BLUE) for point in POINTS])
    properties = (*CORNERS, ("uchar", "float", "texcoord"), ("int", "texnumber"))
    rows = [(face, [0.5, 0.5] * 3, 1) for face in FACES]
    data = with_comments(
        ply([vertices, ("face", properties, rows)]), "TextureFile one.png", "TextureFile two.png"
    )
    scene = load_scene(write(tmp_path, data))
    assert median_colour(scene) == list(BLUE)
    assert len(scene.points) == len(POINTS)
    (ignored,) = [note for note in scene.notes if note.startswith("ignored")]
    for name in ("face texcoord", "face texnumber", "texture one.png", "texture two.png"):
        assert name in ignored
    assert "vertex colours" not in ignored


def test_texture_replaces_vertex_colours_with_a_note(tmp_path):
    (tmp_path / "red.png").write_bytes(image(RED))
    vertices = ("vertex", XYZ + RGB, [(*point, *BLUE) for point in POINTS])
    properties = (*CORNERS, ("uchar", "float", "texcoord"))
    faces = ("face", properties, [(face, [0.5, 0.5] * 3) for face in FACES])
    data = with_comments(ply([vertices, faces]), "TextureFile red.png")
    scene = load_scene(write(tmp_path, data))
    assert median_colour(scene) == list(RED)
    assert any("vertex colours" in note for note in scene.notes)


def test_wrong_byte_order_is_named(tmp_path):
    data = ply([("vertex", XYZ, sample_points(POINTS, FACES, 500))], "binary_big_endian")
    with pytest.raises(SceneError, match="byte order"):
        load_scene(write(tmp_path, data.replace(b"big_endian", b"little_endian")))
