"""Files that are whole or not there, and lines of JSON of which only the last can be torn."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any, TypeVar

from render_agent.errors import RunLogError, SetupError, os_errors
from render_agent.util.safe_parse import (
    MAX_LINE_BYTES,
    MisfitError,
    encode,
    parse_json,
    read_bounded,
)

T = TypeVar("T")

NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF)
"""What file systems answer that keep names without being asked, or cannot be asked."""


def writing(path: Path | str) -> AbstractContextManager[None]:
    """Turn an error of the operating system while writing `path` into one clear RunLogError."""
    then = "make room or give access, then go on: nothing that was logged is lost"
    return os_errors(RunLogError, f"write {path}", then)


def refuse_unwritable(path: Path) -> None:
    """Raise SetupError where no file can be made at a path or in a folder of its name; nothing is left there."""
    from tempfile import TemporaryFile

    target = path.absolute()
    there = next(place for place in (target, *target.parents) if place.exists())
    then = f"no file can be made in {there}: name another place"
    with os_errors(SetupError, f"write {path}", then):
        TemporaryFile(dir=target.parent if target.is_file() else there).close()


def write_whole(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file so that it is there whole or not at all, whenever the process dies.

    durable: also when the machine dies. RunLogError where it cannot be written, and where a device or a pipe has
    its name, which would be gone.
    """
    make_folders(path.parent, durable=durable)
    with writing(path), suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            raise OSError(errno.EINVAL, "it is no file")
    # Path.open takes no opener
    with whole(path) as partial, open(partial, "wb", opener=_not_through_a_link) as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        sync_folder(path.parent)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give the file to write that takes the place of `path` at the end, and is removed where there is an error.

    RunLogError where it cannot be written.
    """
    partial = path.with_name(f".{path.name}.part")
    try:
        with writing(path):
            yield partial
            partial.replace(path)
    except BaseException:
        if not partial.is_symlink():  # what somebody else laid there
            with suppress(OSError):
                partial.unlink()
        raise


def make_folders(folder: Path, *, durable: bool) -> None:
    """Make a folder and those above it. durable: their names survive the machine's death. RunLogError."""
    new = [path for path in (folder, *folder.parents) if durable and not path.exists()]
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for path in new:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder survive the machine's death. RunLogError."""
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in NO_FOLDER_SYNC:
                raise
        finally:
            os.close(descriptor)


def _not_through_a_link(path: str, flags: int) -> int:
    """Open a file, but none that a link of that name leads to."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def write_all(file: FileIO, content: bytes) -> None:
    """Write all of `content` to an unbuffered file; OSError where only a part of it fits."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def json_bytes(data: Any) -> bytes:
    """Return `data` as JSON, indented unless they are nested too deeply for that; see `encode`."""
    try:
        text = json.dumps(data, indent=1, ensure_ascii=False)
    except RecursionError:
        return encode(data)
    return (text + "\n").encode("utf-8", "backslashreplace")


def json_lines(data: Iterable[Any]) -> bytes:
    """Return one line of JSON for each of `data`."""
    return b"".join(map(encode, data))


def read_json(path: Path) -> Any:
    """Return the JSON in a file. RunLogError where it is none."""
    with os_errors(RunLogError, f"read {path}", also=ValueError):
        return parse_json(read_bounded(path))


def read_lines(
    path: Path, read: Callable[[bytes], T] = parse_json, most: int | None = None
) -> tuple[list[T], int]:
    """Return what `read` makes of the whole lines of a JSON-lines file, and how many bytes they take.

    most: bytes of a line, MAX_LINE_BYTES unless given.

    A torn last line is left out; any other unreadable line, and one that `read` has a MisfitError for, is
    a RunLogError that names it.
    """
    lines: list[T] = []
    whole, most = 0, most or MAX_LINE_BYTES
    with os_errors(RunLogError, f"read {path}"), path.open("rb") as file:
        while line := file.readline(most):
            where = f"line {len(lines) + 1} of {path}"
            if not line.endswith(b"\n"):
                if len(line) == most:
                    raise RunLogError(
                        f"{where} has more than {most:,} bytes; restore the file, or cut it"
                        " before that line and continue"
                    )
                break
            try:
                lines.append(read(line))
            except MisfitError as error:
                raise RunLogError(
                    f"{path} is damaged: line {len(lines) + 1} does not fit: {error}"
                ) from error
            except ValueError as error:
                if file.read(1):
                    raise RunLogError(
                        f"{where} is not JSON ({error}); restore the file, or cut it before that line"
                        " and continue"
                    ) from error
                break
            whole += len(line)
    return lines, whole
