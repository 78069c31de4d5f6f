"""The pictures of a scan's materials, opened by their headers and decoded within bounds."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from PIL import BmpImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TgaImagePlugin
from PIL import WebPImagePlugin as WebpImagePlugin

from render_agent.scans.formats.reading_process import NeedsProcess, Refused
from render_agent.util.reasons import short_repr

MAX_TEXELS = 1 << 26
"""Pixels that all pictures of a scan keep together; larger pictures are reduced."""

MAX_PICTURE_PIXELS = 1 << 28
"""Pixels that one picture may have when it is decoded: 16,384 by 16,384."""

MAX_WEBP_PIXELS = 1 << 26
"""The same for WebP, whose decoder holds a picture several times."""

MAX_DECODED_PIXELS = 1 << 29
"""Pixels that all pictures of a scan may have together when they are decoded."""

MAX_PIXELS_HERE = 1 << 24
"""The same where they are not decoded in a process of their own."""

MAX_SIDE = 8192
"""Pixels of a side that graphics cards take for certain."""

MAX_FILE_BYTES = 1 << 30

KTX2 = b"\xabKTX 20\xbb\r\n\x1a\n"


Key = TypeVar("Key")

REDUCED_NOTE = "Its pictures are shown smaller than they are, for memory."


class Unusable(Exception):
    """A picture that cannot be shown; the scan is drawn without it. The message says why."""


@dataclass(eq=False)
class Picture:
    """A picture whose header was read. size: width and height in pixels, before it is reduced."""

    image: Any
    size: tuple[int, int]
    step: int = 1

    @classmethod
    def of(cls, data: bytes | memoryview, name: str = "") -> Picture:
        """Return the picture in `data`. Unusable where it is none; Refused where it is too large, or KTX2.

        name: its file name, for kinds that are not known by their first bytes.
        """
        start = bytes(data[:32])
        if start.startswith(KTX2):
            raise Refused(
                "its pictures are KTX2 (Basis Universal), which nothing here decodes",
                "convert it by `gltf-transform ktxdecompress IN.glb OUT.glb`",
            )
        kind: Any = None
        if start.startswith(b"\x89PNG"):
            kind = PngImagePlugin.PngImageFile
        elif start.startswith(b"\xff\xd8"):
            kind = JpegImagePlugin.JpegImageFile
        elif start[:4] == b"RIFF" and start[8:12] == b"WEBP":
            _check_size(_webp_size(start), MAX_WEBP_PIXELS)
            kind = WebpImagePlugin.WebPImageFile
        elif start.startswith(b"BM"):
            kind = BmpImagePlugin.BmpImageFile
        elif name.lower().endswith(".tga"):
            kind = TgaImagePlugin.TgaImageFile
        if kind is None:
            raise Unusable("it is no PNG, JPEG, WebP, BMP or TGA")
        try:
            # The plug-in is called, as Image.open refuses by its own bounds before it tells the size.
            image = kind(io.BytesIO(data))
        except Exception as error:  # decoders raise whatever their line of code happens to raise
            raise Unusable("it is torn") from error
        width, height = image.size
        _check_size((width, height), MAX_PICTURE_PIXELS)
        return cls(image, (width, height))

    @property
    def decoded_pixels(self) -> int:
        """The pixels that decoding it takes; a JPEG is decoded at half the size, or less."""
        width, height = self.size
        share = min(self.step, 8) if isinstance(self.image, JpegImagePlugin.JpegImageFile) else 1
        return width * height // share**2

    @property
    def texels(self) -> int:
        """The pixels that are kept of it."""
        return -(-self.size[0] // self.step) * -(-self.size[1] // self.step)

    def decoded(self) -> NDArray[np.uint8]:
        """Return it as (h, w, 4) uint8, reduced by its step. Unusable where it is torn."""
        image, self.image = self.image, None
        try:
            if self.step > 1 and isinstance(image, JpegImagePlugin.JpegImageFile):
                image.draft(None, (self.size[0] // self.step, self.size[1] // self.step))
            if image.mode.startswith("I"):  # 16 bits of grey, which PIL would cut off at 255
                image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
            if image.mode == "P":
                image = image.convert("RGBA")
            left = max(1, round(self.step * image.size[0] / self.size[0]))
            if left > 1:
                image = image.reduce(left)
            return np.ascontiguousarray(image.convert("RGBA"))
        except MemoryError:
            raise
        except Exception as error:  # as above
            raise Unusable("it is torn") from error


def _check_size(size: tuple[int, int], most: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise Unusable("it has no pixels")
    if width * height > most:
        side = int(most**0.5)
        raise Refused(
            f"a picture of it has {width:,} x {height:,} pixels",
            f"make that at most {side:,} x {side:,}",
        )


def _webp_size(start: bytes) -> tuple[int, int]:
    """Return the width and height that the first 32 bytes of a WebP file name."""
    chunk, body = start[12:16], start[20:32].ljust(12, b"\0")
    if chunk == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if chunk == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    sides = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
    return sides[0] & 0x3FFF, sides[1] & 0x3FFF


def fit(pictures: Sequence[Picture], *, apart: bool) -> bool:
    """Set the steps by which pictures are reduced so that all fit; return whether any is.

    apart: whether this is a process of its own; NeedsProcess where it has to be. Refused where decoding them takes
    too many pixels all the same.
    """
    for picture in pictures:
        while max(picture.size) > MAX_SIDE * picture.step:
            picture.step *= 2
    while sum(picture.texels for picture in pictures) > MAX_TEXELS:
        largest = max(pictures, key=lambda picture: picture.texels)
        largest.step *= 2
    total = sum(picture.decoded_pixels for picture in pictures)
    if total > MAX_DECODED_PIXELS:
        raise Refused(
            f"its {len(pictures)} pictures have {total:,} pixels",
            f"reduce them to {MAX_DECODED_PIXELS:,} in all, or save them as JPEG",
        )
    if total > MAX_PIXELS_HERE and not apart:
        raise NeedsProcess
    return any(picture.step > 1 for picture in pictures)


def decoded(
    sources: Mapping[Key, Callable[[], Picture]], *, apart: bool
) -> tuple[dict[Key, NDArray[np.uint8]], list[str]]:
    """Return pictures, (h, w, 4) uint8, by their key, and notes about them.

    sources: open each; all headers are read before any is decoded. Those that cannot be shown are left
    out. apart: as in `fit`. Refused where they are too large.
    """
    pictures: dict[Key, Picture] = {}
    by_key: dict[Key, NDArray[np.uint8]] = {}
    notes: list[str] = []
    for key, opened in sources.items():
        try:
            pictures[key] = opened()
        except Unusable as error:
            notes.append(f"A picture of it is not shown: {error}.")
    if fit(list(pictures.values()), apart=apart):
        notes.append(REDUCED_NOTE)
    for key, picture in pictures.items():
        try:
            by_key[key] = picture.decoded()
        except Unusable as error:
            notes.append(f"A picture of it is not shown: {error}.")
    return by_key, list(dict.fromkeys(notes))


def file_beside(folder: Path, name: str) -> bytes:
    """Return the content of a file that a scan in `folder` names, or of a data URI.

    Unusable where it is not there, or lies outside the folder: a scan may not open other files.
    """
    if name.lower().startswith("data:"):
        return _embedded(name)
    if "\0" in name or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", name):
        raise Unusable(f"{short_repr(name)} is no file beside it")
    for spelling in (unquote(name), name):
        path = folder / spelling.replace("\\", "/")
        try:
            inside = path.resolve().is_relative_to(folder.resolve())
            if not inside:
                raise Unusable(f"{short_repr(name)} lies outside its folder")
            if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                return path.read_bytes()
        except (OSError, ValueError, RuntimeError):  # no such name, no right, a loop of links
            continue
    raise Unusable(f"{short_repr(name)} is not there")


def _embedded(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    try:
        if head.lower().endswith(";base64"):
            return base64.b64decode(unquote(body), validate=False)
        return os.fsencode(unquote(body))
    except (binascii.Error, ValueError) as error:
        raise Unusable("its data URI is torn") from error
