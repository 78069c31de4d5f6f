"""Atomic file writes, and JSON-lines files that can only be torn in their last line."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from render_agent.errors import RunLogError, SetupError, os_errors
from render_agent.util.safe_parse import (
    MAX_LINE_BYTES,
    ValidationError,
    encode_line,
    parse_json,
    read_bounded,
)

T = TypeVar("T")

# errors from fsync on a folder if the file system does not support or need it
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)


# Remedies if a file cannot be written; RESUME is for files of a run in progress.
FIX = "make room or fix the permissions, then try again"
RESUME = "make room or fix the permissions, then resume; everything logged so far is saved"


def write_errors(path: Path | str, remedy: str = FIX) -> AbstractContextManager[None]:
    """Turn an OSError raised while writing `path` into a RunLogError that ends with the remedy."""
    return os_errors(RunLogError, f"write {path}", remedy)


def check_writable(path: Path) -> None:
    """Raise SetupError if no file can be created at `path` or in a folder of that name. Leaves nothing behind."""
    from tempfile import TemporaryFile

    target = path.absolute()
    existing = next(place for place in (target, *target.parents) if place.exists())
    remedy = f"files cannot be created in {existing}; choose another location"
    with os_errors(SetupError, f"write {path}", remedy):
        TemporaryFile(dir=target.parent if target.is_file() else existing).close()


def atomic_write(path: Path, content: bytes, *, durable: bool = True, remedy: str = FIX) -> None:
    """Write a file atomically, or raise RunLogError: after a crash of the process it is either complete or unchanged.

    `durable` also survives a crash of the machine (fsync). Not for devices and pipes, which would be replaced.
    """
    make_folders(path.parent, durable=durable, remedy=remedy)
    with write_errors(path, remedy), suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            raise OSError(errno.EINVAL, "not a regular file")
    # Path.open has no `opener` parameter.
    with (
        replacing_file(path, remedy) as partial,
        open(partial, "wb", opener=_open_no_follow) as file,
    ):
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)


@contextmanager
def replacing_file(path: Path, remedy: str = FIX) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` at the end, or is removed on error."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with write_errors(path, remedy):
            yield partial
            partial.replace(path)
    except BaseException:
        if not partial.is_symlink():  # otherwise it was created by someone else
            with suppress(OSError):
                partial.unlink()
        raise


def make_folders(folder: Path, *, durable: bool, remedy: str = FIX) -> None:
    """Create a folder and its parents. With `durable`, they survive a crash of the machine."""
    new = [path for path in (folder, *folder.parents) if durable and not path.exists()]
    with write_errors(folder, remedy):
        folder.mkdir(parents=True, exist_ok=True)
    for path in new:
        sync_folder(path.parent)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder that replaces `path` if the block succeeds, or is removed on error."""
    new, old = (path.with_name(f".{path.name}-{suffix}-{os.getpid()}") for suffix in ("new", "old"))
    with write_errors(path):
        try:
            _remove_leftovers(path)
            new.mkdir()
            yield new
            if os.path.lexists(path):
                path.rename(old)
            new.rename(path)
        finally:
            _remove(new)
            _remove(old)


def _remove_leftovers(path: Path) -> None:
    """Remove the folders that killed processes left beside `path` (see `replacing_folder`)."""
    import psutil  # only needed here

    own_name = re.compile(rf"\.{re.escape(path.name)}-(?:new|old)-([0-9]{{1,9}})")
    for leftover in path.parent.iterdir():
        if match := own_name.fullmatch(leftover.name):
            pid = int(match[1])
            if pid == os.getpid() or not psutil.pid_exists(pid):
                _remove(leftover)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk (fsync)."""
    with write_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)


def _open_no_follow(path: str, flags: int) -> int:
    """Open a file without following a symbolic link."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write_all(file: FileIO, content: bytes) -> None:
    """Write all of `content` to an unbuffered file. Raises OSError if not all of it fits."""
    remaining = memoryview(content)
    while remaining:
        remaining = remaining[file.write(remaining) :]


def json_bytes(data: Any) -> bytes:
    """Return data as indented JSON, or on one line if it is nested too deeply; see `encode_line`."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False)
    except RecursionError:
        return encode_line(data)
    return (text + "\n").encode("utf-8", "backslashreplace")


def json_lines(data: Iterable[Any]) -> bytes:
    """Return data as JSON lines, one per item."""
    return b"".join(map(encode_line, data))


def read_json(path: Path, remedy: str = "Restore the file.") -> Any:
    """Return the JSON in a file, or raise RunLogError, which ends with the sentence `remedy`."""
    with os_errors(RunLogError, f"read {path}"):
        try:
            content = read_bounded(path)
            if not content.strip():
                raise ValueError("it is empty")
            return parse_json(content)
        except ValueError as error:
            raise RunLogError(f"cannot read {path}: {error}. {remedy}") from error


def read_lines(
    path: Path,
    parse_line: Callable[[bytes], T] = parse_json,
    max_bytes: int | None = None,  # longest allowed line in bytes; None uses MAX_LINE_BYTES
) -> tuple[list[T], int]:
    """Parse a JSON-lines file; return the parsed lines and the number of bytes they occupy.

    A torn last line is omitted.
    """
    lines: list[T] = []
    size, max_bytes = 0, max_bytes or MAX_LINE_BYTES
    with os_errors(RunLogError, f"read {path}"), path.open("rb") as file:
        while line := file.readline(max_bytes):
            location = f"line {len(lines) + 1} of {path}"
            if not line.endswith(b"\n"):
                if len(line) == max_bytes:
                    raise RunLogError(
                        f"{location} exceeds {max_bytes:,} bytes; restore the file, or truncate it before"
                        " that line and resume"
                    )
                break
            try:
                lines.append(parse_line(line))
            except ValidationError as error:
                raise RunLogError(
                    f"{path} is damaged: line {len(lines) + 1} is invalid: {error}"
                ) from error
            except ValueError as error:
                if file.read(1):
                    raise RunLogError(
                        f"{location} is not JSON ({error}); restore the file, or truncate it before that"
                        " line and resume"
                    ) from error
                break
            size += len(line)
    return lines, size


def user_cache(name: str) -> Path | None:
    """Return the folder `name` in the program's cache, for what can be computed again; None if it is not writable."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    folder = Path(cache) / "render_agent" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
