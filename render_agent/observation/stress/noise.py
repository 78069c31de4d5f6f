"""`--pictures noise`: what a dialogue comes to whose pictures show nothing, and are not all the same."""

from __future__ import annotations

import hashlib

import numpy as np

from render_agent.observation.stress.base import Painted, Picture, PictureKeeper, PictureStress


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
