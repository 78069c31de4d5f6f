"""Views shown to the model: directions, labels and determinism."""

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.rooms import BLUE, GREEN, RED, as_cloud, box, find_pixels, room

from render_agent.options import VIEW_TYPES
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.viewer import Viewer
from render_agent.scans.camera import Camera, vertical_from_horizontal

SIZE = 640, 480
EYES = (1.0, 0.0, 1.6)

AHEAD = box((4.2, -0.3, 0.6), (4.8, 0.3, 1.8), RED)
LEFT = box((0.7, 1.8, 0.6), (1.3, 2.3, 1.8), GREEN)
RIGHT = box((0.7, -1.9, 0.6), (1.3, -1.4, 1.8), BLUE)


@pytest.fixture(scope="module")
def viewer():
    instance = Viewer(Rasteriser(), SIZE, 75.0)
    yield instance
    instance.close()


def quarters(image):
    """Return the four quarters of an `around` image by direction."""
    height, width, _ = image.shape
    top, bottom = np.s_[: height // 2 - 4], np.s_[height // 2 + 4 :]
    left, right = np.s_[: width // 2 - 4], np.s_[width // 2 + 4 :]
    return {
        "ahead": image[top, left],
        "right": image[top, right],
        "left": image[bottom, left],
        "behind": image[bottom, right],
    }


def test_ego_view_is_the_unmodified_frame(viewer):
    scene, camera = room(AHEAD), Camera(EYES)
    view = viewer.ego(scene, camera)
    frame = viewer.renderer.draw(scene, camera, *SIZE)
    assert np.array_equal(view.image, frame.colours)
    assert np.array_equal(view.depth, frame.depth)
    assert (view.camera, view.kind) == (camera, "ego")


@pytest.mark.parametrize("shape", ["mesh", "cloud"])
@pytest.mark.parametrize("yaw", [0, 90])
def test_around_shows_each_direction_in_its_quarter(viewer, shape, yaw):
    scene = room(AHEAD, LEFT, RIGHT)
    scene = as_cloud(scene, 0.03) if shape == "cloud" else scene
    view = viewer.around(scene, Camera(EYES, yaw))
    sides = quarters(view.image)
    order = ["ahead", "left", "behind", "right"]
    for name, colour, bearing in (("red", RED, 0), ("green", GREEN, 90), ("blue", BLUE, -90)):
        expected = order[(bearing - yaw) // 90 % 4]
        matching = [
            side for side, part in sides.items() if len(find_pixels(part, colour, 40)) > 200
        ]
        assert matching == [expected], name
    assert view.camera.yaw == yaw
    assert view.image.shape == (480, 640, 3)


def test_around_covers_all_directions(viewer):
    scene = room(AHEAD)
    for yaw in range(0, 360, 15):
        image = viewer.around(scene, Camera(EYES, yaw)).image
        assert len(find_pixels(image, RED, 30)), yaw


def test_wide_around_view_is_a_strip():
    strip = Viewer(Rasteriser(), (1280, 320), 75.0)
    image = strip.around(room(AHEAD, LEFT, RIGHT), Camera(EYES)).image
    middles = [find_pixels(image, colour, 30)[:, 0].mean() for colour in (GREEN, RED, BLUE)]
    assert middles == pytest.approx([160, 480, 800], abs=12)
    strip.close()


@pytest.mark.parametrize("size", [(320, 240), (1024, 768)])
def test_every_quarter_is_labelled(size):
    viewer = Viewer(Rasteriser(), size, 75.0)
    scene = room()
    camera = Camera(EYES, 30)
    parts = quarters(viewer.around(scene, camera).image)
    for part in parts.values():
        band = part[: round(28 * size[1] / 480)]
        text_columns = np.flatnonzero((band < 60).all(axis=2).any(axis=0))
        assert np.mean([text_columns.min(), text_columns.max()]) == pytest.approx(
            part.shape[1] / 2, abs=6
        )
        assert np.ptp(text_columns) > 0.2 * part.shape[1]
    viewer.close()


@pytest.mark.parametrize("kind", VIEW_TYPES)
@pytest.mark.parametrize("shape", ["mesh", "cloud"])
def test_views_are_deterministic(viewer, kind, shape):
    scene = room(AHEAD, LEFT)
    scene = as_cloud(scene, 0.04) if shape == "cloud" else scene
    camera, trail = Camera((2.0, 0.5, 1.6), 40), [Camera((1.0, 0.0, 1.6))]
    first = viewer.draw(kind, scene, camera, trail)
    viewer.draw("ego", scene, Camera((3.0, -1.0, 1.2), 200), [])
    single_threaded = Viewer(Rasteriser(threads=1), SIZE, 75.0)
    for repeated in (
        viewer.draw(kind, scene, camera, trail),
        single_threaded.draw(kind, scene, camera, trail),
    ):
        assert first.image.tobytes() == repeated.image.tobytes()
        assert first.camera == repeated.camera
    assert first.image.dtype == np.uint8
    assert first.image.shape == (480, 640, 3)
    assert first.kind == kind
    single_threaded.close()


def test_modifying_an_image_does_not_affect_later_ones(viewer):
    scene, camera = room(AHEAD), Camera(EYES)
    for kind in VIEW_TYPES:
        first = viewer.draw(kind, scene, camera).image
        before = first.copy()
        first[:] = 0
        assert np.array_equal(viewer.draw(kind, scene, camera).image, before)


@pytest.mark.parametrize(
    "name",
    mostly_slow(
        ["aws_small_house.ply", "icl_redwood_livingroom1.ply", "pcl_room_scan_nocolour.ply"],
        "pcl_room_scan_nocolour.ply",
    ),
)
def test_real_scans_can_be_drawn_in_every_kind_of_view(name):
    from render_agent.scans.formats.load import load_scene

    scene = load_scene(test_data("scenes", name))
    viewer = Viewer(Rasteriser(), (320, 240), 75.0)
    x, y = scene.bounds[:, :2].mean(axis=0)
    camera = Camera((x, y, scene.floor + 1.2), 0, -10, vertical_from_horizontal(75, 320, 240))
    for kind in VIEW_TYPES:
        image = viewer.draw(kind, scene, camera, [camera.turned(90)]).image
        assert image.reshape(-1, 3).std(axis=0).min() > 8, kind
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 100, kind
    viewer.close()
