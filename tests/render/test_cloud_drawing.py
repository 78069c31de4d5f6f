"""Clouds: no holes at any distance, nothing shines through, and points are where they are."""

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.rooms import BLUE, RED, as_cloud, box, mesh, room

from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.scene import Scene

W, H = 640, 480


@pytest.fixture(scope="module")
def rasteriser():
    made = Rasteriser(threads=2)
    yield made
    made.close()


def cloud_of(points, colour=RED):
    points = np.asarray(points, np.float32).reshape(-1, 3)
    bounds = np.array([points.min(axis=0), points.max(axis=0)], float)
    shades = np.tile(np.uint8(colour), (len(points), 1))
    return Scene("points", points, shades, None, 0.0, 2.7, bounds)


@pytest.fixture(scope="module", params=[0.015, 0.04], ids=["dense", "sparse"])
def house(request):
    """A room with a wall of another colour close behind each wall, as a cloud of random points."""
    low, high = (-3.0, -3.0, 0.0), (3.0, 3.0, 2.7)
    outer = box(np.subtract(low, 0.5), np.add(high, 0.5), BLUE)
    return as_cloud(mesh([box(low, high, RED), outer]), spacing=request.param)


@pytest.mark.parametrize("x", mostly_slow([-2.8, -1.0, 1.0, 2.5, 2.8], -2.8, 1.0))
@pytest.mark.parametrize(("yaw", "pitch"), [(0.0, -35.0), (40.0, 0.0)])
def test_no_holes_and_nothing_shines_through(rasteriser, house, x, yaw, pitch):
    frame = rasteriser.draw(house, Camera((x, 0.4, 1.5), yaw, pitch), W, H)
    assert (frame.colours != RED).any(axis=2).mean() <= 0.0004


@pytest.mark.parametrize("distance", [8.0, 20.0, 60.0])
def test_no_holes_from_afar(rasteriser, house, distance):
    frame = rasteriser.draw(house, Camera((-distance, 0.0, 1.35)), W, H)
    rows, columns = np.nonzero(frame.depth < np.inf)
    inside = frame.colours[rows.min() + 2 : rows.max() - 1, columns.min() + 2 : columns.max() - 1]
    assert (inside != BLUE).any(axis=2).mean() <= 0.0004


def test_no_holes_on_the_map(rasteriser, house):
    camera = MapCamera((0.0, 0.0), 2.0, 7.0 / H)
    frame = rasteriser.draw(house, camera, H, H)
    floor = frame.colours[50:-50, 50:-50]
    assert (floor != RED).any(axis=2).mean() <= 0.0004
    assert frame.depth[50:-50, 50:-50] == pytest.approx(2.0)


def test_points_are_drawn_at_their_depth_and_known_by_their_index(rasteriser):
    scene = cloud_of(np.random.default_rng(3).uniform((2, -2, 0), (5, 2, 2.7), (3000, 3)))
    camera = Camera((0.0, 0.0, 1.4), 4.0, -3.0)
    frame = rasteriser.draw(scene, camera, W, H)
    seen = frame.primitive >= 0
    _, depth = camera.project(scene.points[frame.primitive[seen]], W, H)
    np.testing.assert_allclose(frame.depth[seen], depth, rtol=1e-5)


def test_each_point_of_a_sparse_cloud_covers_its_own_pixel(rasteriser):
    y, z = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(0.5, 2.5, 9))
    scene = cloud_of(np.column_stack([np.full(81, 4.0), y.ravel(), z.ravel()]))
    camera = Camera((0.0, 0.0, 1.5))
    frame = rasteriser.draw(scene, camera, W, H)
    pixels, _ = camera.project(scene.points, W, H)
    columns, rows = np.floor(pixels).astype(int).T
    assert (frame.primitive[rows, columns] == np.arange(81)).all()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_few_points_are_drawn(rasteriser, count):
    scene = cloud_of([[2.0, 0.0, 1.5]] * count)
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.5)), W, H)
    assert set(np.unique(frame.primitive)) == {-1, 0}
    assert 9 <= (frame.primitive == 0).sum() <= 100


def test_a_thing_in_front_keeps_its_outline(rasteriser):
    scene = as_cloud(room(box((2, -0.5, 0), (3, 0.5, 1), RED)))
    camera = Camera((0.0, 0.0, 1.5), 0.0, -10.0)
    frame = rasteriser.draw(scene, camera, W, H)
    red = (frame.colours == RED).all(axis=2)
    corners = np.array([[2, y, z] for y in (-0.5, 0.5) for z in (0, 1)], float)
    pixels, _ = camera.project(corners, W, H)
    _, columns = np.nonzero(red)
    assert abs(columns.min() - pixels[:, 0].min()) < 8
    assert abs(columns.max() - pixels[:, 0].max()) < 8


def test_a_real_cloud_is_whole_around_its_scanner(rasteriser):
    scene = load_scene(test_data("scenes", "pcl_room_scan_nocolour.ply"))
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 0.3), 180.0, 0.0), W, H)
    assert (frame.depth < np.inf).mean() > 0.9


def test_a_wall_far_from_the_scanner_closes_beside_what_is_dense(rasteriser):
    dice = np.random.default_rng(8)
    near = dice.uniform((3.0, 2.0, 0.0), (3.0, 2.4, 0.4), (60_000, 3))  # 1.6 mm apart
    far = dice.uniform((4.0, -2.0, 0.0), (4.0, 1.5, 2.7), (7700, 3))  # 35 mm apart
    behind = dice.uniform((4.6, -2.5, -0.5), (4.6, 2.0, 3.2), (15_000, 3))
    scene = cloud_of(np.concatenate([near, far, behind]))
    scene.colours[len(near) + len(far) :] = BLUE
    frame = rasteriser.draw(scene, Camera((1.0, -0.2, 1.35)), W, H)
    middle = frame.colours[80:400, 150:500]
    assert (middle != RED).any(axis=2).mean() <= 0.002


def test_far_points_have_the_mean_colour_of_those_that_share_their_pixel(rasteriser):
    dice = np.random.default_rng(9)
    points = dice.uniform((8.0, -2.0, 0.0), (8.0, 2.0, 2.7), (400_000, 3))
    scene = cloud_of(points)
    scene.colours[:] = np.where(dice.random((len(points), 1)) < 0.5, 40, 200)
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.35)), W, H)
    wall = frame.colours[200:280, 270:370].astype(float)
    assert wall.mean() == pytest.approx(120, abs=2)
    assert wall.std() < 30  # of one point a pixel it would be 80
