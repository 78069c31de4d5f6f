"""The contract of all renderers, tested for each one that works on this machine."""

import threading
from dataclasses import replace

import numpy as np
import pytest
from factories.raycaster import RENDERERS, renderer_by_name
from factories.rooms import BLUE, GREEN, RED, as_cloud, box, find_pixels, mesh, room

from render_agent.errors import RenderError, SetupError
from render_agent.render.renderer import BACKGROUND, NEAR_METRES
from render_agent.scans.camera import Camera, MapCamera

W, H = 320, 240
FORWARD = Camera((0.0, 0.0, 1.5))


@pytest.fixture(scope="module", params=RENDERERS)
def renderer(request):
    try:
        instance = renderer_by_name(request.param)
    except SetupError as error:
        pytest.skip(str(error))
    yield instance
    instance.close()


def pixels_of(frame, colour):
    """Return the pixels of exactly this colour, (n, 2)."""
    return find_pixels(frame.colours, colour, tolerance=0)


@pytest.mark.parametrize("yaw", [0.0, 17.0, -25.0])
@pytest.mark.parametrize("pitch", [0.0, -20.0])
def test_drawn_object_is_bounded_by_its_projected_corners(renderer, yaw, pitch):
    scene = mesh([box((3, -0.4, 1), (3.6, 0.5, 1.6), RED)])
    camera = Camera((0.0, 0.0, 1.8), yaw, pitch)
    pixels, _ = camera.project(scene.points, W, H)
    is_drawn = renderer.draw(scene, camera, W, H).depth < np.inf
    rows, columns = np.nonzero(is_drawn)
    edges = [columns.min(), rows.min()], [columns.max() + 1, rows.max() + 1]
    np.testing.assert_allclose(edges[0], pixels.min(axis=0), atol=1)
    np.testing.assert_allclose(edges[1], pixels.max(axis=0), atol=1)


def test_map_has_x_right_and_y_up(renderer):
    scene = mesh([box((1, 0, 0), (2, 1, 1), RED), box((-2, 1.5, 0), (-1, 2, 1), GREEN)])
    camera = MapCamera((0.0, 0.0), 2.0, 0.02)
    frame = renderer.draw(scene, camera, W, H)
    pixels, _ = camera.project(scene.points, W, H)
    for colour, corners in ((RED, pixels[:8]), (GREEN, pixels[8:])):
        coloured_pixels = pixels_of(frame, colour)
        np.testing.assert_allclose(coloured_pixels.min(axis=0) - 0.5, corners.min(axis=0), atol=1)
        np.testing.assert_allclose(coloured_pixels.max(axis=0) + 0.5, corners.max(axis=0), atol=1)
    middle = frame.depth[H // 2 - 25, W // 2 + 75]
    assert middle == pytest.approx(1.0, rel=1e-3)


def test_map_cuts_away_surface_above_it(renderer):
    scene = mesh(
        [box((-1, -1, 0), (1, 1, 2.5), RED), box((-0.2, -0.2, 1.9), (0.2, 0.2, 2.4), BLUE)]
    )
    frame = renderer.draw(scene, MapCamera((0.0, 0.0), 2.0, 0.02), W, H)
    inside = frame.depth[H // 2 - 40 : H // 2 + 40, W // 2 - 40 : W // 2 + 40]
    assert np.isin(np.round(inside.astype(float), 3), [0.1, 2.0]).all()
    assert frame.depth[H // 2, W // 2] == pytest.approx(0.1, rel=2e-3)


def test_depth_is_exact_on_planes(renderer):
    floor = mesh([box((-20, -20, -0.1), (20, 20, 0.0), RED), box((4, -9, 0), (4.1, 9, 9), GREEN)])
    frame = renderer.draw(floor, Camera((0.0, 0.0, 1.5)), W, H)
    # pyrender's depth is that of a sample up to half a pixel off the centre.
    slack = 0.5 if renderer.name == "pyrender" else 0.0
    nearest, furthest = (
        np.minimum(ground(np.arange(H) + 0.5 + shift), 4.0) for shift in (slack, -slack)
    )
    assert (nearest * 0.999 <= frame.depth.T).all()
    assert (furthest * 1.001 >= frame.depth.T).all()


def ground(v):
    """Return the depth of the floor, 1.5 m below a level camera, in row v; inf above the horizon."""
    below = v - H / 2
    return np.where(below > 0, 1.5 * FORWARD.focal(H) / np.where(below > 0, below, 1), np.inf)


@pytest.mark.parametrize("colour", [(1, 2, 3), (254, 128, 127)])
def test_faces_of_one_colour_have_exactly_that_colour(renderer, colour):
    scene = mesh([box((2, -5, -5), (2.1, 5, 5), colour)])
    frame = renderer.draw(scene, replace(FORWARD, pitch=-13.0, yaw=8.0), W, H)
    assert (frame.colours == colour).all()


def test_colours_are_interpolated_in_perspective(renderer):
    corners = np.array([[2, 1, 0.5], [6, -2, 0.5], [6, -2, 2.5], [2, 1, 2.5]], np.float32)
    shades = np.array([[0, 0, 0], [240, 0, 0], [240, 0, 0], [0, 0, 0]], np.uint8)
    scene = mesh([(corners, shades, np.array([[0, 1, 2], [0, 2, 3]]))])
    frame = renderer.draw(scene, FORWARD, W, H)
    is_surface = frame.depth < np.inf
    if renderer.name == "pyrender":
        middle = (
            is_surface[1:-1, 2:]
            & is_surface[1:-1, :-2]
            & is_surface[2:, 1:-1]
            & is_surface[:-2, 1:-1]
        )
        is_surface = np.zeros_like(is_surface)
        is_surface[1:-1, 1:-1] = middle
    fraction = (frame.depth[is_surface] - 2) / 4
    error = frame.colours[..., 0][is_surface] - 240 * fraction
    assert np.abs(error).max() <= (2 if renderer.name == "pyrender" else 0.6)


def test_primitives_are_exact(renderer):
    scene = room(box((2, -0.5, 0), (3, 0.5, 1), RED))
    frame = renderer.draw(scene, Camera((0.0, 0.0, 1.6), 5.0, -15.0), W, H)
    if frame.primitive is None:
        pytest.skip(f"{renderer.name} does not provide primitives")
    red = (frame.colours == RED).all(axis=2)
    assert red.any()
    assert ((frame.primitive >= len(scene.faces) - 12) == red).all()
    assert ((frame.primitive == -1) == np.isinf(frame.depth)).all()


def test_nothing_is_drawn_in_front_of_the_near_plane(renderer):
    near, far = NEAR_METRES * 0.9, NEAR_METRES * 1.1
    for distance, is_visible in ((near, False), (far, True)):
        plate = box((distance, -1, 0), (distance + 1e-4, 1, 3), RED)
        frame = renderer.draw(mesh([plate]), FORWARD, W, H)
        assert (frame.depth < np.inf).all() == is_visible
        assert (frame.depth < np.inf).any() == is_visible


def test_both_sides_of_a_triangle_are_drawn(renderer):
    corners = np.array([[2, -1, 1], [2, 1, 1], [2, 0, 2]], np.float32)
    shades = np.full((3, 3), 90, np.uint8)
    masks = [
        renderer.draw(mesh([(corners, shades, np.array([order]))]), FORWARD, W, H).depth < np.inf
        for order in ([0, 1, 2], [0, 2, 1])
    ]
    assert masks[0].any()
    assert (masks[0] == masks[1]).all()


def test_empty_pixels_are_background_at_infinite_depth(renderer):
    scene = replace(room(), faces=np.empty((0, 3), np.int32))
    frame = renderer.draw(scene, FORWARD, 7, 5)
    assert (frame.colours == BACKGROUND).all()
    assert frame.colours.shape == (5, 7, 3)
    assert np.isinf(frame.depth).all()
    behind = renderer.draw(mesh([box((-3, 0, 0), (-2, 1, 1), RED)]), FORWARD, W, H)
    assert (behind.colours == BACKGROUND).all()


def test_image_without_pixels_is_an_error(renderer):
    with pytest.raises(RenderError, match="0x10"):
        renderer.draw(room(), FORWARD, 0, 10)


def test_frame_arrays_have_the_right_types(renderer):
    frame = renderer.draw(room(), FORWARD, W, H)
    assert (frame.colours.dtype, frame.colours.shape) == (np.uint8, (H, W, 3))
    assert (frame.depth.dtype, frame.depth.shape) == (np.float32, (H, W))
    if frame.primitive is not None:
        assert (frame.primitive.dtype, frame.primitive.shape) == (np.int32, (H, W))


def test_frames_do_not_depend_on_earlier_frames_or_the_thread(renderer):
    first, second = room(box((2, -0.5, 0), (3, 0.5, 1), RED)), room()
    before = renderer.draw(first, FORWARD, W, H)
    renderer.draw(second, MapCamera((0.0, 0.0), 2.0, 0.02), H, W)
    frames = []
    thread = threading.Thread(target=lambda: frames.append(renderer.draw(first, FORWARD, W, H)))
    thread.start()
    thread.join()
    assert (frames[0].colours == before.colours).all()
    assert (frames[0].depth == before.depth).all()


def test_cloud_and_mesh_of_a_room_look_the_same(renderer):
    scene = room(box((2, -0.5, 0), (3, 0.5, 1.2), RED))
    cloud = as_cloud(scene)
    camera = Camera((0.0, 0.0, 1.6), 5.0, -10.0)
    if renderer.name == "raycast":
        with pytest.raises(RenderError, match="point cloud"):
            renderer.draw(cloud, camera, W, H)
        return
    from_mesh, from_cloud = renderer.draw(scene, camera, W, H), renderer.draw(cloud, camera, W, H)
    is_similar = np.abs(from_mesh.colours.astype(int) - from_cloud.colours).max(axis=2) <= 60
    assert is_similar.mean() > 0.95
