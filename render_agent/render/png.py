"""Pictures as PNG: lossless, written as fast as zlib allows."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
UP = 2
"""The PNG filter that stores each row as its difference from the row above."""

RGB_8_BIT = bytes([8, 2, 0, 0, 0])
"""Bit depth, colour type, compression, filtering and interlacing of the header chunk."""


def encode(picture: NDArray[Any]) -> bytes:
    """Return a picture, (H, W, 3) uint8 RGB, as the bytes of a PNG file; equal pictures, equal bytes.

    Rendered surfaces are smooth: one filter for all rows and run lengths alone come out about as
    small as PIL's level 1, in a third of its time. Format: https://www.w3.org/TR/png-3/. ValueError for
    another shape or type, or a picture without pixels.
    """
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
        raise ValueError(f"a picture is (H, W, 3) uint8, not {picture.shape} {picture.dtype}")
    height, width, _ = picture.shape
    if not height or not width:
        raise ValueError("a picture without pixels cannot be written")
    rows = np.ascontiguousarray(picture).reshape(height, 3 * width)
    filtered = np.empty((height, 1 + 3 * width), np.uint8)
    filtered[:, 0] = UP
    filtered[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    squeeze = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    body = squeeze.compress(filtered.data) + squeeze.flush()
    header = struct.pack(">II", width, height) + RGB_8_BIT
    chunks = _chunk(b"IHDR", header), _chunk(b"IDAT", body), _chunk(b"IEND", b"")
    return SIGNATURE + b"".join(chunks)


def decode(data: bytes) -> NDArray[np.uint8]:
    """Return the picture of a PNG file's bytes, (H, W, 3) uint8 RGB.

    ValueError where they are no whole PNG file.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.verify()  # loading alone skips the checksums and closes its eyes to a lost end
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.array(image.convert("RGB"))
    # PIL reports a broken chunk as SyntaxError and a truncated or foreign file as OSError.
    except (OSError, SyntaxError) as error:
        raise ValueError(f"these {len(data)} bytes are no whole PNG picture: {error}") from error


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
