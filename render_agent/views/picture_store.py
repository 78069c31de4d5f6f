"""The pictures of a run: files, named once, kept in memory only while they are likely to be needed."""

from __future__ import annotations

import hashlib
import io
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.errors import RunLogError
from render_agent.render.png import encode
from render_agent.util.contained_paths import picture_path
from render_agent.util.whole_files import make_folders, write_whole

MAX_DECODED_PICTURES = 256
"""Pictures kept decoded in memory."""


SHARED_FOLDER = "scenes"
"""The folder of the pictures that all questions of a scene share."""

RESERVED_NAMES = re.compile(rf"{SHARED_FOLDER}|con|prn|aux|nul|com\d|lpt\d")
"""Names that mean something else: ours in `views`, and those of devices on Windows."""


def safe_name(name: str) -> str:
    """Return a file name for any text: the text itself where it is harmless, else with a hash.

    Different texts give different names, also on file systems that ignore case, and also where somebody
    looked for two that do not: the hash has 128 bits.
    """
    if re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", name) and not RESERVED_NAMES.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return "_" + re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:40] + "." + digest


def question_file(question_id: str, turn: int, kind: str, number: int = 1) -> str:
    """Return where the picture of one turn lies, relative to the run folder.

    number: of the picture among those of its turn and kind, from 1.
    """
    return str(PurePosixPath("views", safe_name(question_id), _name(turn, kind, number)))


def scene_file(scene_id: str, kind: str, number: int = 1) -> str:
    """Return where a picture that all questions of a scene share lies, relative to the run folder."""
    return str(PurePosixPath("views", SHARED_FOLDER, safe_name(scene_id), _name(0, kind, number)))


def _name(turn: int, kind: str, number: int) -> str:
    return f"{turn}_{kind}.png" if number == 1 else f"{turn}_{kind}-{number}.png"


UNREADABLE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)
"""What comes of a picture's file that is gone, torn or none."""


def _decoded(content: bytes) -> Image.Image:
    """Return a stored picture, RGB. UNREADABLE where it is none."""
    # No other format: some of them have Pillow start programs.
    return Image.open(io.BytesIO(content), formats=["PNG"]).convert("RGB")


class Pictures:
    """The pictures of one run folder; safe to use from several threads.

    check_there: raises RunLogError where the folder is gone, called before each picture is written.
    """

    durable = True
    """Whether pictures that are on disk survive the machine's death."""

    def __init__(self, folder: Path, check_there: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self._check_there = check_there
        self._lock = Lock()
        self._kept: OrderedDict[str, Image.Image] = OrderedDict()
        self._writing: dict[str, Future[None]] = {}
        self._digests: dict[str, str] = {}
        self._making_folders = Lock()
        # what two questions of a scene share may be drawn for both, and a file is not written beside itself
        self._storing = [Lock() for _ in range(16)]
        self._writers = ThreadPoolExecutor(2, "picture")

    def keep(self, file: str, picture: NDArray[np.uint8]) -> Future[None]:
        """Write a picture (H, W, 3) beside other work; the future is done when it is on disk.

        Its result raises RunLogError where it cannot be written.
        """
        self._remember(file, Image.fromarray(picture))
        writing = self._writers.submit(self._write, file, picture)
        with self._lock:
            self._writing[file] = writing
        writing.add_done_callback(lambda done: self._wrote(file, done))
        return writing

    def written(self, files: Iterable[str]) -> dict[str, str]:
        """Wait until pictures are on disk; return the SHA-256 of each. RunLogError where one cannot be written."""
        files = sorted(files)
        with self._lock:
            writing = [self._writing[file] for file in files if file in self._writing]
        for written in writing:
            written.result()
        return {file: self._digest(file) for file in files}

    def get(self, file: str) -> Image.Image:
        """Return a picture, RGB. RunLogError where its file is gone or broken."""
        with self._lock:
            if file in self._kept:
                self._kept.move_to_end(file)
                return self._kept[file]
            writing = self._writing.get(file)
        if writing is not None:  # more pictures wait to be written than are kept
            writing.result()
        try:
            image = _decoded(picture_path(self.folder, file).read_bytes())
        except UNREADABLE as error:
            raise RunLogError(f"cannot read the picture {self.folder / file}: {error}") from error
        self._remember(file, image)
        return image

    def there(self, file: str, digest: str | None = None) -> bool:
        """Whether a picture is on disk, whole and the one that was shown.

        digest: its SHA-256; if None, it has to be a picture. What this process has written or found to be whole is not
        read again.
        """
        path = picture_path(self.folder, file)
        if not path.is_file():
            return False
        with self._lock:
            if file in self._digests:
                return True
        try:
            content = path.read_bytes()
            if digest is None:
                _decoded(content)
        except UNREADABLE:
            return False
        content_hash = hashlib.sha256(content).hexdigest()
        if digest not in (None, content_hash):
            return False
        with self._lock:
            self._digests[file] = content_hash
        return True

    def store(self, file: str, png: bytes) -> None:
        """Write a picture that is a PNG already. RunLogError where it cannot be written."""
        self._check_there()
        try:
            path = picture_path(self.folder, file)
            with self._making_folders:  # whoever finds a folder there finds it synced
                make_folders(path.parent, durable=self.durable)
            with self._storing[hash(file) % len(self._storing)]:
                write_whole(path, png, durable=self.durable)
        except RunLogError:
            self._check_there()  # rather said of the folder than of one of its files
            raise
        with self._lock:
            self._digests[file] = hashlib.sha256(png).hexdigest()

    def close(self) -> None:
        """Wait for what is being written."""
        self._writers.shutdown()

    def _write(self, file: str, picture: NDArray[Any]) -> None:
        self.store(file, encode(picture))

    def _digest(self, file: str) -> str:
        """Return the SHA-256 of a picture; of one that this process did not write, from its file."""
        with self._lock:
            known = self._digests.get(file)
        if known is None and self.there(file):
            known = self._digests[file]
        if known is None:
            raise RunLogError(f"the picture {self.folder / file} is gone or broken")
        return known

    def _wrote(self, file: str, done: Future[None]) -> None:
        with self._lock:
            if self._writing.get(file) is done and not done.exception():  # whoever waits is told
                del self._writing[file]

    def _remember(self, file: str, image: Image.Image) -> None:
        with self._lock:
            self._kept[file] = image
            self._kept.move_to_end(file)
            while len(self._kept) > MAX_DECODED_PICTURES:
                self._kept.popitem(last=False)
