"""Surface coverage: the share of a room's visible surface that was seen."""

import numpy as np
import pytest
from factories.scenes import box, joined

from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.visibility.coverage import (
    DIRECTIONS,
    REACH_METRES,
    SIDE_PIXELS,
    Surface,
    free_places,
    sample_surface,
)

SIZE = np.array([4.0, 3.0, 2.5])
MIDDLE = (2.0, 1.5, 1.25)


def scene(*furniture, cloud=False):
    """Return a room of SIZE with some boxes in it."""
    points, colours, faces = joined(box((0, 0, 0), SIZE, (200, 200, 200), cells=20), *furniture)
    bounds = np.array([np.zeros(3), SIZE])
    if cloud:
        rng = np.random.default_rng(1)
        corners = points[faces].astype(float)
        area = np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        )
        face_indices = rng.choice(len(faces), 60_000, p=area / area.sum())
        a, b = rng.random((2, len(face_indices), 1))
        a, b = np.where(a + b > 1, 1 - a, a), np.where(a + b > 1, 1 - b, b)
        p, q, r = (corners[face_indices, corner] for corner in range(3))
        points, faces = (p + a * (q - p) + b * (r - p)).astype(np.float32), None
        colours = np.full((len(points), 3), 200, np.uint8)
    return Scene("room", points, colours, faces, 0.0, 2.5, bounds)


def surface_of(room, renderer):
    return Surface.of(room, FreeSpace.of(room), renderer)


def visible_points(surface, room, renderer, camera, side=120):
    return surface.seen(renderer.draw(room, camera, side, side), camera)


def test_samples_are_on_the_surface_even_and_deterministic():
    room = scene()
    points = sample_surface(room)
    assert (points == sample_surface(room)).all()
    on_sides = [
        np.isclose(points[:, axis], end, atol=1e-5) for axis in range(3) for end in (0, SIZE[axis])
    ]
    assert np.any(on_sides, axis=0).all()
    areas = np.repeat([SIZE[1] * SIZE[2], SIZE[0] * SIZE[2], SIZE[0] * SIZE[1]], 2)
    assert [side.mean() for side in on_sides] == pytest.approx(areas / areas.sum(), abs=0.002)


@pytest.mark.parametrize("cloud", [False, True])
def test_views_cover_an_empty_room_and_each_shows_its_part(cloud):
    room, renderer = scene(cloud=cloud), Rasteriser(1)
    surface = surface_of(room, renderer)
    assert len(surface.points) >= 0.97 * len(sample_surface(room))
    views = [Camera(MIDDLE, yaw, pitch, 90.0) for yaw, pitch in DIRECTIONS]
    masks = [visible_points(surface, room, renderer, camera) for camera in views]
    assert np.any(masks, axis=0).mean() == pytest.approx(1.0, abs=0.01)
    for camera, points in zip(views, masks, strict=True):
        local = camera.to_camera_frame(surface.points)
        inside = (np.abs(local[:, :2]).max(axis=1) < local[:, 2]) & (local[:, 2] > 0)
        assert (points != inside).mean() < 0.01


def test_occluded_and_distant_surface_is_not_seen():
    renderer = Rasteriser(1)
    screen = box((2.5, 0.2, 0.0), (2.6, 2.8, 2.2), (10, 10, 10), cells=20)
    room = scene(screen)
    surface = surface_of(room, renderer)
    camera = Camera((0.5, 1.5, 1.2), 0.0, 0.0, 90.0)
    mask = visible_points(surface, room, renderer, camera)
    behind = (surface.points[:, 0] > 2.7) & (surface.points[:, 2] < 1.2)
    behind &= np.abs(surface.points[:, 1] - 1.5) < 1.0
    assert behind.sum() > 100
    assert not mask[behind].any()
    front = np.isclose(surface.points[:, 0], 2.5, atol=1e-4)
    assert mask[front].mean() > 0.95
    far = Surface(np.array([[0.5 + REACH_METRES + 0.1, 1.5, 1.2]]))
    assert not visible_points(far, room, renderer, camera).any()


def test_visible_surface_is_exact_with_few_images():
    room, renderer, drawn_cameras = (
        scene(box((1, 1, 0), (2, 2, 1.0), (90, 90, 90), cells=10)),
        Rasteriser(),
        [],
    )

    class CountingRenderer:
        def draw(self, *view):
            drawn_cameras.append(view)
            return renderer.draw(*view)

    space = FreeSpace.of(room)
    everywhere = Surface(sample_surface(room))
    cameras = [Camera(p, *angles, 90.0) for p in free_places(space) for angles in DIRECTIONS]
    visible = [
        visible_points(everywhere, room, renderer, camera, SIDE_PIXELS) for camera in cameras
    ]
    surface = Surface.of(room, space, CountingRenderer())
    assert np.array_equal(surface.points, everywhere.points[np.any(visible, axis=0)])
    assert 6 <= len(drawn_cameras) < len(cameras)


def test_degenerate_scene_has_no_surface():
    degenerate = Scene(
        "n", np.zeros((3, 3), np.float32), np.zeros((3, 3), np.uint8),
        np.array([[0, 1, 2]], np.int32), 0.0, 1.0, np.zeros((2, 3)),
    )  # fmt: skip
    assert sample_surface(degenerate).shape == (0, 3)
