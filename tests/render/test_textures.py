"""Textures, tested for every renderer that works on this machine."""

from dataclasses import replace
from itertools import pairwise

import numba
import numpy as np
import pytest
from conftest import mostly_slow
from factories.raycaster import RENDERERS, RayCaster, renderer_by_name
from factories.rooms import BLUE, GREEN, RED
from factories.textures import (
    checkerboard,
    checkerboard_room,
    quad,
    textured_scene,
    wall,
    with_alpha,
)

from render_agent.errors import SetupError
from render_agent.render.rasteriser.mipmaps import WRAPS, mip_levels, wrap_coordinate
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import BACKGROUND
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.texture import Material

W, H = 320, 240
AHEAD = Camera((0.0, 0.0, 1.5))
YELLOW = (230, 200, 0)
# Red and green above, blue and yellow below.
QUARTERS = with_alpha(np.kron(np.array([[RED, GREEN], [BLUE, YELLOW]]), np.ones((32, 32, 1))))


@pytest.fixture(scope="module", params=mostly_slow(RENDERERS, "rasteriser", "pyrender"))
def renderer(request):
    try:
        instance = renderer_by_name(request.param)
    except SetupError as error:
        pytest.skip(str(error))
    yield instance
    instance.close()


def differing_share(first, second, level=16):
    """Return the share of pixels that differ by more than `level` out of 255."""
    return (np.abs(first.colours.astype(int) - second.colours).max(axis=2) > level).mean()


def test_texture_is_upright_and_not_mirrored(renderer):
    frame = renderer.draw(wall(Material(QUARTERS)), AHEAD, W, H)
    places = [(H // 2 - 40, W // 2 - 40), (H // 2 - 40, W // 2 + 40)]
    places += [(row + 80, column) for row, column in places]
    for position, colour in zip(places, (RED, GREEN, BLUE, YELLOW), strict=True):
        assert tuple(frame.colours[position]) == colour


def test_textures_of_a_mirrored_scene_are_mirrored(renderer):
    scene = wall(Material(QUARTERS))
    frame = renderer.draw(scene, AHEAD, W, H)
    back = Camera((4.0, 0.0, 1.5), 180.0)  # mirrored at x = 2, the plane of the wall
    flipped = renderer.draw(scene.mirrored(), back, W, H)
    assert differing_share(replace(frame, colours=frame.colours[:, ::-1]), flipped) < 0.02


def test_floor_texture_is_oriented_correctly_on_the_map(renderer):
    floor = [(-2, 2, 0), (2, 2, 0), (2, -2, 0), (-2, -2, 0)]
    frame = renderer.draw(
        textured_scene([quad(floor)], [Material(QUARTERS)]), MapCamera((0.0, 0.0), 2.0, 0.02), W, H
    )
    assert tuple(frame.colours[H // 2 - 50, W // 2 - 50]) == RED
    assert tuple(frame.colours[H // 2 + 50, W // 2 + 50]) == YELLOW


def test_all_renderers_agree_with_the_rasteriser(renderer, rasteriser):
    scene = checkerboard_room()
    cameras = [Camera((-3.0, 0.0, 1.6)), Camera((0.5, 1.0, 1.2), 200.0, -20.0)]
    cameras.append(MapCamera((0.0, 0.0), 2.5, 0.03))
    size = (W, H) if renderer.name == "raycast" else (640, 480)  # the ray caster is slow
    shares = [
        differing_share(rasteriser.draw(scene, camera, *size), renderer.draw(scene, camera, *size))
        for camera in cameras
    ]
    assert max(shares) < 0.01


@pytest.mark.parametrize(("wrap", "beyond"), [("repeat", RED), ("mirror", GREEN), ("clamp", GREEN)])
def test_texture_coordinates_are_wrapped(renderer, wrap, beyond):
    uv = [(0, 0), (1.4, 0), (1.4, 0.4), (0, 0.4)]
    scene = wall(Material(QUARTERS, wrap=(wrap, wrap)), uv)
    frame = renderer.draw(scene, AHEAD, W, H)
    pixels, _ = AHEAD.project(np.array([[2.0, -1.2, 1.5]]), W, H)
    column, row = pixels[0].astype(int)
    assert tuple(frame.colours[row, column]) == beyond


def test_tints_multiply_linear_light(renderer):
    scene = wall(Material(with_alpha(np.full((4, 4, 3), 188)), tint=(0.5, 1.0, 0.0, 1.0)))
    frame = renderer.draw(scene, AHEAD, W, H)
    # sRGB level 188 is half of the light, 137 a quarter.
    assert np.abs(frame.colours[H // 2, W // 2].astype(int) - (137, 188, 0)).max() <= 1


def test_vertex_colours_multiply_the_texture(renderer):
    tints = np.tile(np.array([188, 255, 255], np.uint8), (4, 1))
    scene = wall(Material(with_alpha(np.full((4, 4, 3), 188))), tints=tints)
    colour = renderer.draw(scene, AHEAD, W, H).colours[H // 2, W // 2].astype(int)
    # pyrender multiplies sRGB levels.
    assert np.abs(colour - (137, 188, 188)).max() <= (3 if renderer.name == "pyrender" else 1)


def test_alpha_mask_makes_holes(renderer):
    if renderer.name == "pyrender":
        pytest.skip("pyrender does not support alpha cutoffs")
    clear = np.full((64, 64), 255)
    clear[:, :32] = 0
    masked = Material(with_alpha(np.broadcast_to(RED, (64, 64, 3)), clear), alpha_cutoff=0.5)
    behind = Material(with_alpha(np.broadcast_to(BLUE, (2, 2, 3))))
    parts = [quad([(at, 2, 3), (at, -2, 3), (at, -2, 0), (at, 2, 0)]) for at in (2.0, 4.0)]
    for order in ([0, 1], [1, 0]):
        scene = textured_scene([parts[number] for number in order], [masked, behind], order)
        frame = renderer.draw(scene, AHEAD, W, H)
        assert tuple(frame.colours[H // 2, W // 2 - 20]) == BLUE
        assert tuple(frame.colours[H // 2, W // 2 + 20]) == RED
        assert frame.depth[H // 2, W // 2 - 20] == pytest.approx(4, rel=1e-3)
        assert frame.depth[H // 2, W // 2 + 20] == pytest.approx(2, rel=1e-3)
    alone = renderer.draw(textured_scene(parts[:1], [masked]), AHEAD, W, H)
    assert tuple(alone.colours[H // 2, W // 2 - 20]) == BACKGROUND
    assert np.isinf(alone.depth[H // 2, W // 2 - 20])


def test_distant_chequered_floor_is_grey_without_moire(renderer):
    side = 400.0
    floor = [(-side, side, 0), (side, side, 0), (side, -side, 0), (-side, -side, 0)]
    uv = np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * side / 4  # half-metre fields
    scene = textured_scene([quad(floor, uv)], [Material(checkerboard(16, 256))])
    frame = renderer.draw(scene, Camera((0.0, 0.0, 1.5), 31.0), 640, 480)
    depth = frame.depth
    near = frame.colours[(depth > 3) & (depth < 5)][:, 0].astype(float)
    far = frame.colours[(depth > 120) & (depth < 300)][:, 0].astype(float)
    assert near.std() > 100  # black and white
    assert far.std() < 4
    assert abs(far.mean() - 188) < 4  # half of the light, not of the level


def test_texture_is_interpolated_in_perspective(rasteriser):
    corners = [(2, 1, 2.5), (8, -2, 2.5), (8, -2, 0.5), (2, 1, 0.5)]
    ramp = with_alpha(np.repeat(np.linspace(0, 255, 256)[None, :, None], 3, axis=2))
    scene = textured_scene([quad(corners)], [Material(ramp, wrap=("clamp", "clamp"))])
    frame = rasteriser.draw(scene, AHEAD, W, H)
    is_surface = frame.depth < np.inf
    along = (frame.depth[is_surface] - 2) / 6
    assert np.abs(frame.colours[is_surface][:, 0] - (along * 256 - 0.5)).max() < 1.5


def test_face_extending_behind_the_camera_is_textured(rasteriser):
    floor = [(-50, 50, 0), (50, 50, 0), (50, -50, 0), (-50, -50, 0)]
    scene = textured_scene([quad(floor)], [Material(checkerboard(100, 1024, RED, BLUE))])
    oracle = RayCaster()
    for camera in (Camera((0.3, 0.2, 1.6), 30.0, -50.0), Camera((0.3, 0.2, 0.2), 100.0, -3.0)):
        assert (
            differing_share(rasteriser.draw(scene, camera, W, H), oracle.draw(scene, camera, W, H))
            == 0
        )


@pytest.mark.parametrize("size", [(1, 1), (64, 64), (7, 5), (1, 33)])
def test_mip_levels_preserve_the_mean_light(size):
    image = np.random.default_rng(3).integers(0, 256, (*size, 4)).astype(np.uint8)
    levels = mip_levels(Material(image))
    assert levels[-1].shape == (1, 1, 4)
    light = ((image[..., :3] / 255 + 0.055) / 1.055) ** 2.4
    light = np.where(image[..., :3] <= 10, image[..., :3] / 255 / 12.92, light)
    mean = light.mean(axis=(0, 1))
    expected = 1.055 * mean ** (1 / 2.4) - 0.055
    assert np.abs(levels[-1][0, 0, :3] - 255 * expected).max() < 3
    for larger, smaller in pairwise(levels):
        assert smaller.shape[:2] == tuple(max(1, side // 2) for side in larger.shape[:2])


def test_pixels_do_not_depend_on_threads():
    scene, camera = checkerboard_room(), Camera((-3.0, 0.5, 1.6), 10.0, -10.0)
    frames = []
    for threads in (1, 3):
        renderer = Rasteriser(threads=threads)
        frames.append(renderer.draw(scene, camera, 333, 257))
        renderer.close()
    assert (frames[0].colours == frames[1].colours).all()


def test_invalid_texture_coordinates_do_not_crash(rasteriser):
    uv = np.array([(np.nan, 0), (1e30, 0), (-np.inf, 1), (0, 1)])
    for edges in ("repeat", "mirror", "clamp"):
        frame = rasteriser.draw(wall(Material(QUARTERS, wrap=(edges, edges)), uv), AHEAD, W, H)
        assert np.isfinite(frame.depth).any()


def test_invalid_texture_coordinates_never_read_out_of_bounds():
    @numba.njit(error_model="numpy")
    def compiled_within(coordinate, wrap):
        return wrap_coordinate(coordinate, wrap)

    places = (np.nan, np.inf, -np.inf, 1e300, -1e300, -1e-20, 2.75)
    assert all(
        0.0 <= compiled_within(coordinate, wrap) <= 1.0
        for coordinate in places
        for wrap in WRAPS.values()
    )
