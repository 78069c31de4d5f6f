"""Pictures that show nothing of the scene: black, or noise. The dialogue stays what it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Paint = Callable[[str, Picture], Picture]
"""Gives what is shown, (H, W, 3), for a picture's file and what was drawn."""

NOTES = {
    "black": "stress test: every picture is black (--pictures black)",
    "noise": "stress test: every picture is noise (--pictures noise)",
    "shuffled": "stress test: the pictures show another question's scene (--pictures shuffled)",
    "mirrored": "stress test: the rooms are mirrored, left for right (--pictures mirrored)",
}
"""What must be said beside every figure of a run whose pictures are not the real ones."""


class PictureKeeper(Protocol):
    """Where the pictures of a run are kept."""

    def keep(self, file: str, picture: Picture) -> Future[None]:
        """Write a picture (H, W, 3) beside other work; done when it is on disk."""
        ...

    def there(self, file: str) -> bool:
        """Whether a picture is on disk."""
        ...


class Painted:
    """Keeps something else in the place of every picture."""

    def __init__(self, pictures: PictureKeeper, paint: Paint) -> None:
        self._pictures = pictures
        self._paint = paint

    def keep(self, file: str, picture: Picture) -> Future[None]:
        """Write what is shown in the place of a picture."""
        return self._pictures.keep(file, self._paint(file, picture))

    def there(self, file: str) -> bool:
        """Whether a picture is on disk."""
        return self._pictures.there(file)


def painted(pictures: PictureKeeper, kind: str, seed: int) -> PictureKeeper:
    """Return the keeper of what a run shows. kind: of --pictures."""
    if kind == "black":
        return Painted(pictures, lambda file, picture: np.zeros_like(picture))
    if kind == "noise":
        return Painted(pictures, lambda file, picture: noise(picture.shape, file, seed))
    return pictures


def noise(shape: tuple[int, ...], file: str, seed: int) -> Picture:
    """Return uniform noise that depends on shape, file name and seed alone."""
    digest = hashlib.sha256(f"{seed} {file}".encode("utf-8", "backslashreplace")).digest()
    chance = np.random.default_rng(int.from_bytes(digest, "big"))
    return chance.integers(0, 256, shape, np.uint8)
