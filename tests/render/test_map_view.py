"""The map is accurate to a pixel: grid, labels, walls, furniture, camera and trail."""

import gc
import math
import weakref
from dataclasses import replace

import numpy as np
import pytest
from conftest import mostly_slow
from factories.rooms import (
    BLUE,
    CEILING,
    FLOOR,
    GREEN,
    RED,
    WALLS,
    as_cloud,
    box,
    find_pixels,
    mesh,
    room,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import distance_transform_edt

from render_agent.render.map_view.camera_path import MapPose, arrange_marks
from render_agent.render.map_view.cut_faces import FACE_COLOUR, _fill_cut_faces, cut_faces
from render_agent.render.map_view.distances import downscale, squared_distances
from render_agent.render.map_view.floor_cut import WALL_COLOUR, Storeys
from render_agent.render.map_view.map_view import TopView
from render_agent.render.map_view.overlay import GRID, GRID_STRENGTH, PAPER, SMOOTH, PlotArea, write
from render_agent.scans.camera import Camera, wrap_degrees

SIZES = [(640, 480), (1024, 1024), (333, 250)]
RED_BOX = box((2.85, 0.85, 0), (3.15, 1.15, 0.8), RED)


class CountingRenderer:
    """Wraps a renderer and counts its frames."""

    def __init__(self, renderer):
        self.renderer, self.num_frames = renderer, 0

    def draw(self, *args):
        self.num_frames += 1
        return self.renderer.draw(*args)


def read_label(image, position, candidates, size, anchor="mm", reach=7):
    """Return the candidate text that, drawn at a position, is most similar to the image there."""
    u, v = (math.floor(value) for value in position)
    left = max(u - (3 * reach if anchor == "rm" else reach), 0)
    part = np.s_[max(v - reach, 0) : v + reach + 1, left : u + reach + 1]

    def similarity(word):
        blank = Image.new("RGB", image.shape[1::-1], PAPER)
        write(blank, position, word, size, anchor=anchor, edge=None)
        greys = (Image.fromarray(np.array(each)).convert("L") for each in (blank, image))
        return abs(np.corrcoef(*(np.array(grey)[part].ravel() for grey in greys))[0, 1])

    return max(candidates, key=similarity)


def blended_with_grid(colour):
    return np.rint(np.array(colour) * (1 - GRID_STRENGTH) + np.array(GRID) * GRID_STRENGTH)


def grid_lines(row, colour):
    """Return the indices of pixels in a row that have the given colour tinted by the grid."""
    return np.flatnonzero((row == blended_with_grid(colour)).all(axis=1))


@pytest.mark.parametrize("size", SIZES)
def test_grid_lines_are_at_whole_metres(rasteriser, size):
    floor = mesh([box((-4.3, -3.1, -0.1), (5.2, 4.4, 0), FLOOR)])
    image, camera = TopView(rasteriser, size).draw(floor, None, ())
    metres = np.arange(-9.0, 10.0)
    zeros = np.zeros_like(metres)
    u = camera.project(np.column_stack([metres, zeros, zeros]), *size)[0][:, 0]
    v = camera.project(np.column_stack([zeros, metres, zeros]), *size)[0][:, 1]
    between_u, between_v = int((u[9] + u[10]) / 2), int((v[9] + v[10]) / 2)
    seen_u = grid_lines(image[between_v], FLOOR)
    seen_v = grid_lines(image[:, between_u], FLOOR)
    step = round(float(np.diff(seen_u).mean()) * camera.metres_per_pixel)
    assert step in (1, 2)
    assert seen_u.tolist() == [
        math.floor(p) for x, p in zip(metres, u, strict=True) if -4.3 < x < 5.2 and x % step == 0
    ]
    assert seen_v.tolist() == [
        math.floor(p)
        for y, p in zip(metres[::-1], v[::-1], strict=True)
        if -3.1 < y < 4.4 and y % step == 0
    ]


def test_axis_labels_give_the_position_of_a_box(rasteriser):
    size = 640, 480
    image, _ = TopView(rasteriser, size).draw(room(RED_BOX), None, ())
    plot = PlotArea.inside(*size)
    red = find_pixels(image, RED, 60)
    columns, rows = (grid_lines(image[400], FLOOR) + 0.5, grid_lines(image[:, 480], FLOOR) + 0.5)
    labels = [str(number) for number in range(-3, 8)]
    x = [int(read_label(image, (u, plot.bottom + 12), labels, 15)) for u in columns]
    y = [int(read_label(image, (plot.left - 7, v), labels, 15, "rm")) for v in rows]
    assert x == list(range(0, 5))
    assert y == list(range(2, -2, -1))
    centre_x, centre_y = (
        np.polyval(np.polyfit(columns, x, 1), red[:, 0].mean()),
        np.polyval(np.polyfit(rows, y, 1), red[:, 1].mean()),
    )
    pixel = 1 / np.diff(columns).mean()
    assert centre_x == pytest.approx(3.0, abs=pixel)
    assert centre_y == pytest.approx(1.0, abs=pixel)
    assert np.ptp(red, axis=0) + 1 == pytest.approx([0.3 / pixel] * 2, abs=2)


def wedge(top, camera):
    """Return the pixels of the camera's wedge on the map, relative to the camera."""
    image, map_camera = top.draw(room(), camera, ())
    bare, _ = top.draw(room(), None, ())
    rows, columns = np.nonzero((image != bare).any(axis=2))
    position = map_camera.project(np.array([camera.position]), *top.size)[0][0]
    offsets = np.column_stack([columns, rows]) + 0.5 - position
    return offsets[np.hypot(*offsets.T) > 20]


@pytest.mark.parametrize("yaw", mostly_slow([0, 45, 90, 180, -90, -150], 45, -150))
def test_wedge_points_in_the_viewing_direction(rasteriser, yaw):
    u, v = wedge(TopView(rasteriser, (640, 480)), Camera((2.0, 0.3, 1.6), yaw)).mean(axis=0)
    assert wrap_degrees(math.degrees(math.atan2(-v, u)) - yaw) == pytest.approx(0, abs=0.6)


def test_wedge_has_the_angle_of_the_field_of_view(rasteriser):
    camera = Camera((2.0, 0.3, 1.6), 90)
    offsets = wedge(TopView(rasteriser, (640, 480)), camera)
    far = offsets[np.hypot(*offsets.T) > 45]
    angles = np.degrees(np.arctan2(-far[:, 1], far[:, 0]))
    assert np.ptp(angles) == pytest.approx(camera.horizontal_fov(640, 480), abs=8)


def test_stops_are_numbered_at_their_positions(rasteriser):
    spots = [(0, -1.5), (4, -1.5), (4, 2), (2, 2), (0, 2), (0, 0.3), (2, 0.3), (4, 0.3)]
    trail = [Camera((x, y, 1.6), 90) for x, y in spots]
    image, map_camera = TopView(rasteriser, (640, 480)).draw(room(), trail[-1], trail[:-1])
    for number, camera in enumerate(trail, 1):
        position = map_camera.project(np.array([camera.position]), 640, 480)[0][0]
        height = 15 if number == len(trail) else 13
        assert read_label(image, position, [str(n) for n in range(1, 10)], height, reach=5) == str(
            number
        )
    assert (
        TopView(rasteriser, (640, 480)).draw(room(), trail[-1], trail)[0].tobytes()
        == image.tobytes()
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(60, 620), st.floats(40, 440), st.floats(-180, 180)),
        min_size=1,
        max_size=9,
    )
)
def test_marks_show_every_stop_once_without_overlap(poses):
    stops = [MapPose(n, (u, v), yaw, 75) for n, (u, v, yaw) in enumerate(poses, 1)]
    marks = arrange_marks(stops, PlotArea.inside(640, 480), 1.0)
    assert sorted(s.number for mark in marks for s in mark.stops) == list(range(1, len(stops) + 1))
    boxes = [mark.box(mark.spot) for mark in marks]
    for index, a in enumerate(boxes):
        for b in boxes[:index]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_stops_at_one_place_share_a_mark():
    numbers = [1, 2, 3, 5, 7, 8]
    stops = [
        MapPose(n, (300.0, 200.0) if n in numbers else (100.0, 40.0 * n), 0, 75)
        for n in range(1, 9)
    ]
    labels = {mark.label for mark in arrange_marks(stops, PlotArea.inside(640, 480), 1.0)}
    assert labels == {"1-3,5,7,8", "4", "6"}


@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_ceiling_is_cut_away_and_table_tops_remain(rasteriser, shape):
    scene = room(box((1.4, -0.4, 0.7), (2.6, 0.4, 0.75), GREEN), RED_BOX)
    if shape == "cloud":
        scene = as_cloud(scene)
    image, map_camera = TopView(rasteriser, (640, 480)).draw(scene, None, ())
    assert not len(find_pixels(image, CEILING, 40))
    corners = map_camera.project(np.array([[1.4, -0.4, 0.75], [2.6, 0.4, 0.75]]), 640, 480)[0]
    table = find_pixels(image, GREEN, 30)
    expected = np.array(
        [corners[:, 0].min(), corners[:, 1].min(), corners[:, 0].max(), corners[:, 1].max()]
    )
    actual = np.array([*(table.min(axis=0) - 0.5), *(table.max(axis=0) + 0.5)])
    assert np.abs(actual - expected).max() <= (1 if shape == "mesh" else 3.5)


def test_cut_walls_are_dark(rasteriser):
    image, map_camera = TopView(rasteriser, (640, 480)).draw(room(), None, ())
    face, _ = map_camera.project(
        np.array([[-1, 0.5, 0], [5, 0.5, 0], [2.5, -2, 0], [2.5, 2.5, 0]]), 640, 480
    )
    for u, v in np.floor(face).astype(int):
        assert (
            np.abs(image[v - 1 : v + 2, u - 1 : u + 2].astype(int) - WALL_COLOUR).max(axis=2).min()
            < 25
        )


@pytest.mark.parametrize("share", [0.5, 0.02, 0.0005])
def test_squared_distances_agree_with_scipy(share):
    for size in ((1, 9), (9, 1), (70, 110)):
        marked = np.random.default_rng(0).random(size) < share
        marked[0, -1] = True
        assert np.array_equal(np.sqrt(squared_distances(marked)), distance_transform_edt(~marked))


def test_map_pixels_are_rounded_means_of_their_subpixels():
    rng = np.random.default_rng(3)
    colours = rng.integers(0, 256, (7 * SMOOTH, 9 * SMOOTH, 3)).astype(np.uint8)
    lines, faces = rng.random(colours.shape[:2]) < 0.2, rng.random((7, 9)) < 0.3
    composed = colours.astype(int)
    composed[faces.repeat(SMOOTH, 0).repeat(SMOOTH, 1)] = FACE_COLOUR
    composed[lines] = WALL_COLOUR
    mean = composed.reshape(7, SMOOTH, 9, SMOOTH, 3).mean(axis=(1, 3))
    image = downscale(colours, lines, faces, WALL_COLOUR, FACE_COLOUR, (0,) * SMOOTH)
    assert np.array_equal(image, np.floor(mean + 0.5))


def test_cut_height_depends_on_ceiling_and_storey():
    storeys = Storeys()
    assert storeys.cut(room(ceiling=2.7), None) == (2.0, 2.7)
    assert storeys.cut(room(ceiling=2.2), None) == pytest.approx((1.85, 2.2))
    low_scan = mesh([box((0, 0, 0), (2, 2, 1.2), BLUE)], ceiling=1.2)
    assert storeys.cut(low_scan, None)[0] == 2.0


def sides_of(part, *sides):
    """Return some sides of a `box`, by their index in SIDES, like an incompletely scanned object."""
    corners, colours, faces = part
    return corners, colours, np.concatenate([faces[[side, 6 + side]] for side in sides])


def turned_inwards(part):
    """Return sides that face inwards, like a lowered ceiling and the walls below it."""
    return *part[:2], part[2][:, ::-1]


LOW_X, HIGH_X, LOW_Y, HIGH_Y, LOW_Z, HIGH_Z = range(6)


def test_cloud_surface_just_below_the_cut_is_not_in_the_section(rasteriser):
    scene = as_cloud(room(box((1, 0, 0), (2, 1, 1.98), RED), box((3, 0, 0), (4, 1, 2.2), BLUE)))
    image, map_camera = TopView(rasteriser, (640, 480)).draw(scene, None, ())
    (low, high), _ = map_camera.project(np.array([[1.5, 0.5, 2], [3.5, 0.0, 2]]), 640, 480)
    assert tuple(image[int(low[1]), int(low[0])]) == RED
    edge = image[int(high[1]) - 3 : int(high[1]) + 4, int(high[0])]
    assert np.abs(edge.astype(int) - WALL_COLOUR).max(axis=1).min() < 40


@pytest.mark.parametrize("ceiling", [True, False])
def test_objects_taller_than_the_cut_have_cut_faces(rasteriser, ceiling):
    scene = room(
        box((-1, -2, 0), (0, -1.7, 2.2), RED),  # a shelf
        box((1, -2, 0), (2, -1.7, 1.9), GREEN),  # a lower one
        sides_of(box((3, -2, 0), (4, -1.4, 2.3), RED), LOW_X, HIGH_X, HIGH_Y, HIGH_Z),  # scanned incompletely
        sides_of(box((-1, 1, 0), (-0.7, 2.5, 2.6), RED), HIGH_X, LOW_Y),  # its top was not scanned
        box((2, 0, 0), (2.4, 0.4, 2.7), WALLS),  # a column
        box((1, 1, 2.1), (1.6, 1.6, 2.3), BLUE),  # a hanging lamp
        turned_inwards(sides_of(box((3.5, 1, 0), (5, 2.5, 2.3), WALLS), LOW_X, LOW_Y, HIGH_Z)),
        box((2.6, -1, 0), (3.7, 0.2, 2.3), BLUE),  # a closed box deeper than a shelf
    )  # fmt: skip
    if not ceiling:
        lid = (scene.points[scene.faces][:, :, 2] > 2.65).all(axis=1)
        scene = replace(scene, faces=scene.faces[~lid])
    image, map_camera = TopView(rasteriser, (640, 480)).draw(scene, None, ())

    def colour(x, y):
        u, v = np.floor(map_camera.project(np.array([[x, y, 0]]), 640, 480)[0][0]).astype(int)
        pixels = image[v - 1 : v + 2, u - 1 : u + 2].reshape(-1, 3)
        return tuple(np.median(pixels, axis=0).astype(int))

    for x, y in [(-0.5, -1.85), (3.5, -1.7), (-0.85, 1.7), (2.2, 0.2), (2.5, 2.55), (3.2, -0.4)]:
        assert colour(x, y) == FACE_COLOUR, (x, y)
    assert colour(1.5, -1.85) == GREEN
    for x, y in [(1.3, 1.3), (4.3, 1.7), (0.5, 0.5)]:
        assert colour(x, y) == FLOOR, (x, y)


@pytest.mark.parametrize("seed", range(3))
def test_cropping_does_not_change_cut_faces(seed):
    rng = np.random.default_rng(seed)
    size = (90, 120)
    lines, higher = np.zeros((2, *size), bool)
    orientation = rng.integers(-1, 2, size).astype(np.int8)
    for _ in range(rng.integers(1, 5)):
        top, left = rng.integers(0, 80), rng.integers(0, 110)
        rows, columns = (
            slice(top, top + rng.integers(3, 30)),
            slice(left, left + rng.integers(3, 30)),
        )
        lines[rows, columns] = True
        lines[rows, columns][1:-1, 1:-1] = False
        higher[rows, columns] |= rng.random() < 0.7
    args = (lines, rng.random(size) < 0.6, higher, orientation, 0.05, 0.05)
    assert np.array_equal(cut_faces(*args), _fill_cut_faces(*args))
    empty = np.zeros(size, bool)
    assert not cut_faces(empty, args[1], empty, *args[3:]).any()


def test_walls_of_a_sparse_cloud_have_no_cut_faces(rasteriser):
    shelf = box((-1, -2, 0), (0, -1.2, 2.3), RED)
    scene = as_cloud(room(shelf), 0.1)
    image, map_camera = TopView(rasteriser, (640, 480)).draw(scene, None, ())
    (low, high), _ = map_camera.project(np.array([[-1.3, -0.9, 0], [0.3, -2.3, 0]]), 640, 480)
    pixels = find_pixels(image[40:], FACE_COLOUR, 3) + np.array([0, 40])  # excludes the key
    assert len(pixels) > 1000
    assert ((pixels > low) & (pixels < high)).all()


@pytest.mark.parametrize(("ceiling", "height"), [(2.7, "2.00"), (2.2, "1.85")])
def test_key_shows_the_height_of_the_cut(rasteriser, ceiling, height):
    image, _ = TopView(rasteriser, (640, 480)).draw(room(ceiling=ceiling), None, ())
    candidates = [f"cut face at z = {number} m" for number in ("1.80", "1.85", "2.00", "2.05")]
    plot = PlotArea.inside(640, 480)
    position = (plot.left + 20, plot.top / 2)
    assert (
        read_label(image, position, candidates, 13, "lm", reach=110)
        == f"cut face at z = {height} m"
    )


@pytest.mark.parametrize(
    ("size", "has_key"), [((160, 120), True), ((128, 96), True), ((96, 72), False)]
)
def test_key_is_omitted_on_very_small_maps(rasteriser, size, has_key):
    image, _ = TopView(rasteriser, size).draw(room(), None, ())
    above = image[: PlotArea.inside(*size).top - 1]
    assert bool(len(find_pixels(above, FACE_COLOUR, 3))) == has_key


@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_each_storey_has_its_own_map(rasteriser, shape):
    slabs = [
        box((0, 0, z - 0.1), (6, 5, z), colour)
        for z, colour in ((0, FLOOR), (3, GREEN), (6, CEILING))
    ]
    below = box((1, 1, 0), (2, 2, 0.5), RED)
    above = box((4, 3, 3), (5, 4, 3.5), BLUE)
    house = mesh([*slabs, below, above], ceiling=5.9)
    if shape == "cloud":
        house = as_cloud(house, 0.03)
    top = TopView(rasteriser, (640, 480))
    ground, _ = top.draw(house, Camera((3, 2.5, 1.6)), ())
    upper, _ = top.draw(house, Camera((3, 2.5, 4.6)), ())
    assert len(find_pixels(ground, RED, 60))
    assert not len(find_pixels(ground, GREEN, 30))
    assert len(find_pixels(upper, GREEN, 30))
    assert not len(find_pixels(upper, RED, 30))
    assert top.draw(house, None, ())[1] == top.draw(house, Camera((3, 2.5, 1.0)), ())[1]


def test_floor_plan_is_cached_and_released_with_its_scene(rasteriser):
    counting = CountingRenderer(rasteriser)
    top = TopView(counting, (640, 480))
    scene = room(RED_BOX)
    first, _ = top.draw(scene, Camera((1, 0, 1.6)), ())
    top.draw(scene, Camera((3, 0, 1.6), 70), [Camera((1, 0, 1.6))])
    redrawn, _ = top.draw(scene, Camera((1, 0, 1.6)), ())
    assert counting.num_frames == 3  # the map, and two frames of the surface above its cut
    assert first.tobytes() == redrawn.tobytes()
    reference = weakref.ref(scene)
    del scene
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(("side", "step"), [(3.0, 1), (12.0, 1), (60.0, 5), (0.8, 0.1)])
def test_grid_spacing_depends_on_scene_size(rasteriser, side, step):
    floor = mesh([box((0, 0, -0.1), (side, side, 0), FLOOR)])
    image, camera = TopView(rasteriser, (640, 480)).draw(floor, None, ())
    row = int(camera.project(np.array([[0, side * 0.47, 0]]), 640, 480)[0][0, 1])
    rows = [grid_lines(image[row + offset], FLOOR) for offset in (0, 3)]
    gaps = np.diff(min(rows, key=len)) * camera.metres_per_pixel
    assert gaps == pytest.approx(step, abs=2 * camera.metres_per_pixel)
