"""`--pictures black` and `--pictures noise`: every picture is replaced by one that shows nothing."""

from __future__ import annotations

import hashlib

import numpy as np

from render_agent.views.stress.image_stress import Painted, Picture, PictureKeeper, PictureStress


class Black(PictureStress):
    """Every picture is black; the dialogue stays what it is."""

    note = "stress test: every picture is black (--pictures black)"
    faithful = False

    def painted(self, pictures: PictureKeeper, seed: int) -> PictureKeeper:
        """Return a keeper of black pictures."""
        return Painted(pictures, lambda file, picture: np.zeros_like(picture))


class Noise(PictureStress):
    """Every picture is noise; the dialogue stays what it is."""

    note = "stress test: every picture is noise (--pictures noise)"
    faithful = False

    def painted(self, pictures: PictureKeeper, seed: int) -> PictureKeeper:
        """Return a keeper of noise."""
        return Painted(pictures, lambda file, picture: noise(picture.shape, file, seed))


def noise(shape: tuple[int, ...], file: str, seed: int) -> Picture:
    """Return uniform noise that depends on shape, file name and seed alone."""
    digest = hashlib.sha256(f"{seed} {file}".encode("utf-8", "backslashreplace")).digest()
    chance = np.random.default_rng(int.from_bytes(digest, "big"))
    return chance.integers(0, 256, shape, np.uint8)
