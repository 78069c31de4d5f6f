"""Encodes and decodes PNG images, optimised for encoding speed."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
UP = 2  # PNG filter type: difference from the row above
RGB_8_BIT = bytes([8, 2, 0, 0, 0])  # IHDR: bit depth, colour type, compression, filter, interlacing


def encode_png(image: NDArray[Any]) -> bytes:
    """Encode an image, (H, W, 3) uint8 RGB, as PNG; equal images give equal bytes.

    Rendered surfaces are smooth, so a single filter type with run-length encoding compresses about as well as PIL's
    level 1, in a third of the time. Format: https://www.w3.org/TR/png-3/.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"an image must be (H, W, 3) uint8, not {image.shape} {image.dtype}")
    height, width, _ = image.shape
    if not height or not width:
        raise ValueError("an image without pixels cannot be encoded")
    rows = np.ascontiguousarray(image).reshape(height, 3 * width)
    scanlines = np.empty((height, 1 + 3 * width), np.uint8)
    scanlines[:, 0] = UP
    scanlines[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=scanlines[1:, 1:])
    compressor = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    body = compressor.compress(scanlines.data) + compressor.flush()
    header = struct.pack(">II", width, height) + RGB_8_BIT
    chunks = _chunk(b"IHDR", header), _chunk(b"IDAT", body), _chunk(b"IEND", b"")
    return SIGNATURE + b"".join(chunks)


def decode_png(data: bytes) -> NDArray[np.uint8]:
    """Decode a PNG file to (H, W, 3) uint8 RGB. Raises ValueError if it is damaged or not a PNG."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.verify()  # loading alone does not check checksums or detect a missing end
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.array(image.convert("RGB"))
    # PIL raises SyntaxError for a broken chunk, and OSError for truncated files and other formats.
    except (OSError, SyntaxError) as error:
        raise ValueError(f"not a valid PNG image ({len(data)} bytes): {error}") from error


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
