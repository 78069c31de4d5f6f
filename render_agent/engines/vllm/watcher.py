"""Kills vLLM's processes when the run dies, even by kill -9. Run as a program, this module is the watcher.

vLLM starts its processes itself, so they cannot request a parent-death signal from the kernel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress

import psutil

POLL_SECONDS = 0.5


def start_watcher() -> subprocess.Popen[bytes]:
    """Start a process that kills this process's descendants when it dies. Kill the watcher when they have ended."""
    return subprocess.Popen(
        [sys.executable, "-P", __file__, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that signals to the run's process group do not reach it
    )


def kill_descendants(parent: int) -> None:
    """Record the descendants of a process while it is alive, then kill them."""
    descendants: set[psutil.Process] = set()
    while os.getppid() == parent:
        with suppress(psutil.NoSuchProcess):
            descendants.update(psutil.Process(parent).children(recursive=True))
        time.sleep(POLL_SECONDS)
    for process in descendants - {psutil.Process()}:
        with suppress(psutil.NoSuchProcess):  # psutil compares start times, so a reused PID is safe
            process.kill()


if __name__ == "__main__":
    kill_descendants(int(sys.argv[1]))
