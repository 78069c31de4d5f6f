"""The lock of a run folder: `flock` on run.lock, with the owner's host and process id as its content."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path

from render_agent.errors import RunLogError
from render_agent.util.sanitize import one_line
from render_agent.util.whole_files import writing

LOCK = "run.lock"

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""Errors of file systems without locks, such as NFS without a lock daemon, Lustre and FUSE."""


class FolderLock:
    """A locked run folder, until `close` or until its process ends.

    warning: what to tell the user if the file system has no locks. RunLogError if another process holds the lock,
    naming that process, or if the lock file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warning = ""
        path = folder / LOCK
        with writing(path):
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
            self._file.seek(0)
            owner = one_line(self._file.read(200).strip()) or "another process"
            raise RunLogError(
                f"{self.folder} is being written by {owner}; wait for it or stop it first"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            self.warning = f"the file system of {self.folder} has no locks: make sure that no other process writes this run"

    @property
    def there(self) -> bool:
        """Whether the folder is still the one that was locked: not deleted, moved or replaced."""
        try:
            return os.path.samestat((self.folder / LOCK).stat(), os.fstat(self._file.fileno()))
        except OSError:
            return False

    def check(self) -> None:
        """Raise RunLogError if the folder is gone: writes to open files of a deleted folder succeed and are lost."""
        if not self.there:
            raise RunLogError(
                f"{self.folder} was deleted, moved or replaced during the run; put it back and continue the run, or"
                " start a new one"
            )

    def close(self) -> None:
        """Unlock."""
        with suppress(OSError):  # buffered content on a full disk
            self._file.close()
