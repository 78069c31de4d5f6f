"""Open and decode the texture images of a scan within memory limits, checking sizes in the headers first."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray
from PIL import (
    BmpImagePlugin,
    Image,
    JpegImagePlugin,
    PngImagePlugin,
    TgaImagePlugin,
    WebPImagePlugin,
)

from render_agent.scans.formats.reading_process import NeedsChildProcess, ScanRejectedError
from render_agent.util.reasons import short_repr

# Limits in pixels.
MAX_TEXELS = 1 << 26  # kept for all images of a scan together; larger images are downscaled
MAX_IMAGE_PIXELS = 1 << 28  # one image before downscaling: 16,384 x 16,384
MAX_WEBP_PIXELS = 1 << 26  # the same for WebP, whose decoder holds several copies
MAX_DECODED_PIXELS = 1 << 29  # all images of a scan before downscaling
MAX_PIXELS_HERE = 1 << 24  # the same when decoding outside a child process
MAX_SIDE = 8192  # texture size that all graphics cards support

MAX_FILE_BYTES = 1 << 30

KTX2 = b"\xabKTX 20\xbb\r\n\x1a\n"

# Plug-ins by the start of a file. They are called directly, because Image.open refuses images that are smaller than
# MAX_IMAGE_PIXELS before it reports their size.
PLUGINS: dict[bytes, Callable[[io.BytesIO], Any]] = {
    rb"\x89PNG": PngImagePlugin.PngImageFile,
    rb"\xff\xd8": JpegImagePlugin.JpegImageFile,
    rb"(?s)RIFF....WEBP": WebPImagePlugin.WebPImageFile,
    rb"BM": BmpImagePlugin.BmpImageFile,
}

Key = TypeVar("Key")

REDUCED_NOTE = "textures were downscaled to limit memory"


class ImageError(Exception):
    """An image cannot be shown, so the scan is rendered without it; the message is the reason."""


@dataclass(eq=False)
class EncodedImage:
    """An image whose header was read; `size` is its width and height before downscaling by `step`."""

    image: Any
    size: tuple[int, int]
    step: int = 1

    @classmethod
    def of(cls, data: bytes | memoryview, name: str = "") -> EncodedImage:
        """Open an encoded image. Raises ImageError."""
        if data[:12] == KTX2:
            raise ScanRejectedError(
                "its textures are in KTX2 format (Basis Universal), which is not supported",
                "convert it with `gltf-transform ktxdecompress IN.glb OUT.glb`",
            )
        plugin = next((PLUGINS[start] for start in PLUGINS if re.match(start, data)), None)
        if plugin is None and name.lower().endswith(".tga"):
            plugin = TgaImagePlugin.TgaImageFile
        if plugin is None:
            raise ImageError("it is not a PNG, JPEG, WebP, BMP or TGA file")
        if (
            plugin is WebPImagePlugin.WebPImageFile
        ):  # its decoder allocates memory when it is opened
            _check_size(_webp_size(bytes(data[:32])), MAX_WEBP_PIXELS)
        try:
            image = plugin(io.BytesIO(data))
        except Exception as error:  # decoders raise arbitrary exceptions on malformed files
            raise ImageError("it is corrupt") from error
        _check_size(image.size, MAX_IMAGE_PIXELS)
        return cls(image, image.size)

    @property
    def decoded_pixels(self) -> int:
        """Pixels to decode; JPEG can be decoded at 1/2 to 1/8 of its size."""
        width, height = self.size
        share = min(self.step, 8) if isinstance(self.image, JpegImagePlugin.JpegImageFile) else 1
        return width * height // share**2

    @property
    def texels(self) -> int:
        """Pixels after downscaling."""
        return -(-self.size[0] // self.step) * -(-self.size[1] // self.step)

    def decode(self) -> NDArray[np.uint8]:
        """Decode and downscale the image to (h, w, 4) uint8; raise ImageError if it is corrupt."""
        image, self.image = self.image, None
        try:
            if self.step > 1 and isinstance(image, JpegImagePlugin.JpegImageFile):
                image.draft(None, (self.size[0] // self.step, self.size[1] // self.step))
            if image.mode.startswith("I"):  # 16-bit grey, which PIL would clip at 255
                image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
            if image.mode == "P":
                image = image.convert("RGBA")
            factor = max(1, round(self.step * image.size[0] / self.size[0]))
            if factor > 1:
                image = image.reduce(factor)
            return np.ascontiguousarray(image.convert("RGBA"))
        except MemoryError:
            raise
        except Exception as error:  # as above
            raise ImageError("it is corrupt") from error


def _check_size(size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise ImageError("it has no pixels")
    if width * height > max_pixels:
        side = int(max_pixels**0.5)
        raise ScanRejectedError(
            f"a texture has {width:,} x {height:,} pixels",
            f"reduce it to at most {side:,} x {side:,}",
        )


def _webp_size(start: bytes) -> tuple[int, int]:
    """Return the width and height of a WebP file from its first 32 bytes."""
    chunk, body = start[12:16], start[20:32].ljust(12, b"\0")
    if chunk == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if chunk == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    sides = int.from_bytes(body[6:8], "little"), int.from_bytes(body[8:10], "little")
    return sides[0] & 0x3FFF, sides[1] & 0x3FFF


def fit_images(images: Sequence[EncodedImage], *, in_child: bool) -> bool:
    """Choose downscaling steps so that all images fit the limits; return True if any is downscaled."""
    for image in images:
        while max(image.size) > MAX_SIDE * image.step:
            image.step *= 2
    while sum(image.texels for image in images) > MAX_TEXELS:
        largest = max(images, key=lambda image: image.texels)
        largest.step *= 2
    total = sum(image.decoded_pixels for image in images)
    if total > MAX_DECODED_PIXELS:
        raise ScanRejectedError(
            f"its {len(images)} textures have {total:,} pixels in total",
            f"reduce them to at most {MAX_DECODED_PIXELS:,}, or save them as JPEG",
        )
    if total > MAX_PIXELS_HERE and not in_child:
        raise NeedsChildProcess
    return any(image.step > 1 for image in images)


def _skip_note(key: object, error: ImageError) -> str:
    """Return the note about an image that cannot be shown, with its name if it has one."""
    label = f" {short_repr(key)}" if isinstance(key, str) and key not in str(error) else ""
    return f"a texture{label} was skipped: {error}"


def decode_images(
    sources: Mapping[Key, Callable[[], EncodedImage]], *, in_child: bool
) -> tuple[dict[Key, NDArray[np.uint8]], list[str]]:
    """Decode images; return them by key, (h, w, 4) uint8, and notes about them. Raises NeedsChildProcess.

    All headers are read before any image is decoded. Images that cannot be shown are omitted, which adds a note.
    """
    images: dict[Key, EncodedImage] = {}
    by_key: dict[Key, NDArray[np.uint8]] = {}
    notes: list[str] = []
    for key, open_source in sources.items():
        try:
            images[key] = open_source()
        except ImageError as error:
            notes.append(_skip_note(key, error))
    if fit_images(list(images.values()), in_child=in_child):
        notes.append(REDUCED_NOTE)
    for key, image in images.items():
        try:
            by_key[key] = image.decode()
        except ImageError as error:
            notes.append(_skip_note(key, error))
    return by_key, list(dict.fromkeys(notes))


@dataclass(eq=False)
class Siblings:
    """The files next to a scan that it refers to, and those of them that were opened."""

    folder: Path  # of the scan
    opened: dict[str, int | None] = field(default_factory=dict)
    """Path -> time of the last change (ns) when a file was opened; None for a file that does not exist."""

    def decode(
        self, names: Iterable[str | None], *, in_child: bool
    ) -> tuple[dict[str, NDArray[np.uint8]], list[str]]:
        """Decode images by the names that the scan uses; see `decode_images`."""

        def open_image(name: str) -> EncodedImage:
            return EncodedImage.of(self.read(name), name)

        sources = {name: partial(open_image, name) for name in names if name}
        return decode_images(sources, in_child=in_child)

    def read(
        self,
        name: str,
        folder: Path | None = None,  # what the name is relative to; None for that of the scan
    ) -> bytes:
        """Return the content of a file that the scan refers to, or of a data URI. Raises ImageError.

        The file is found regardless of case, Unicode normal form, backslashes and percent escapes. The leading folders
        of a path that leaves the scan's folder are ignored, as they are those of another machine.
        """
        if name.lower().startswith("data:"):
            return _decode_data_uri(name)
        folder = folder or self.folder
        for path in find_siblings(folder, name, self.folder):
            with suppress(OSError):  # no permission
                changed_ns, content = path.stat().st_ctime_ns, path.read_bytes()
                self.opened[str(path)] = changed_ns
                return content
        path = folder / name.replace("\\", "/")
        is_below = Path(os.path.normpath(path)).is_relative_to(self.folder)
        self.note_missing(path if is_below else folder / path.name)
        raise ImageError(f"{short_repr(name)} does not exist")

    def note_missing(self, path: Path) -> None:
        """Note a file that would be opened if it existed."""
        with suppress(OSError, ValueError):  # a file cannot have this name
            if not path.exists():
                self.opened[str(path)] = None


def find_siblings(folder: Path, name: str, root: Path) -> Iterator[Path]:
    """Yield the existing files below `root` that a name in a scan may mean, best match first."""
    path_name = re.sub(r"^file:/*", "/", name, flags=re.IGNORECASE)
    if "\0" in name or re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", path_name):
        raise ImageError(f"{short_repr(name)} is not a file next to the scan")
    spellings = dict.fromkeys((unquote(path_name), path_name))
    paths = [folder / spelling for spelling in spellings]
    similar = (path for spelling in spellings for path in _similar_files(folder, spelling))
    is_outside = False
    for path in (*paths, *similar):
        # invalid name, no permission, or a symlink loop
        with suppress(OSError, ValueError, RuntimeError):
            if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                if is_inside(path, root):
                    yield path
                else:
                    is_outside = True
    if is_outside:
        raise ImageError(f"{short_repr(name)} is outside the scan's folder")


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a file is in a folder or below it; links of a Hugging Face cache to its `blobs` do."""
    real = path.resolve()
    if real.is_relative_to(folder.resolve()):
        return True
    name, outer = (Path(os.path.normpath(each.absolute())) for each in (path, folder))
    caches = [parent.parent for parent in outer.parents if parent.name == "snapshots"]
    return name.is_relative_to(outer) and any(
        real.parent == (cache / "blobs").resolve() for cache in caches
    )


def _similar_files(folder: Path, name: str) -> Iterator[Path]:
    """Yield files below `folder` whose path differs from `name` in case, slashes or Unicode normal form.

    If the path is absolute or leaves the folder, its leading folders are ignored one by one.
    """
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".")]
    is_elsewhere = re.match(r"[A-Za-z]:|[/\\]", name) is not None or ".." in parts
    for start in range(len(parts)) if is_elsewhere else (0,):
        path: Path | None = folder
        for part in parts[start:]:
            path = path and _similar_entry(path, part)
        if path:
            yield path


def _similar_entry(folder: Path, name: str) -> Path | None:
    """Return the first entry of a folder whose name is the same apart from case and Unicode normal form."""
    try:
        names = [entry.name for entry in folder.iterdir() if _fold(entry.name) == _fold(name)]
    except OSError:
        return None
    return folder / min(names) if names else None


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _decode_data_uri(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    try:
        if head.lower().endswith(";base64"):
            return base64.b64decode(unquote(body), validate=False)
        return os.fsencode(unquote(body))
    except (binascii.Error, ValueError) as error:
        raise ImageError("its data URI is corrupt") from error
