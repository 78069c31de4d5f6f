"""The lock of a run folder: `flock` on run.lock, which contains the owner's host and process id."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from render_agent.errors import RunLogError, os_errors
from render_agent.util.atomic_files import write_errors
from render_agent.util.sanitize import escape_line

LOCK = "run.lock"

RUNNING, INTERRUPTED = "running", "interrupted"  # statuses of unfinished runs

# Errors of file systems without locks, such as NFS without a lock daemon, Lustre or FUSE.
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def check_unlocked(folder: Path) -> None:
    """Raise RunLogError if another process holds the lock of a run folder. Writes nothing."""
    path = folder / LOCK
    if not path.exists():
        return
    with os_errors(RunLogError, f"read {path}"), path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked_error(folder, file) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise


def status_of_unfinished(folder: Path) -> str:
    """Return RUNNING if a process holds the lock of a run folder, otherwise INTERRUPTED."""
    try:
        check_unlocked(folder)
    except RunLogError:
        return RUNNING
    return INTERRUPTED


def _locked_error(folder: Path, file: TextIO) -> RunLogError:
    file.seek(0)
    owner = escape_line(file.read(200).strip()) or "another process"
    return RunLogError(f"{folder} is being written by {owner}. Wait for it to finish, or stop it.")


class FolderLock:
    """Locks a run folder until `close` or until the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warning = ""
        path = folder / LOCK
        with write_errors(path):
            self._file = path.open("a+")
            try:
                self._lock()
                self._file.truncate(0)
                self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                self._file.flush()
            except BaseException:
                self.close()
                raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _locked_error(self.folder, self._file) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            self.warning = f"the file system of {self.folder} does not support locks. Make sure that no other process writes this run."

    @property
    def exists(self) -> bool:
        """True if the folder has not been deleted, moved or replaced since it was locked."""
        try:
            return os.path.samestat((self.folder / LOCK).stat(), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def check(self) -> None:
        """Raise RunLogError if the folder is gone, because writes to open files of a deleted folder would be lost
        silently.
        """
        if not self.exists:
            raise RunLogError(
                f"run folder {self.folder} was deleted or moved during the run. Restore it and resume, or start a"
                " new run."
            )

    def close(self) -> None:
        """Unlock."""
        with suppress(OSError):  # unflushed content on a full disk
            self._file.close()
