"""What goes into a PNG comes out of it, and readers other than ours agree."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from render_agent.render.png import decode, encode

pictures = arrays.arrays(
    np.uint8,
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)),
    elements=st.integers(0, 255),
)


@settings(max_examples=60, deadline=None)
@given(pictures)
def test_round_trip_is_exact(picture):
    assert np.array_equal(decode(encode(picture)), picture)


def test_strided_pictures_are_written_as_they_look():
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for look in (picture[::2, ::-1], picture.transpose(1, 0, 2), picture[..., ::-1]):
        assert np.array_equal(decode(encode(look)), look)


def test_another_reader_checks_every_chunk():
    picture = np.random.default_rng(1).integers(0, 256, (33, 47, 3), dtype=np.uint8)
    with Image.open(io.BytesIO(encode(picture))) as image:
        image.verify()
    with Image.open(io.BytesIO(encode(picture))) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (47, 33))


def test_a_smooth_picture_shrinks_and_equal_pictures_give_equal_bytes():
    ramp = np.linspace(0, 255, 640).astype(np.uint8)
    picture = np.broadcast_to(ramp[None, :, None], (480, 640, 3))
    assert encode(picture) == encode(picture.copy())
    assert len(encode(picture)) < picture.size / 50


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_arrays_that_are_no_image_are_refused(picture):
    with pytest.raises(ValueError, match="picture"):
        encode(picture)


def test_damaged_png_files_are_refused():
    whole = encode(np.arange(300, dtype=np.uint8).reshape(10, 10, 3) * 7)
    flipped = bytearray(whole)
    flipped[50] ^= 255
    for broken in (b"", b"hello", whole[:40], whole[:-20], bytes(flipped)):
        with pytest.raises(ValueError, match="no whole PNG"):
            decode(broken)
