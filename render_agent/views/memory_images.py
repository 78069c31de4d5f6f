"""Images kept in memory instead of a run folder, for dialogues that are not recorded."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.views.image_store import ImageStore


class MemoryImages(ImageStore):
    """The images of one dialogue, in memory."""

    def __init__(self) -> None:
        super().__init__(Path())
        self._images: dict[str, Image.Image] = {}

    def save(self, file: str, image: NDArray[np.uint8]) -> Future[None]:
        """Keep an image, (H, W, 3)."""
        self._images[file] = Image.fromarray(image)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def wait_for(self, files: Iterable[str]) -> dict[str, str]:
        """Return no digests, because there are no files."""
        return {}

    def get(self, file: str) -> Image.Image:
        return self._images[file]

    def is_saved(self, file: str, digest: str | None = None) -> bool:
        """Return True if the image is in memory."""
        return file in self._images
