"""SHA-256 of files, each read only once per process unless it changes."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import FileIO
from pathlib import Path
from threading import Event

from render_agent.errors import SetupError, os_errors
from render_agent.util.processes import count_cores

# A file written within this time before it was hashed is hashed again, because time stamps are coarse.
COARSE_NS = 2_000_000_000

MAX_BYTES = 1 << 40  # limit on the size of an input file; anything larger is not a regular file
BUFFER_BYTES = 1 << 20

Signature = tuple[int, ...]
_digest_cache: dict[tuple[Path, Signature], str] = {}


def sha256(path: Path, stop: Event | None = None) -> str:
    """Return the SHA-256 of a file. A file is not read again unless it was written since it was last hashed."""
    with os_errors(SetupError, f"read {path}"), path.open("rb", buffering=0) as file:
        before = _signature(file.fileno())
        if (path, before) in _digest_cache:
            return _digest_cache[path, before]
        if before[2] > MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
        started_ns = time.time_ns()
        digest = _hash(file, before[2], stop)
        if before == _signature(file.fileno()) and before[-1] < started_ns - COARSE_NS:
            _digest_cache[path, before] = digest
        return digest


def _hash(file: FileIO, size: int, stop: Event | None) -> str:
    """Return the SHA-256 of the first `size` bytes only, because some system files are endless.

    Raises InterruptedError if `stop` is set meanwhile.
    """
    digest, buffer = hashlib.sha256(), memoryview(bytearray(min(size, BUFFER_BYTES)))
    while size and (count := file.readinto(buffer[:size])):
        if stop is not None and stop.is_set():
            raise InterruptedError
        digest.update(buffer[:count])
        size -= count
    return digest.hexdigest()


def _signature(descriptor: int) -> Signature:
    """Return values that change when an open file is written or replaced; the last is the time of the change."""
    status = os.fstat(descriptor)
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,  # programs cannot reset it
    )


def digest_of(path: Path, stop: Event | None = None) -> str | None:
    """Return the SHA-256 of a file; None if it does not exist."""
    return sha256(path, stop) if path.is_file() else None


def digests_of(paths: Iterable[Path]) -> dict[Path, str | None]:
    """Hash files in several threads, and return their SHA-256."""
    path_list, stop = list(paths), Event()
    with ThreadPoolExecutor(count_cores()) as pool:
        try:
            digests = pool.map(partial(digest_of, stop=stop), path_list)
            return dict(zip(path_list, digests, strict=True))
        except BaseException:  # so that Ctrl-C does not wait for large files
            stop.set()
            raise
