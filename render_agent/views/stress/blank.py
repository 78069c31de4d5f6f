"""`--image-stress black` and `--image-stress noise`: images without content."""

from __future__ import annotations

import hashlib

import numpy as np

from render_agent.views.stress.image_stress import (
    ImageSink,
    ImageStress,
    RGBImage,
    TransformingSink,
)


class Black(ImageStress):
    """Every image is black; nothing else changes."""

    note = "stress test: every image is black (--image-stress black)"
    faithful = False

    def wrap_store(self, images: ImageSink, seed: int) -> ImageSink:
        return TransformingSink(images, lambda file, image: np.zeros_like(image))


class Noise(ImageStress):
    """Every image is noise; nothing else changes."""

    note = "stress test: every image is noise (--image-stress noise)"
    faithful = False

    def wrap_store(self, images: ImageSink, seed: int) -> ImageSink:
        return TransformingSink(images, lambda file, image: noise_image(image.shape, file, seed))


def noise_image(shape: tuple[int, ...], file: str, seed: int) -> RGBImage:
    """Return uniform noise that depends only on shape, file name and seed."""
    digest = hashlib.sha256(f"{seed} {file}".encode("utf-8", "backslashreplace")).digest()
    generator = np.random.default_rng(int.from_bytes(digest, "big"))
    return generator.integers(0, 256, shape, np.uint8)
