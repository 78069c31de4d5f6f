"""Images as the model sees them, in a numpy file that can be appended to and memory-mapped."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image

from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision
from training.processor import HEIGHT, PIXELS, WIDTH

SHAPE = (HEIGHT, WIDTH, 3)  # rows, columns, RGB of one image

BYTES = HEIGHT * WIDTH * 3


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """Decode a PNG to the image that the model sees, (HEIGHT, WIDTH, 3).

    Matches what the engine passes to the processor; the processor's own resizing differs by at most one level.
    Raises ValueError if the model would see the image in another size.
    """
    with Image.open(io.BytesIO(data)) as image:
        return resize(image.convert("RGB"))


def resize(picture: Image.Image) -> NDArray[np.uint8]:
    """Resize an RGB image to what the model sees; see `decode_image`."""
    patch_torchvision()
    from qwen_vl_utils import smart_resize

    limits = PIXELS["shortest_edge"], PIXELS["longest_edge"]
    size = smart_resize(picture.height, picture.width, 32, *limits)
    if size != (HEIGHT, WIDTH):
        raise ValueError(
            f"an image of {picture.width} x {picture.height} would be resized to {size}"
        )
    return np.asarray(picture.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


class ImageFile:
    """An appendable numpy file of images, (N, HEIGHT, WIDTH, 3) uint8.

    The header is updated on close, so images appended before a crash do not count.
    """

    def __init__(self, path: Path, count: int = 0) -> None:
        """Open or create a file. Keeps the first `count` images and drops the rest."""
        header = _header(count)
        self.count = count
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(len(header) + count * BYTES)
        self._file.write(header)
        self._file.seek(0, io.SEEK_END)

    def append(self, picture: NDArray[np.uint8]) -> int:
        """Append an image and return its row."""
        if picture.shape != SHAPE or picture.dtype != np.uint8:
            raise ValueError(
                f"expected an image of {SHAPE} uint8, not {picture.shape} {picture.dtype}"
            )
        self._file.write(picture.tobytes())
        self.count += 1
        return self.count - 1

    def close(self) -> None:
        """Write the number of images to the header."""
        self._file.seek(0)
        self._file.write(_header(self.count))
        self._file.close()

    def __enter__(self) -> ImageFile:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def load_images(path: Path) -> NDArray[np.uint8]:
    """Return the images of a file, (N, HEIGHT, WIDTH, 3), memory-mapped."""
    return npy.open_memmap(path, mode="r")


def _header(count: int) -> bytes:
    """Return the header for `count` images; its length does not depend on the number."""
    stream = io.BytesIO()
    form = {"descr": "|u1", "fortran_order": False, "shape": (count, *SHAPE)}
    npy.write_array_header_1_0(stream, form)
    return stream.getvalue()
