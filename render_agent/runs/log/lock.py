"""The lock of a run folder: the system's own, and an owner file beside it for disks that refuse locks or lie about them."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import psutil
from msgspec import Struct

from render_agent.errors import RunLogError
from render_agent.system.whole_files import writing
from render_agent.text.reasons import shortened
from render_agent.text.safe_parse import Count, decode, encode, read_bounded
from render_agent.text.sanitize import one_line

LOCK, OWNER = "run.lock", "run.owner"

HEARTBEAT_SECONDS = 5.0
"""Seconds between two touches of an owner file by its owner."""

STALE_SECONDS = 60.0
"""Seconds without a touch after which an owner on another machine counts as gone."""

ENDING_SECONDS = 1.0
"""Seconds that a process of this machine gets to be gone, where the system already gave its lock away."""

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What disks answer that have no locks: NFS without a lock daemon, Lustre, FUSE."""

MAX_OWNER_BYTES = 4096


class Owner(Struct, frozen=True):
    """Who writes a run. place: where its process number means something; began: when it did, as the system counts."""

    host: str
    place: str
    process: Count
    began: str

    @property
    def words(self) -> str:
        """Who that is, for a sentence."""
        return one_line(f"process {self.process} on {shortened(self.host)}")

    @property
    def gone(self) -> bool:
        """Whether it is known to be gone: its process number is free, or another process has it."""
        return self.place == _place() and _began(self.process) != self.began


class FolderLock:
    """A locked run folder, until `close`, or until its process is gone.

    RunLogError where another process has it, naming that process, and where the disk takes no more.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = _system_lock(folder / LOCK)
        self._owned: IO[bytes] | None = None
        self._ended = threading.Event()
        self._checking = threading.Lock()
        try:
            self._owned = self._own()
            self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
            self._heart.start()
        except BaseException:
            self._release()
            raise

    @property
    def there(self) -> bool:
        """Whether the folder is still the one that was locked: not deleted, moved or replaced."""
        return _is_file(self.folder / LOCK, self._file)

    def check(self) -> None:
        """Raise RunLogError where the folder is gone, or another process has taken it over.

        An open file takes what is written also after its folder was deleted, and nobody would know.
        """
        if not self.there:
            raise RunLogError(
                f"{self.folder} is gone: it was deleted, moved or replaced while the run was written; put it"
                " back and go on with it, or start the run anew"
            )
        with self._checking:
            if self._owned is None or _is_file(self.folder / OWNER, self._owned):
                return
            if (self.folder / OWNER).exists():
                raise RunLogError(
                    f"{self.folder} was taken over by {_holder_words(self.folder / OWNER)} while this process was"
                    " stopped or cut off: nothing more is written here"
                )
            self._owned.close()
            self._owned = self._own()  # somebody tidied up

    def close(self) -> None:
        """Unlock."""
        self._ended.set()
        self._heart.join()
        self._release()

    def _release(self) -> None:
        if self._owned is not None:
            if _is_file(self.folder / OWNER, self._owned):
                with suppress(OSError):
                    (self.folder / OWNER).unlink()
            self._owned.close()
        with suppress(OSError):  # closing may try once more to write
            self._file.close()

    def _own(self) -> IO[bytes]:
        """Become the owner; return the open owner file."""
        path, until = self.folder / OWNER, time.monotonic() + ENDING_SECONDS
        draft = self.folder / f".{OWNER}.{secrets.token_hex(8)}"
        owner = Owner(socket.gethostname(), _place(), os.getpid(), _began(os.getpid()) or "")
        with writing(path):
            file: IO[bytes] = draft.open("xb")
        try:
            with writing(path):
                file.write(encode(owner))
                file.flush()
                os.fsync(file.fileno())  # what has no owner in it holds others up until it is old
                while not _name(draft, path, file):
                    _clear(path, draft, until)
            if not _is_file(
                path, file
            ):  # a disk without links, on which the name is a file of its own
                file.close()
                file = path.open("r+b")
        except BaseException:
            file.close()
            raise
        finally:
            with suppress(OSError):  # tidied up later
                draft.unlink()
        self._tidy_up(os.fstat(file.fileno()).st_mtime)
        return file

    def _tidy_up(self, now: float) -> None:
        """Remove what processes left that were killed while they took the lock."""
        for left in self.folder.glob(f".{OWNER}.*"):
            with suppress(OSError):
                if now - left.lstat().st_mtime > STALE_SECONDS:
                    left.unlink()

    def _beat(self) -> None:
        while not self._ended.wait(HEARTBEAT_SECONDS):
            if self._owned is not None:
                with suppress(OSError, ValueError):  # said where a line is written
                    os.utime(self._owned.fileno())


def _system_lock(path: Path) -> IO[str]:
    """Return the file of the system's lock, taken, or not where the disk knows no locks."""
    with writing(path):
        file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = one_line(file.read(200).strip()) or "another process"
        file.close()
        raise _held(path.parent, holder) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            file.close()
            with writing(path):
                raise
    try:
        with writing(path):
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            file.flush()
    except RunLogError:
        with suppress(OSError):  # closing tries once more to write
            file.close()
        raise
    return file


def _name(draft: Path, path: Path, file: IO[bytes]) -> bool:
    """Give a written draft its name, where no file has that; whether it has it now."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a disk without links
        try:
            with path.open("xb") as copy:
                copy.write(draft.read_bytes())
        except FileExistsError:
            return False
    return True


def _clear(path: Path, draft: Path, until: float) -> None:
    """Remove an owner file whose owner is gone; RunLogError where it is not, by `until` at the latest."""
    try:
        status = path.stat()
        owner = _read(path)
        # both times are the disk's: the clocks of two machines differ
        os.utime(draft)
        silent = draft.stat().st_mtime - status.st_mtime
    except FileNotFoundError:
        return
    if owner is not None and owner.gone:
        pass
    elif owner is not None and owner.place == _place():
        if time.monotonic() < until:
            time.sleep(0.02)
            return
        raise _held(path.parent, owner.words)
    elif silent < STALE_SECONDS:
        raise _held(
            path.parent,
            f"{_holder_words(path)}, which gave a sign {max(silent, 0):.0f} s ago",
            f" (where it is gone for good, the run can go on {STALE_SECONDS - silent:.0f} s from now)",
        )
    aside = draft.with_suffix(".old")
    with suppress(FileNotFoundError):
        path.rename(aside)
        if not os.path.samestat(
            aside.stat(), status
        ):  # another was quicker, and its is the new one
            with suppress(OSError):
                os.link(aside, path)
        aside.unlink()


def _read(path: Path) -> Owner | None:
    """Return the owner that an owner file names, None where the file cannot be read as one."""
    try:
        owner: Owner = decode(read_bounded(path, MAX_OWNER_BYTES), Owner)
    except ValueError:
        return None
    return owner


def _holder_words(path: Path) -> str:
    try:
        owner = _read(path)
    except OSError:
        owner = None
    return "another process" if owner is None else owner.words


def _held(folder: Path, holder: str, more: str = "") -> RunLogError:
    return RunLogError(f"{folder} is being written by {holder}; wait for it or stop it first{more}")


def _is_file(path: Path, file: IO[str] | IO[bytes]) -> bool:
    """Whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except OSError:
        return False


@cache
def _place() -> str:
    """Return what tells this machine, since it was started, and its processes' numbers from all others."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def _began(process: int) -> str | None:
    """Return when a process began, as the system counts it; None where there is none, or only its remains."""
    try:
        # after the name, which may hold anything: the state, and as the 20th the beginning, proc_pid_stat(5)
        fields = Path(f"/proc/{process}/stat").read_text("utf-8", "replace").rpartition(")")[2]
        state, *others = fields.split()
        return None if state in "ZX" else others[18]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        return None
    try:
        return str(psutil.Process(process).create_time())
    except psutil.Error:
        return None
