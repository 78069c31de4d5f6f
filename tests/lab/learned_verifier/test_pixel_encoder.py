"""The pixel encoder: the map rotates with the camera, and a token finds its cell."""

import numpy as np
import pytest
from PIL import Image

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent.scans.camera import Camera, MapCamera
from render_agent_lab.learned_verifier.encoder import EncoderInput, FeatureCache
from render_agent_lab.learned_verifier.encoder_registry import check_encoder, make_encoder
from render_agent_lab.learned_verifier.pixels import (
    CODE,
    COLUMNS,
    CONTENT,
    MAP_ROWS,
    NAME_TOKENS,
    SIDE_METRES,
    VIEW_ROWS,
    PixelEncoder,
)

SIZE = 240
MAP = MapCamera((1.0, 2.0), 2.0, 2 * SIDE_METRES / SIZE)


def image_of(colours):
    return Image.fromarray(np.asarray(colours, np.uint8))


def draw_map(red):
    """Return a 24 m by 24 m map that is red where `red(x, y)` in metres is true, blue elsewhere."""
    v, u = np.mgrid[:SIZE, :SIZE] + 0.5
    x = (u - SIZE / 2) * MAP.metres_per_pixel + MAP.centre[0]
    y = (SIZE / 2 - v) * MAP.metres_per_pixel + MAP.centre[1]
    return image_of(np.where(red(x, y)[..., None], [255, 0, 0], [0, 0, 255]))


def cells(camera, plan, view=None):
    files = {"view": view or image_of(np.zeros((48, 64, 3))), "map": plan}
    view_input = EncoderInput(View(1, "ego", "view", camera), View(0, "top", "map", MAP), camera)
    (encoded,) = PixelEncoder().encode_views([view_input], files.__getitem__)
    return encoded[: VIEW_ROWS * COLUMNS], encoded[VIEW_ROWS * COLUMNS :].reshape(
        MAP_ROWS, COLUMNS, CONTENT + CODE
    )


@pytest.mark.parametrize(
    ("yaw", "rows", "columns"),
    [
        (90, slice(0, 4), slice(None)),
        (-90, slice(4, 8), slice(None)),
        (0, slice(None), slice(0, 4)),
        (180, slice(None), slice(4, 8)),
    ],
)
def test_map_rotates_with_the_camera(yaw, rows, columns):
    _, around = cells(Camera((1.0, 2.0, 1.6), yaw), draw_map(lambda x, y: y > 2))
    red = around[..., 0] > 0
    expected = np.zeros((MAP_ROWS, COLUMNS), bool)
    expected[rows, columns] = True
    np.testing.assert_array_equal(red, expected)


def test_cells_outside_the_map_are_empty():
    _, around = cells(Camera((30.0, 2.0, 1.6), 0.0), draw_map(lambda x, y: y > 2))
    assert not around[..., :CONTENT].any()
    camera = Camera((0.0, 0.0, 1.6))
    view_input = EncoderInput(View(0, "ego", "view", camera), None, camera)
    (encoded,) = PixelEncoder().encode_views(
        [view_input], lambda file: image_of(np.ones((9, 9, 3)))
    )
    assert not encoded[VIEW_ROWS * COLUMNS :, :CONTENT].any()
    assert encoded[: VIEW_ROWS * COLUMNS, :CONTENT].any()
    assert np.isfinite(encoded).all()


def test_view_cells_are_in_image_order():
    colours = np.zeros((60, 80, 3))
    colours[15:30, 70:] = 255  # the second row, the last column
    seen, _ = cells(Camera((1.0, 2.0, 1.6)), draw_map(lambda x, y: y > 2), image_of(colours))
    bright = np.flatnonzero(seen[:, :12].mean(1) > 0)
    assert bright.tolist() == [COLUMNS + COLUMNS - 1]


def question(text, kind="object_counting"):
    return Question("1", "rooms", "rooms", "room", kind, text, "number")


def test_tokens_encode_only_type_and_named_categories():
    encoder = PixelEncoder()
    chair, again, sofa = (
        encoder.encode_question(question(f"How many {name}(s) are in {where} room?"))[-NAME_TOKENS:]
        for name, where in (("chair", "this"), ("chair", "the"), ("sofa", "this"))
    )
    np.testing.assert_array_equal(chair, again)
    np.testing.assert_array_equal(chair[0], sofa[0])  # the question type
    assert abs(chair[1] @ sofa[1]) < 0.5
    assert not chair[2:].any()
    np.testing.assert_allclose(np.linalg.norm(chair[:2], axis=1), 1, atol=1e-6)


def test_features_are_cached_and_depend_on_the_pose():
    files = []
    plan = draw_map(lambda x, y: y > 2)

    def load_image(file):
        files.append(file)
        return plan

    cache = FeatureCache(PixelEncoder(), load_image)
    camera = Camera((1.0, 2.0, 1.6))
    view, map_view = View(1, "ego", "view", camera), View(0, "top", "map", MAP)
    chairs = question("How many chair(s) are in this room?")
    here, turned = (EncoderInput(view, map_view, pose) for pose in (camera, camera.turned(90)))
    first, second, other = cache.features([(here, chairs), (here, chairs), (turned, chairs)])
    assert first is second is cache.features([(here, chairs)])[0]
    assert sorted(files) == ["map", "view", "view"]
    assert np.abs(first.patches - other.patches).max() > 0.1


def test_different_encoder_is_rejected():
    encoder = make_encoder("pixels")
    check_encoder(encoder, {"label": "pixels", **encoder.describe()})
    with pytest.raises(SetupError, match="version"):
        check_encoder(encoder, {"label": "pixels", **encoder.describe(), "version": 0})
    with pytest.raises(SetupError, match="clip"):
        make_encoder("clip")
