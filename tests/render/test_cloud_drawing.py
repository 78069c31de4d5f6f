"""Rendering point clouds: no holes, no bleed-through, and points in the right places."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.rooms import BLUE, RED, as_cloud, box, mesh, room
from scipy.spatial import cKDTree

from render_agent.render.projection import points_under
from render_agent.render.rasteriser.blocks import cloud_blocks
from render_agent.scans.boxes import rotation
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.scene import Scene
from render_agent.tasks.rooms import BUNDLED

W, H = 640, 480


def cloud_of(points, colour=RED):
    points = np.asarray(points, np.float32).reshape(-1, 3)
    bounds = np.array([points.min(axis=0), points.max(axis=0)], float)
    shades = np.tile(np.uint8(colour), (len(points), 1))
    return Scene("points", points, shades, None, 0.0, 2.7, bounds)


@pytest.fixture(scope="module", params=[0.015, 0.04], ids=["dense", "sparse"])
def house(request):
    """Return a room as a cloud of random points, with a second wall in another colour close behind each wall."""
    low, high = (-3.0, -3.0, 0.0), (3.0, 3.0, 2.7)
    outer = box(np.subtract(low, 0.5), np.add(high, 0.5), BLUE)
    return as_cloud(mesh([box(low, high, RED), outer]), spacing=request.param)


@pytest.mark.parametrize("x", mostly_slow([-2.8, -1.0, 1.0, 2.5, 2.8], -2.8, 1.0))
@pytest.mark.parametrize(("yaw", "pitch"), [(0.0, -35.0), (40.0, 0.0)])
def test_walls_have_no_holes_or_bleed_through(rasteriser, house, x, yaw, pitch):
    frame = rasteriser.draw(house, Camera((x, 0.4, 1.5), yaw, pitch), W, H)
    assert (frame.colours != RED).any(axis=2).mean() <= 0.0004


@pytest.mark.parametrize("distance", [8.0, 20.0, 60.0])
def test_distant_walls_have_no_holes(rasteriser, house, distance):
    frame = rasteriser.draw(house, Camera((-distance, 0.0, 1.35)), W, H)
    rows, columns = np.nonzero(frame.depth < np.inf)
    inside = frame.colours[rows.min() + 2 : rows.max() - 1, columns.min() + 2 : columns.max() - 1]
    assert (inside != BLUE).any(axis=2).mean() <= 0.0004


def test_map_has_no_holes(rasteriser, house):
    camera = MapCamera((0.0, 0.0), 2.0, 7.0 / H)
    frame = rasteriser.draw(house, camera, H, H)
    floor = frame.colours[50:-50, 50:-50]
    assert (floor != RED).any(axis=2).mean() <= 0.0004
    assert frame.depth[50:-50, 50:-50] == pytest.approx(2.0)


def test_points_have_their_depth_and_index(rasteriser):
    scene = cloud_of(np.random.default_rng(3).uniform((2, -2, 0), (5, 2, 2.7), (3000, 3)))
    camera = Camera((0.0, 0.0, 1.4), 4.0, -3.0)
    frame = rasteriser.draw(scene, camera, W, H)
    is_hit = frame.primitive >= 0
    _, depth = camera.project(scene.points[frame.primitive[is_hit]], W, H)
    np.testing.assert_allclose(frame.depth[is_hit], depth, rtol=1e-5)


def test_points_of_a_sparse_cloud_cover_their_own_pixel(rasteriser):
    y, z = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(0.5, 2.5, 9))
    scene = cloud_of(np.column_stack([np.full(81, 4.0), y.ravel(), z.ravel()]))
    camera = Camera((0.0, 0.0, 1.5))
    frame = rasteriser.draw(scene, camera, W, H)
    pixels, _ = camera.project(scene.points, W, H)
    columns, rows = np.floor(pixels).astype(int).T
    assert (frame.primitive[rows, columns] == np.arange(81)).all()


@pytest.mark.parametrize("count", [1, 3, 8])
def test_very_small_clouds_are_drawn(rasteriser, count):
    scene = cloud_of([[2.0, 0.0, 1.5]] * count)
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.5)), W, H)
    assert set(np.unique(frame.primitive)) == {-1, 0}
    assert 9 <= (frame.primitive == 0).sum() <= 100


def test_object_in_front_keeps_its_outline(rasteriser):
    scene = as_cloud(room(box((2, -0.5, 0), (3, 0.5, 1), RED)))
    camera = Camera((0.0, 0.0, 1.5), 0.0, -10.0)
    frame = rasteriser.draw(scene, camera, W, H)
    red = (frame.colours == RED).all(axis=2)
    corners = np.array([[2, y, z] for y in (-0.5, 0.5) for z in (0, 1)], float)
    pixels, _ = camera.project(corners, W, H)
    _, columns = np.nonzero(red)
    assert abs(columns.min() - pixels[:, 0].min()) < 8
    assert abs(columns.max() - pixels[:, 0].max()) < 8


def test_real_cloud_has_no_holes_around_its_scanner(rasteriser):
    scene = load_scene(test_data("scenes", "pcl_room_scan_nocolour.ply"))
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 0.3), 180.0, 0.0), W, H)
    assert (frame.depth < np.inf).mean() > 0.9


def test_sparse_wall_next_to_a_dense_area_has_no_holes(rasteriser):
    rng = np.random.default_rng(8)
    near = rng.uniform((3.0, 2.0, 0.0), (3.0, 2.4, 0.4), (60_000, 3))  # 1.6 mm apart
    far = rng.uniform((4.0, -2.0, 0.0), (4.0, 1.5, 2.7), (7700, 3))  # 35 mm apart
    behind = rng.uniform((4.6, -2.5, -0.5), (4.6, 2.0, 3.2), (15_000, 3))
    scene = cloud_of(np.concatenate([near, far, behind]))
    scene.colours[len(near) + len(far) :] = BLUE
    frame = rasteriser.draw(scene, Camera((1.0, -0.2, 1.35)), W, H)
    middle = frame.colours[80:400, 150:500]
    assert (middle != RED).any(axis=2).mean() <= 0.002


def test_points_that_share_a_pixel_are_averaged(rasteriser):
    rng = np.random.default_rng(9)
    points = rng.uniform((8.0, -2.0, 0.0), (8.0, 2.0, 2.7), (400_000, 3))
    scene = cloud_of(points)
    scene.colours[:] = np.where(rng.random((len(points), 1)) < 0.5, 40, 200)
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.35)), W, H)
    wall = frame.colours[200:280, 270:370].astype(float)
    assert wall.mean() == pytest.approx(120, abs=2)
    assert wall.std() < 30  # 80 without averaging


def tilted_plane(normal, distance=3.0, spacing=0.03, half=0.5):
    """Return a square plane in front of the origin, with normals, as a cloud whose colours were not captured."""
    normal = np.array(normal, float) / np.linalg.norm(normal)
    across = np.cross(normal, (0.0, 0.0, 1.0))
    across /= np.linalg.norm(across)
    along = np.cross(normal, across)
    steps = np.arange(-half, half + 1e-6, spacing)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    scene = cloud_of(np.array((distance, 0.0, 1.5)) + grid @ np.array([across, along]))
    normals = np.tile(np.rint(127 * normal).astype(np.int8), (len(grid), 1))
    return replace(scene, normals=normals), normal


@pytest.mark.parametrize("normal", [(-1, 0.5, 0), (-0.3, 1, 0.2), (-1, 0, 1), (1, -0.2, -0.6)])
def test_points_without_captured_colours_lie_along_the_surface(rasteriser, normal):
    """A tilted plane is closed and does not extend beyond its edges by more than a point's radius."""
    scene, unit = tilted_plane(normal)
    camera = Camera((0.0, 0.0, 1.5))
    radius = float(np.median(cloud_blocks(scene).radii))
    frame = rasteriser.draw(scene, camera, W, H)
    rows, columns = np.nonzero(frame.depth < np.inf)
    rays = points_under(camera, columns, rows, np.ones(len(rows)), (W, H)) - camera.position
    centre = scene.points.mean(axis=0)
    hits = camera.position + rays * ((centre - camera.position) @ unit / (rays @ unit))[:, None]
    distances = cKDTree(scene.points).query(hits)[0]
    pixel = 2 * np.sqrt(2) / camera.focal(H) * 3.5 / abs(rays @ unit).min()
    assert distances.max() <= radius + pixel
    tested = np.linalg.norm(hits - centre, axis=1) < 0.3
    corners = rasteriser.draw(replace(scene, normals=None), camera, W, H)
    assert tested.sum() > 200
    assert np.isinf(frame.depth).sum() > np.isinf(corners.depth).sum()
    pixels, _ = camera.project(scene.points, W, H)
    at = np.floor(pixels).astype(int)
    assert (frame.primitive[at[:, 1], at[:, 0]] >= 0).all()


def test_a_plane_without_captured_colours_has_no_holes(rasteriser):
    scene, _ = tilted_plane((-1, 0.2, 0.1), spacing=0.02, half=1.5)
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.5)), W, H)
    assert np.isinf(frame.depth[H // 4 : -H // 4, W // 3 : -W // 3]).mean() < 1e-3


def test_sparse_points_without_captured_colours_are_smaller_if_near(rasteriser):
    """Near, they are no larger than the cloud's typical points; far away they close the surface as usual."""
    dense, _ = tilted_plane((-1, 0, 0), spacing=0.01, half=0.8)
    steps = np.arange(-0.8, 0.8, 0.08)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    for x, closed in ((-1.2, False), (-25.0, True)):
        sparse = np.column_stack([np.full(len(grid), x), grid + np.array((0.0, 1.5))])
        scene = cloud_of(np.concatenate([dense.points, sparse]))
        scene = replace(scene, normals=np.tile(np.int8([127, 0, 0]), (len(scene.points), 1)))
        frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.5), 180.0), W, H)
        rows, columns = np.nonzero(frame.depth < np.inf)
        inside = frame.depth[rows.min() + 4 : rows.max() - 3, columns.min() + 4 : columns.max() - 3]
        assert (np.isinf(inside).mean() < 0.02) == closed


def test_mirrored_and_rotated_clouds_render_alike(rasteriser):
    scene, _ = tilted_plane((-1, 0.6, 0.4))
    camera = Camera((0.0, 0.0, 1.5), 3.0, -5.0)
    frame = rasteriser.draw(scene, camera, W, H)
    mirrored = scene.mirrored()
    mirrored_frame = rasteriser.draw(mirrored, camera.mirrored(mirrored.mirrored_at), W, H)
    assert (np.isinf(mirrored_frame.depth[:, ::-1]) != np.isinf(frame.depth)).mean() < 2e-3
    points, normals = (array @ rotation(90.0).T for array in (scene.points, scene.normals))
    corners = scene.bounds @ rotation(90.0).T
    turned = replace(
        scene,
        points=points.astype(np.float32),
        normals=np.rint(normals).astype(np.int8),
        bounds=np.sort(corners, axis=0),
    )
    turned_camera = Camera((0.0, 0.0, 1.5), 93.0, -5.0)
    assert (
        np.isinf(rasteriser.draw(turned, turned_camera, W, H).depth) != np.isinf(frame.depth)
    ).mean() < 2e-3


def test_only_clouds_without_colours_have_normals():
    scan = load_scene(test_data("scenes", "pcl_room_scan_nocolour.ply"))
    lengths = np.linalg.norm(scan.normals / 127, axis=1)
    assert lengths == pytest.approx(1, abs=0.02)
    assert load_scene(BUNDLED / "room02.ply").normals is None
