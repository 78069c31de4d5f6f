"""The map agrees with the truth to a pixel: grid, numbers, walls, furniture, camera and trail."""

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
    mesh,
    room,
    where_is,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.ndimage import distance_transform_edt

from render_agent.render.map_view.camera_path import Stop, arranged
from render_agent.render.map_view.cut_faces import FACE_COLOUR, _filled, cut_faces
from render_agent.render.map_view.distances import shrunk, squared_distances
from render_agent.render.map_view.floor_cut import WALL_COLOUR, Storeys
from render_agent.render.map_view.map_view import TopView
from render_agent.render.map_view.overlay import GRID, GRID_STRENGTH, PAPER, SMOOTH, Plot, write
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.camera import Camera, wrapped

SIZES = [(640, 480), (1024, 1024), (333, 250)]
RED_BOX = box((2.85, 0.85, 0), (3.15, 1.15, 0.8), RED)


@pytest.fixture(scope="module")
def renderer():
    drawing = Rasteriser()
    yield drawing
    drawing.close()


class Counting:
    """A renderer that counts what another draws."""

    def __init__(self, renderer):
        self.renderer, self.drawn = renderer, 0

    def draw(self, *asked):
        self.drawn += 1
        return self.renderer.draw(*asked)


def read(picture, place, words, size, anchor="mm", reach=7):
    """Return which of `words`, written at the pixel, looks most like what the picture shows there."""
    u, v = (math.floor(value) for value in place)
    left = max(u - (3 * reach if anchor == "rm" else reach), 0)
    part = np.s_[max(v - reach, 0) : v + reach + 1, left : u + reach + 1]

    def likeness(word):
        blank = Image.new("RGB", picture.shape[1::-1], PAPER)
        write(blank, place, word, size, anchor=anchor, edge=None)
        greys = (Image.fromarray(np.array(image)).convert("L") for image in (blank, picture))
        return abs(np.corrcoef(*(np.array(grey)[part].ravel() for grey in greys))[0, 1])

    return max(words, key=likeness)


def tinted(colour):
    return np.rint(np.array(colour) * (1 - GRID_STRENGTH) + np.array(GRID) * GRID_STRENGTH)


def lines(row, colour):
    """Return the indices at which a row of pixels is the floor's colour with the grid over it."""
    return np.flatnonzero((row == tinted(colour)).all(axis=1))


@pytest.mark.parametrize("size", SIZES)
def test_grid_lines_run_through_the_pixels_that_show_whole_metres(renderer, size):
    floor = mesh([box((-4.3, -3.1, -0.1), (5.2, 4.4, 0), FLOOR)])
    picture, camera = TopView(renderer, size).draw(floor, None, ())
    whole = np.arange(-9.0, 10.0)
    nothing = np.zeros_like(whole)
    u = camera.project(np.column_stack([whole, nothing, nothing]), *size)[0][:, 0]
    v = camera.project(np.column_stack([nothing, whole, nothing]), *size)[0][:, 1]
    between_u, between_v = int((u[9] + u[10]) / 2), int((v[9] + v[10]) / 2)
    seen_u = lines(picture[between_v], FLOOR)
    seen_v = lines(picture[:, between_u], FLOOR)
    step = round(float(np.diff(seen_u).mean()) * camera.metres_per_pixel)
    assert step in (1, 2)
    assert seen_u.tolist() == [
        math.floor(p) for x, p in zip(whole, u, strict=True) if -4.3 < x < 5.2 and x % step == 0
    ]
    assert seen_v.tolist() == [
        math.floor(p)
        for y, p in zip(whole[::-1], v[::-1], strict=True)
        if -3.1 < y < 4.4 and y % step == 0
    ]


def test_a_box_stands_where_the_numbers_on_the_axes_say(renderer):
    size = 640, 480
    picture, _ = TopView(renderer, size).draw(room(RED_BOX), None, ())
    plot = Plot.inside(*size)
    red = where_is(picture, RED, 60)
    across, upwards = lines(picture[400], FLOOR) + 0.5, lines(picture[:, 480], FLOOR) + 0.5
    words = [str(number) for number in range(-3, 8)]
    x = [int(read(picture, (u, plot.bottom + 12), words, 15)) for u in across]
    y = [int(read(picture, (plot.left - 7, v), words, 15, "rm")) for v in upwards]
    assert x == list(range(0, 5))
    assert y == list(range(2, -2, -1))
    centre_x, centre_y = (
        np.polyval(np.polyfit(across, x, 1), red[:, 0].mean()),
        np.polyval(np.polyfit(upwards, y, 1), red[:, 1].mean()),
    )
    pixel = 1 / np.diff(across).mean()
    assert centre_x == pytest.approx(3.0, abs=pixel)
    assert centre_y == pytest.approx(1.0, abs=pixel)
    assert np.ptp(red, axis=0) + 1 == pytest.approx([0.3 / pixel] * 2, abs=2)


def wedge(top, camera):
    """Return the pixels, relative to the camera's, that the camera's wedge changes on the map."""
    picture, shown = top.draw(room(), camera, ())
    bare, _ = top.draw(room(), None, ())
    rows, columns = np.nonzero((picture != bare).any(axis=2))
    place = shown.project(np.array([camera.position]), *top.size)[0][0]
    away = np.column_stack([columns, rows]) + 0.5 - place
    return away[np.hypot(*away.T) > 20]


@pytest.mark.parametrize("yaw", mostly_slow([0, 45, 90, 180, -90, -150], 45, -150))
def test_the_wedge_points_where_the_camera_looks(renderer, yaw):
    u, v = wedge(TopView(renderer, (640, 480)), Camera((2.0, 0.3, 1.6), yaw)).mean(axis=0)
    assert wrapped(math.degrees(math.atan2(-v, u)) - yaw) == pytest.approx(0, abs=0.6)


def test_the_wedge_is_as_wide_as_the_field_of_view(renderer):
    camera = Camera((2.0, 0.3, 1.6), 90)
    away = wedge(TopView(renderer, (640, 480)), camera)
    far = away[np.hypot(*away.T) > 45]
    angles = np.degrees(np.arctan2(-far[:, 1], far[:, 0]))
    assert np.ptp(angles) == pytest.approx(camera.horizontal_fov(640, 480), abs=8)


def test_stops_are_numbered_at_their_places(renderer):
    spots = [(0, -1.5), (4, -1.5), (4, 2), (2, 2), (0, 2), (0, 0.3), (2, 0.3), (4, 0.3)]
    trail = [Camera((x, y, 1.6), 90) for x, y in spots]
    picture, shown = TopView(renderer, (640, 480)).draw(room(), trail[-1], trail[:-1])
    for number, camera in enumerate(trail, 1):
        place = shown.project(np.array([camera.position]), 640, 480)[0][0]
        height = 15 if number == len(trail) else 13
        assert read(picture, place, [str(n) for n in range(1, 10)], height, reach=5) == str(number)
    assert (
        TopView(renderer, (640, 480)).draw(room(), trail[-1], trail)[0].tobytes()
        == picture.tobytes()
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(60, 620), st.floats(40, 440), st.floats(-180, 180)),
        min_size=1,
        max_size=9,
    )
)
def test_every_number_is_there_once_and_none_hides_another(poses):
    stops = [Stop(n, (u, v), yaw, 75) for n, (u, v, yaw) in enumerate(poses, 1)]
    marks = arranged(stops, Plot.inside(640, 480), 1.0)
    assert sorted(s.number for mark in marks for s in mark.stops) == list(range(1, len(stops) + 1))
    boxes = [mark.box(mark.spot) for mark in marks]
    for index, a in enumerate(boxes):
        for b in boxes[:index]:
            assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]


def test_stops_at_one_place_share_a_disc():
    numbers = [1, 2, 3, 5, 7, 8]
    stops = [
        Stop(n, (300.0, 200.0) if n in numbers else (100.0, 40.0 * n), 0, 75) for n in range(1, 9)
    ]
    words = {mark.words for mark in arranged(stops, Plot.inside(640, 480), 1.0)}
    assert words == {"1-3,5,7,8", "4", "6"}


@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_the_ceiling_is_cut_away_and_table_tops_stay(renderer, shape):
    scene = room(box((1.4, -0.4, 0.7), (2.6, 0.4, 0.75), GREEN), RED_BOX)
    if shape == "cloud":
        scene = as_cloud(scene)
    picture, shown = TopView(renderer, (640, 480)).draw(scene, None, ())
    assert not len(where_is(picture, CEILING, 40))
    corners = shown.project(np.array([[1.4, -0.4, 0.75], [2.6, 0.4, 0.75]]), 640, 480)[0]
    table = where_is(picture, GREEN, 30)
    wanted = np.array(
        [corners[:, 0].min(), corners[:, 1].min(), corners[:, 0].max(), corners[:, 1].max()]
    )
    found = np.array([*(table.min(axis=0) - 0.5), *(table.max(axis=0) + 0.5)])
    assert np.abs(found - wanted).max() <= (1 if shape == "mesh" else 3.5)


def test_walls_are_dark_where_they_are_cut(renderer):
    picture, shown = TopView(renderer, (640, 480)).draw(room(), None, ())
    face, _ = shown.project(
        np.array([[-1, 0.5, 0], [5, 0.5, 0], [2.5, -2, 0], [2.5, 2.5, 0]]), 640, 480
    )
    for u, v in np.floor(face).astype(int):
        assert (
            np.abs(picture[v - 1 : v + 2, u - 1 : u + 2].astype(int) - WALL_COLOUR)
            .max(axis=2)
            .min()
            < 25
        )


@pytest.mark.parametrize("share", [0.5, 0.02, 0.0005])
def test_distances_are_those_that_scipy_finds(share):
    for size in ((1, 9), (9, 1), (70, 110)):
        marked = np.random.default_rng(0).random(size) < share
        marked[0, -1] = True
        assert np.array_equal(np.sqrt(squared_distances(marked)), distance_transform_edt(~marked))


def test_a_pixel_of_the_map_is_the_rounded_mean_of_what_was_drawn_for_it():
    dice = np.random.default_rng(3)
    colours = dice.integers(0, 256, (7 * SMOOTH, 9 * SMOOTH, 3)).astype(np.uint8)
    lines, faces = dice.random(colours.shape[:2]) < 0.2, dice.random((7, 9)) < 0.3
    painted = colours.astype(int)
    painted[faces.repeat(SMOOTH, 0).repeat(SMOOTH, 1)] = FACE_COLOUR
    painted[lines] = WALL_COLOUR
    mean = painted.reshape(7, SMOOTH, 9, SMOOTH, 3).mean(axis=(1, 3))
    picture = shrunk(colours, lines, faces, WALL_COLOUR, FACE_COLOUR, (0,) * SMOOTH)
    assert np.array_equal(picture, np.floor(mean + 0.5))


def test_the_cut_follows_the_ceiling_the_scan_and_the_storey():
    storeys = Storeys()
    assert storeys.cut(room(ceiling=2.7), None) == (2.0, 2.7)
    assert storeys.cut(room(ceiling=2.2), None) == pytest.approx((1.85, 2.2))
    low_scan = mesh([box((0, 0, 0), (2, 2, 1.2), BLUE)], ceiling=1.2)
    assert storeys.cut(low_scan, None)[0] == 2.0


def sheets(part, *kept):
    """Return some sides of a `box`, by their number in SIDES: what a scan has of a thing."""
    corners, colours, faces = part
    return corners, colours, np.concatenate([faces[[side, 6 + side]] for side in kept])


def seen_from_inside(part):
    """Return sides whose fronts look inwards: those of a lowered ceiling and the walls below it."""
    return *part[:2], part[2][:, ::-1]


LOW_X, HIGH_X, LOW_Y, HIGH_Y, LOW_Z, HIGH_Z = range(6)


def test_the_top_of_a_thing_in_a_cloud_near_the_cut_is_no_section(renderer):
    scene = as_cloud(room(box((1, 0, 0), (2, 1, 1.98), RED), box((3, 0, 0), (4, 1, 2.2), BLUE)))
    picture, shown = TopView(renderer, (640, 480)).draw(scene, None, ())
    (low, high), _ = shown.project(np.array([[1.5, 0.5, 2], [3.5, 0.0, 2]]), 640, 480)
    assert tuple(picture[int(low[1]), int(low[0])]) == RED
    edge = picture[int(high[1]) - 3 : int(high[1]) + 4, int(high[0])]
    assert np.abs(edge.astype(int) - WALL_COLOUR).max(axis=1).min() < 40


@pytest.mark.parametrize("ceiling", [True, False])
def test_what_reaches_higher_than_the_cut_shows_its_cut_face(renderer, ceiling):
    scene = room(
        box((-1, -2, 0), (0, -1.7, 2.2), RED),  # a shelf
        box((1, -2, 0), (2, -1.7, 1.9), GREEN),  # a lower one
        sheets(box((3, -2, 0), (4, -1.4, 2.3), RED), LOW_X, HIGH_X, HIGH_Y, HIGH_Z),  # of a scan
        sheets(box((-1, 1, 0), (-0.7, 2.5, 2.6), RED), HIGH_X, LOW_Y),  # its top was not seen
        box((2, 0, 0), (2.4, 0.4, 2.7), WALLS),  # a column
        box((1, 1, 2.1), (1.6, 1.6, 2.3), BLUE),  # a lamp hangs
        seen_from_inside(sheets(box((3.5, 1, 0), (5, 2.5, 2.3), WALLS), LOW_X, LOW_Y, HIGH_Z)),
        box((2.6, -1, 0), (3.7, 0.2, 2.3), BLUE),  # a closed box too deep for a shelf
    )  # fmt: skip
    if not ceiling:
        lid = (scene.points[scene.faces][:, :, 2] > 2.65).all(axis=1)
        scene = replace(scene, faces=scene.faces[~lid])
    picture, shown = TopView(renderer, (640, 480)).draw(scene, None, ())

    def colour(x, y):
        u, v = np.floor(shown.project(np.array([[x, y, 0]]), 640, 480)[0][0]).astype(int)
        seen = picture[v - 1 : v + 2, u - 1 : u + 2].reshape(-1, 3)
        return tuple(np.median(seen, axis=0).astype(int))

    for x, y in [(-0.5, -1.85), (3.5, -1.7), (-0.85, 1.7), (2.2, 0.2), (2.5, 2.55), (3.2, -0.4)]:
        assert colour(x, y) == FACE_COLOUR, (x, y)
    assert colour(1.5, -1.85) == GREEN
    for x, y in [(1.3, 1.3), (4.3, 1.7), (0.5, 0.5)]:
        assert colour(x, y) == FLOOR, (x, y)


@pytest.mark.parametrize("seed", range(3))
def test_cut_faces_near_the_lines_are_those_of_the_whole_map(seed):
    dice = np.random.default_rng(seed)
    size = (90, 120)
    lines, higher = np.zeros((2, *size), bool)
    looks = dice.integers(-1, 2, size).astype(np.int8)
    for _ in range(dice.integers(1, 5)):
        top, left = dice.integers(0, 80), dice.integers(0, 110)
        rows, columns = (
            slice(top, top + dice.integers(3, 30)),
            slice(left, left + dice.integers(3, 30)),
        )
        lines[rows, columns] = True
        lines[rows, columns][1:-1, 1:-1] = False
        higher[rows, columns] |= dice.random() < 0.7
    given = (lines, dice.random(size) < 0.6, higher, looks, 0.05, 0.05)
    assert np.array_equal(cut_faces(*given), _filled(*given))
    assert not cut_faces(np.zeros(size, bool), *given[1:2], np.zeros(size, bool), *given[3:]).any()


def test_the_walls_of_a_thin_cloud_wear_no_cut_faces(renderer):
    shelf = box((-1, -2, 0), (0, -1.2, 2.3), RED)
    scene = as_cloud(room(shelf), 0.1)
    picture, shown = TopView(renderer, (640, 480)).draw(scene, None, ())
    (low, high), _ = shown.project(np.array([[-1.3, -0.9, 0], [0.3, -2.3, 0]]), 640, 480)
    found = where_is(picture[40:], FACE_COLOUR, 3) + np.array([0, 40])  # without the key
    assert len(found) > 1000
    assert ((found > low) & (found < high)).all()


@pytest.mark.parametrize(("ceiling", "height"), [(2.7, "2.00"), (2.2, "1.85")])
def test_the_key_says_at_which_height_the_map_is_cut(renderer, ceiling, height):
    picture, _ = TopView(renderer, (640, 480)).draw(room(ceiling=ceiling), None, ())
    words = [f"cut face at z = {number} m" for number in ("1.80", "1.85", "2.00", "2.05")]
    plot = Plot.inside(640, 480)
    place = (plot.left + 20, plot.top / 2)
    assert read(picture, place, words, 13, "lm", reach=110) == f"cut face at z = {height} m"


@pytest.mark.parametrize(
    ("size", "key"), [((160, 120), True), ((128, 96), True), ((96, 72), False)]
)
def test_a_small_map_has_a_key_as_long_as_there_is_room(renderer, size, key):
    picture, _ = TopView(renderer, size).draw(room(), None, ())
    above = picture[: Plot.inside(*size).top - 1]
    assert bool(len(where_is(above, FACE_COLOUR, 3))) == key


@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_each_storey_of_a_house_has_its_map(renderer, shape):
    slabs = [
        box((0, 0, z - 0.1), (6, 5, z), colour)
        for z, colour in ((0, FLOOR), (3, GREEN), (6, CEILING))
    ]
    below = box((1, 1, 0), (2, 2, 0.5), RED)
    above = box((4, 3, 3), (5, 4, 3.5), BLUE)
    house = mesh([*slabs, below, above], ceiling=5.9)
    if shape == "cloud":
        house = as_cloud(house, 0.03)
    top = TopView(renderer, (640, 480))
    ground, _ = top.draw(house, Camera((3, 2.5, 1.6)), ())
    upper, _ = top.draw(house, Camera((3, 2.5, 4.6)), ())
    assert len(where_is(ground, RED, 60))
    assert not len(where_is(ground, GREEN, 30))
    assert len(where_is(upper, GREEN, 30))
    assert not len(where_is(upper, RED, 30))
    assert top.draw(house, None, ())[1] == top.draw(house, Camera((3, 2.5, 1.0)), ())[1]


def test_the_floor_plan_is_drawn_once_and_goes_with_its_scene(renderer):
    counting = Counting(renderer)
    top = TopView(counting, (640, 480))
    scene = room(RED_BOX)
    first, _ = top.draw(scene, Camera((1, 0, 1.6)), ())
    top.draw(scene, Camera((3, 0, 1.6), 70), [Camera((1, 0, 1.6))])
    again, _ = top.draw(scene, Camera((1, 0, 1.6)), ())
    assert counting.drawn == 3  # the map, and twice what stands above its cut
    assert first.tobytes() == again.tobytes()
    gone = weakref.ref(scene)
    del scene
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("side", "step"), [(3.0, 1), (12.0, 1), (60.0, 5), (0.8, 0.1)])
def test_the_grid_suits_the_size_of_the_scene(renderer, side, step):
    floor = mesh([box((0, 0, -0.1), (side, side, 0), FLOOR)])
    picture, camera = TopView(renderer, (640, 480)).draw(floor, None, ())
    row = int(camera.project(np.array([[0, side * 0.47, 0]]), 640, 480)[0][0, 1])
    rows = [lines(picture[row + offset], FLOOR) for offset in (0, 3)]
    gaps = np.diff(min(rows, key=len)) * camera.metres_per_pixel
    assert gaps == pytest.approx(step, abs=2 * camera.metres_per_pixel)
