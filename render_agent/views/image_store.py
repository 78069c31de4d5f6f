"""The image files of a run, with an in-memory cache of decoded images."""

from __future__ import annotations

import hashlib
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.errors import RunLogError
from render_agent.render.png import encode_png
from render_agent.util.atomic_files import RESUME, atomic_write, make_folders
from render_agent.util.contained_paths import image_path

MAX_DECODED_PICTURES = 256  # decoded images kept in memory


SHARED_FOLDER = "scenes"  # folder of images that all questions of a scene share

# Names reserved for this program (in `views`) or for devices on Windows.
RESERVED_NAMES = re.compile(rf"{SHARED_FOLDER}|con|prn|aux|nul|com\d|lpt\d")


def safe_name(name: str) -> str:
    """Return a safe file name for a text: the text itself if possible, otherwise an excerpt with a hash.

    Different texts get different names, even on case-insensitive file systems or if the texts are adversarial: the
    hash has 128 bits.
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", name) and not RESERVED_NAMES.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return "_" + re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40] + "." + digest


def question_file(question_id: str, turn: int, kind: str, number: int = 1) -> str:
    """Return the path of an image of one turn, relative to the run folder; `number` counts images of one kind from 1."""
    return str(PurePosixPath("views", safe_name(question_id), _name(turn, kind, number)))


def scene_file(scene_id: str, kind: str, number: int = 1) -> str:
    """Return the path of an image shared by all questions of a scene, relative to the run folder."""
    return str(PurePosixPath("views", SHARED_FOLDER, safe_name(scene_id), _name(0, kind, number)))


def _name(turn: int, kind: str, number: int) -> str:
    return f"{turn}_{kind}.png" if number == 1 else f"{turn}_{kind}-{number}.png"


# Exceptions raised for image files that are missing, damaged or not images.
UNREADABLE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)


def _decode(content: bytes) -> Image.Image:
    """Decode a stored PNG to RGB. Raises one of UNREADABLE on failure."""
    # PNG only: Pillow starts external programs for some other formats.
    return Image.open(io.BytesIO(content), formats=["PNG"]).convert("RGB")


class ImageStore:
    """The images of one run folder. Thread-safe."""

    durable = True  # sync images to disk so that they survive a power failure

    def __init__(self, folder: Path, check_folder: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self._check_folder = check_folder
        self._lock = Lock()
        self._kept: OrderedDict[str, Image.Image] = OrderedDict()
        self._writing: dict[str, Future[None]] = {}
        self._digests: dict[str, str] = {}
        self._making_folders = Lock()
        # Two threads may render the same shared image at once; a lock per file prevents concurrent writes.
        self._storing = [Lock() for _ in range(16)]
        self._writers = ThreadPoolExecutor(2, "picture")

    def save(self, file: str, image: NDArray[np.uint8]) -> Future[None]:
        """Write an image, (H, W, 3), in the background; the result of the future raises RunLogError if that fails."""
        self._remember(file, Image.fromarray(image))
        writing = self._writers.submit(self._write, file, image)
        with self._lock:
            self._writing[file] = writing
        writing.add_done_callback(lambda future: self._wrote(file, future))
        return writing

    def wait_for(self, files: Iterable[str]) -> dict[str, str]:
        """Wait until images are on disk, and return the SHA-256 of each. Raises RunLogError if a write failed."""
        files = sorted(files)
        with self._lock:
            writing = [self._writing[file] for file in files if file in self._writing]
        for written in writing:
            written.result()
        return {file: self._digest(file) for file in files}

    def get(self, file: str) -> Image.Image:
        """Return an image as RGB. Raises RunLogError if its file is missing or damaged."""
        with self._lock:
            if file in self._kept:
                self._kept.move_to_end(file)
                return self._kept[file]
            writing = self._writing.get(file)
        if writing is not None:  # evicted from memory before it was written
            writing.result()
        try:
            image = _decode(image_path(self.folder, file).read_bytes())
        except UNREADABLE as error:
            raise RunLogError(f"cannot read the image {self.folder / file}: {error}") from error
        self._remember(file, image)
        return image

    def is_saved(
        self,
        file: str,
        digest: str | None = None,  # expected SHA-256; None only checks that the file is an image
    ) -> bool:
        """Return True if an image is on disk, intact and unchanged.

        Images that this process has already written or checked are not looked up again.
        """
        with self._lock:
            if file in self._digests:
                return True
        path = image_path(self.folder, file)
        try:
            content = path.read_bytes()
            if digest is None:
                _decode(content)
        except UNREADABLE:
            return False
        content_hash = hashlib.sha256(content).hexdigest()
        if digest not in (None, content_hash):
            return False
        with self._lock:
            self._digests[file] = content_hash
        return True

    def store(self, file: str, png: bytes) -> None:
        """Write an encoded PNG. Raises RunLogError if it cannot be written."""
        self._check_folder()
        try:
            path = image_path(self.folder, file)
            with self._making_folders:  # no thread may use a folder before it is synced
                make_folders(path.parent, durable=self.durable)
            with self._storing[hash(file) % len(self._storing)]:
                atomic_write(path, png, durable=self.durable, remedy=RESUME)
        except RunLogError:
            self._check_folder()  # report a missing run folder in preference to a failed write
            raise
        with self._lock:
            self._digests[file] = hashlib.sha256(png).hexdigest()

    def close(self) -> None:
        self._writers.shutdown()

    def _write(self, file: str, image: NDArray[Any]) -> None:
        self.store(file, encode_png(image))

    def _digest(self, file: str) -> str:
        """Return the SHA-256 of an image; read from the file if another process wrote it."""
        with self._lock:
            digest = self._digests.get(file)
        if digest is None and self.is_saved(file):
            digest = self._digests[file]
        if digest is None:
            raise RunLogError(f"the image {self.folder / file} is missing or damaged")
        return digest

    def _wrote(self, file: str, future: Future[None]) -> None:
        with self._lock:
            if (
                self._writing.get(file) is future and not future.exception()
            ):  # failures are kept for `written`
                del self._writing[file]

    def _remember(self, file: str, image: Image.Image) -> None:
        with self._lock:
            self._kept[file] = image
            self._kept.move_to_end(file)
            while len(self._kept) > MAX_DECODED_PICTURES:
                self._kept.popitem(last=False)


class MemoryImages(ImageStore):
    """The images of one dialogue, in memory."""

    def __init__(self, images: Mapping[str, Image.Image] = MappingProxyType({})) -> None:
        super().__init__(Path())
        self._images = dict(images)

    def save(self, file: str, image: NDArray[np.uint8]) -> Future[None]:
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
        return file in self._images
