"""Kill vLLM's processes when the run dies, even by kill -9; run as a program, this module is the watcher.

vLLM starts its processes itself, so they cannot ask the kernel to end with their parent.
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
    """Start a process that kills the descendants of this one when it dies; kill it once they have ended."""
    return subprocess.Popen(
        [sys.executable, "-P", __file__, str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal to the run's group or terminal does not reach it
    )


def watch(parent: int) -> None:
    """Remember the descendants of a process while it lives, then kill them."""
    known: set[psutil.Process] = set()
    while os.getppid() == parent:
        with suppress(psutil.NoSuchProcess):
            known.update(psutil.Process(parent).children(recursive=True))
        time.sleep(POLL_SECONDS)
    for process in known - {psutil.Process()}:
        with suppress(psutil.NoSuchProcess):  # psutil compares start times, so a reused id is safe
            process.kill()


if __name__ == "__main__":
    watch(int(sys.argv[1]))
