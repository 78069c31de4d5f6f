"""Pictures as the model sees them, in one numpy file that grows at its end and is read by memory map."""

from __future__ import annotations

import io
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray
from PIL import Image

from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision
from training.processor import HEIGHT, PIXELS, WIDTH

SHAPE = (HEIGHT, WIDTH, 3)
"""Of one picture: rows, columns, red green blue."""

BYTES = HEIGHT * WIDTH * 3


def as_seen(data: bytes) -> NDArray[np.uint8]:
    """Return the picture in a PNG's bytes as the model sees it, (HEIGHT, WIDTH, 3).

    The same bytes that the engine hands to the processor; the processor's own resizing differs by one
    level at the most. ValueError for a picture that the model would see in another size.
    """
    with Image.open(io.BytesIO(data)) as opened:
        return resized(opened.convert("RGB"))


def resized(picture: Image.Image) -> NDArray[np.uint8]:
    """Return an RGB picture as the model sees it; see `as_seen`."""
    cure_torchvision()
    from qwen_vl_utils import smart_resize

    limits = PIXELS["shortest_edge"], PIXELS["longest_edge"]
    size = smart_resize(picture.height, picture.width, 32, *limits)
    if size != (HEIGHT, WIDTH):
        raise ValueError(f"a picture of {picture.width} x {picture.height} would be seen as {size}")
    return np.asarray(picture.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC))


class PictureFile:
    """A numpy file of pictures, (N, HEIGHT, WIDTH, 3) of uint8, open for more of them.

    What was written counts once the file is closed: until then its header has the old number.
    """

    def __init__(self, path: Path, count: int = 0) -> None:
        """Open or begin a file; count: pictures that it keeps, the others are dropped."""
        header = _header(count)
        self.count = count
        self._file = path.open("r+b" if path.exists() else "w+b")
        self._file.truncate(len(header) + count * BYTES)
        self._file.write(header)
        self._file.seek(0, io.SEEK_END)

    def append(self, picture: NDArray[np.uint8]) -> int:
        """Write one more picture and return its number."""
        if picture.shape != SHAPE or picture.dtype != np.uint8:
            raise ValueError(f"a picture is {SHAPE} of uint8, not {picture.shape} {picture.dtype}")
        self._file.write(picture.tobytes())
        self.count += 1
        return self.count - 1

    def close(self) -> None:
        """Write how many pictures there are."""
        self._file.seek(0)
        self._file.write(_header(self.count))
        self._file.close()

    def __enter__(self) -> PictureFile:
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


def load_pictures(path: Path) -> NDArray[np.uint8]:
    """Return the pictures of a file, (N, HEIGHT, WIDTH, 3), read from disk as they are used."""
    return npy.open_memmap(path, mode="r")


def _header(count: int) -> bytes:
    """Return a header for so many pictures; numpy makes it as long for any number."""
    stream = io.BytesIO()
    form = {"descr": "|u1", "fortran_order": False, "shape": (count, *SHAPE)}
    npy.write_array_header_1_0(stream, form)
    return stream.getvalue()
