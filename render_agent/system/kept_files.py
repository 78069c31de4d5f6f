"""What takes long to make, kept in the user's cache for later processes.

An entry is named by a hash of all that it depends on, the sources of this program and the versions of the libraries
that compute for it among that. It begins with a hash of its name and its content: one that is damaged, or that
lies under another's name, is made anew. Processes may read, write and remove entries at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile

FOLDER_VARIABLE = "RENDER_AGENT_SCAN_CACHE"
"""The environment variable that names another folder, or, empty, none."""

MOST_BYTES = 2 << 30
"""Bytes that all entries may take; those that were used least recently are removed beyond that."""

LIBRARIES = ("numpy", "scipy", "numba", "llvmlite", "pillow")

HASH_BYTES = 32

PROBE_BYTES = 64 << 10
"""Bytes that are written, and given back, to find out whether a disk is full."""


def user_cache() -> Path:
    """Return the folder in which this program keeps what can be made anew."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    return Path(home) / "render_agent"


def kept_folder() -> Path | None:
    """Return the folder of what is made of scans; None where nothing is to be kept."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named is None:
        return user_cache() / "scans"
    return Path(named) if named else None


def kept(dependencies: bytes, make: Callable[[], bytes]) -> bytes:
    """Return what `make` makes, as an earlier process kept it where one did.

    dependencies: what tells it from everything else, besides this program's version. Where the folder cannot be read or
    written it is made and not kept.
    """
    folder = kept_folder()
    if folder is None:
        return make()
    name = hashlib.sha256(_program() + dependencies).hexdigest()
    file = folder / name
    with suppress(OSError):
        entry = file.read_bytes()
        content = entry[HASH_BYTES:]
        if entry[:HASH_BYTES] == _told_by(name, content):
            os.utime(file)  # it was used
            return content
    content = make()
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        _write(file, _told_by(name, content) + content)
    return content


def can_keep() -> bool:
    """Whether what is made now can be kept: there is a folder, it can be written, and its disk has room."""
    folder = kept_folder()
    if folder is None:
        return False
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
        return True
    return False


def remove_oldest(most: int = MOST_BYTES) -> None:
    """Remove the entries that were used least recently, until the rest takes at most `most` bytes."""
    folder = kept_folder()
    if folder is None or not folder.is_dir():
        return
    used = []
    for file in folder.iterdir():
        with suppress(OSError):  # another process may have removed it
            state = file.stat()
            used.append((state.st_mtime_ns, state.st_size, file))
    total = sum(size for _, size, _ in used)
    for _, size, file in sorted(used):
        if total <= most:
            break
        with suppress(OSError):
            file.unlink()
        total -= size


def _write(file: Path, entry: bytes) -> None:
    """Write an entry by a name of its own first: others may write the same one now."""
    with NamedTemporaryFile(dir=file.parent, suffix=".part", delete=False) as part:
        try:
            part.write(entry)
            part.flush()
            os.replace(part.name, file)  # noqa: PTH105
        except BaseException:
            os.unlink(part.name)  # noqa: PTH108
            raise


def _told_by(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + content).digest()


@cache
def _program() -> bytes:
    """Return what tells this program, as it computes now, from its other versions."""
    told = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        told.update(source.read_bytes())
    for library in LIBRARIES:
        with suppress(PackageNotFoundError):
            told.update(f"{library} {version(library)}".encode())
    return told.digest()
