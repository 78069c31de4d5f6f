"""PNG encoding and decoding, checked against PIL."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from render_agent.render.png import decode_png, encode_png

images = arrays.arrays(
    np.uint8,
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)),
    elements=st.integers(0, 255),
)


@settings(max_examples=60, deadline=None)
@given(images)
def test_round_trip_is_exact(image):
    assert np.array_equal(decode_png(encode_png(image)), image)


def test_strided_arrays_are_encoded_correctly():
    image = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    for view in (image[::2, ::-1], image.transpose(1, 0, 2), image[..., ::-1]):
        assert np.array_equal(decode_png(encode_png(view)), view)


def test_pil_verifies_every_chunk():
    data = encode_png(np.random.default_rng(1).integers(0, 256, (33, 47, 3), dtype=np.uint8))
    with Image.open(io.BytesIO(data)) as image:
        image.verify()
    with Image.open(io.BytesIO(data)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (47, 33))


def test_smooth_images_are_compressed_deterministically():
    ramp = np.linspace(0, 255, 640).astype(np.uint8)
    image = np.broadcast_to(ramp[None, :, None], (480, 640, 3))
    assert encode_png(image) == encode_png(image.copy())
    assert len(encode_png(image)) < image.size / 50


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_arrays_that_are_not_images_are_rejected(array):
    with pytest.raises(ValueError, match="image"):
        encode_png(array)


def test_damaged_png_files_are_rejected():
    data = encode_png(np.arange(300, dtype=np.uint8).reshape(10, 10, 3) * 7)
    flipped = bytearray(data)
    flipped[50] ^= 255
    for damaged in (b"", b"hello", data[:40], data[:-20], bytes(flipped)):
        with pytest.raises(ValueError, match="PNG"):
            decode_png(damaged)
