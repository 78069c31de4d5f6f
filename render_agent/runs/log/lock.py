"""One process at a time writes a run: an operating-system lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from render_agent.errors import RunLogError
from render_agent.system.whole_files import writing


def lock(folder: Path) -> IO[str]:
    """Lock a run folder; closing the returned file (or dying) unlocks it.

    RunLogError where another process holds it, naming that process, and where the disk takes no more.
    """
    path = folder / "run.lock"
    with writing(path):
        file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise RunLogError(
            f"{folder} is being written by {holder}; wait for it or stop it first"
        ) from None
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


def is_there(folder: Path, file: IO[str]) -> bool:
    """Whether a folder is still the one that `lock` gave the file of: not deleted, moved or replaced."""
    try:
        return os.path.samestat((folder / "run.lock").stat(), os.fstat(file.fileno()))
    except OSError:
        return False
