"""Rendering splats: agreement with a reference implementation, depths and edge cases."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.splat_reference import psnr, render_reference
from factories.splats import balls, random_splat
from scipy.spatial.transform import Rotation

from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import BACKGROUND
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.formats.load import load_scene

W, H = 160, 120
RED, GREEN, BLUE = (230, 20, 20), (20, 200, 20), (20, 20, 230)


def synthetic_scene():
    """Return 1,000 Gaussians whose harmonics have different axes than the scene."""
    scene = random_splat(1000)
    axes = Rotation.from_euler("zyx", (50, -20, 100), degrees=True).as_matrix()
    return replace(scene, gaussians=replace(scene.gaussians, harmonics_axes=axes))


def capture(name):
    """Return a capture reduced to 1,000 of its Gaussians, enlarged to fill the gaps."""
    scene = load_scene(test_data("splats", name))
    mask = np.zeros(len(scene.points), bool)
    mask[np.random.default_rng(0).choice(len(mask), 1000, replace=False)] = True
    gaussians = scene.gaussians.where(mask).scaled(7.0)
    return replace(
        scene, points=scene.points[mask], colours=scene.colours[mask], gaussians=gaussians
    )


SCENES = {
    "synthetic": synthetic_scene,
    "biker": lambda: capture("biker.spz"),
    "guitar": lambda: capture("guitar.compressed.ply"),
}


@pytest.mark.parametrize("name", mostly_slow(SCENES, "synthetic", "guitar"))
def test_frames_agree_with_the_reference(rasteriser, name):
    scene = SCENES[name]()
    middle, size = scene.bounds.mean(axis=0), float(np.ptp(scene.bounds, axis=0).max())
    poses = [
        (0, 0, 0.0),
        (100, 20, 0.2),
        (-120, -30, 0.8),
        (45, 50, 1.0),
        (200, -5, 1.5),
        (-60, 10, 0.5),
    ]
    for yaw, pitch, distance in poses:
        camera = Camera((0, 0, 0), yaw, pitch)
        camera = camera.at(middle - distance * size * camera.forward)
        frame = rasteriser.draw(scene, camera, W, H)
        expected, tolerance = render_reference(scene, camera, W, H)
        assert psnr(frame.colours, expected) >= 45, (yaw, pitch, distance)
        assert (frame.primitive == tolerance).mean() >= 0.995
        assert ((frame.depth < np.inf) == (frame.primitive >= 0)).all()
    top = MapCamera((middle[0] + 0.1, middle[1]), float(middle[2]), 1.3 * size / H)
    frame = rasteriser.draw(scene, top, W, H)
    expected, tolerance = render_reference(scene, top, W, H)
    assert psnr(frame.colours, expected) >= 45
    assert (frame.primitive == tolerance).mean() >= 0.995


def test_frames_do_not_depend_on_threads_or_earlier_frames(rasteriser):
    scene, second_scene = random_splat(3000), random_splat(500, degree=0, seed=1)
    camera = Camera((0.5, 0.5, 1.2), 40, -10)
    first = rasteriser.draw(scene, camera, 203, 117)
    rasteriser.draw(second_scene, camera, 640, 480)
    single = Rasteriser(threads=1)
    for redrawn in (rasteriser.draw(scene, camera, 203, 117), single.draw(scene, camera, 203, 117)):
        assert (redrawn.colours == first.colours).all()
        assert (redrawn.depth == first.depth).all()
        assert (redrawn.primitive == first.primitive).all()
    single.close()


def test_splats_are_in_place_and_occlude_each_other(rasteriser):
    places = [(3, 1, 1.5), (3, -1, 1.5), (3, 0, 2.5), (2, 0, 1.5), (3, 0, 1.5), (-2, 0, 1.5)]
    scene = balls(places, [RED, GREEN, BLUE, RED, GREEN, BLUE], radius=0.08)
    camera = Camera((0, 0, 1.5), 0, 0, 60)
    frame = rasteriser.draw(scene, camera, 320, 240)
    pixels, depths = camera.project(scene.points[:4], 320, 240)
    assert pixels[0, 0] < 160 < pixels[1, 0]
    for (u, v), depth, colour, number in zip(
        pixels.astype(int), depths, (RED, GREEN, BLUE, RED), range(4), strict=True
    ):
        assert np.abs(frame.colours[v, u].astype(int) - colour).max() <= 4
        assert frame.depth[v, u] == pytest.approx(depth, abs=0.02)
        assert frame.primitive[v, u] == number
    assert tuple(frame.colours[5, 5]) == BACKGROUND
    assert frame.depth[5, 5] == np.inf
    assert frame.primitive[5, 5] == -1


def test_mirrored_splat_gives_a_mirrored_image(rasteriser):
    scene = synthetic_scene()
    camera = Camera((1.0, 0.7, 1.2), 60, -10)
    mirrored = scene.mirrored()
    frame = rasteriser.draw(mirrored, camera.mirrored(mirrored.mirrored_at), W, H)
    assert psnr(frame.colours[:, ::-1], rasteriser.draw(scene, camera, W, H).colours) >= 50


def test_map_omits_splats_above_the_cut(rasteriser):
    scene = balls([(0, 0, 0.5), (0, 0, 2.5), (1, 0.5, 1.0)], [RED, GREEN, BLUE], radius=0.2)
    frame = rasteriser.draw(scene, MapCamera((0, 0), 2.0, 0.02), 200, 200)
    assert np.abs(frame.colours[100, 100].astype(int) - RED).max() <= 4
    assert frame.depth[100, 100] == pytest.approx(1.5, abs=0.05)
    assert np.abs(frame.colours[75, 150].astype(int) - BLUE).max() <= 4
    assert (frame.primitive != 1).all()


def test_pixels_absorbing_less_than_half_have_no_depth(rasteriser):
    veil = balls([(2, 0, 1.5)], [RED], radius=0.3, opacity=0.4)
    frame = rasteriser.draw(veil, Camera((0, 0, 1.5)), W, H)
    assert frame.colours[60, 80, 0] > frame.colours[60, 80, 1] + 40
    assert (frame.depth == np.inf).all()
    two = balls([(2, 0, 1.5), (3, 0, 1.5)], [RED, GREEN], radius=0.3, opacity=0.4)
    assert rasteriser.draw(two, Camera((0, 0, 1.5)), W, H).depth[60, 80] == pytest.approx(
        3, abs=0.02
    )


def test_flat_gaussians_have_exact_depth(rasteriser):
    coordinates = np.arange(-6, 6, 0.25)
    points = np.stack(
        [*np.meshgrid(coordinates + 4, coordinates), np.zeros((48, 48))], axis=-1
    ).reshape(-1, 3)
    floor = balls(points, [BLUE])
    flat = np.tile(np.float32([0.2, 0.2, 1e-4]), (len(points), 1))
    floor = replace(floor, gaussians=replace(floor.gaussians, scales=flat))
    camera = Camera((0, 0, 1.5), 0, -35)
    depth = rasteriser.draw(floor, camera, W, H).depth[20:-5]
    rows = np.arange(20, H - 5)[:, None] + 0.5
    slope = np.sin(np.radians(35)) + (rows - H / 2) / camera.focal(H) * np.cos(np.radians(35))
    assert np.abs(depth / (1.5 / slope) - 1).max() < 0.03


@pytest.mark.parametrize("far", [1e3, 1e7])
def test_huge_and_tiny_gaussians_give_valid_depths(rasteriser, far):
    scene = random_splat(500)
    scene.gaussians.scales[:50] = far / 1e3
    scene.gaussians.scales[50:100] = 0
    scene.points[100:150] *= far
    frame = rasteriser.draw(scene, Camera((2, 1.5, 1.2)), W, H)
    assert not np.isnan(frame.depth).any()
