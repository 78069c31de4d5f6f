"""End child processes when their parent dies, however it dies; run as a program, this module is the watcher."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

POLL_SECONDS = 0.5
"""Seconds between two looks at whether the watched process lives and what it has started."""

GRACE_SECONDS = 0.5
"""Seconds in which its processes may end by themselves."""

MAX_WAIT_SECONDS = 2.0
"""Seconds between the request to end and the end by force."""


class EndTogether:
    """Ends the descendants of this process when it dies: those that begin from now until `settled`.

    A process of its own does, which a signal to this one's group or terminal does not reach, so
    that it works for kill -9 too.
    """

    def __init__(self) -> None:
        """Begin. OSError where no process can be started."""
        # As a file, not a module: the package itself is not needed, and -P keeps its neighbours
        # from standing in for the library's modules.
        self._watcher = subprocess.Popen(
            [sys.executable, "-P", __file__, str(os.getpid())],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def settled(self) -> None:
        """Leave alone what begins from now on; what belongs to those before is still theirs."""
        pipe = self._watcher.stdin
        if pipe is not None and not pipe.closed:
            # The end of the pipe alone says nothing where a forked process holds it open.
            with suppress(BrokenPipeError), pipe:
                pipe.write(b"\n")

    def close(self) -> None:
        """Watch no more: this process has ended its own, or leaves them. A second call does nothing."""
        self._watcher.kill()
        self._watcher.wait()
        if self._watcher.stdin is not None:
            self._watcher.stdin.close()


def watch(parent: int) -> None:
    """Wait until the process that started this one is gone, then end what it had started since.

    Remembered is what begins until a line comes in. A parent's death shows in this process being
    given another, which holds where the dead one is still listed or its number is used again.
    """
    known: set[psutil.Process] = set()
    while os.getppid() == parent and not select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
        known |= begun_since(parent)
    known |= begun_since(parent)
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    end(known)


def begun_since(parent: int) -> set[psutil.Process]:
    """Return the descendants of a process that began after this one; none where it is gone."""
    own = psutil.Process()
    since = own.create_time()
    with suppress(psutil.NoSuchProcess):
        descendants = set(psutil.Process(parent).children(recursive=True)) - {own}
        return {process for process in descendants if _begin(process) >= since}
    return set()


def end(processes: Iterable[psutil.Process]) -> None:
    """End processes and their descendants: by themselves, on request, at last by force.

    One whose number another process has by now is left alone: psutil compares when both began.
    """
    left = {process for process in processes if alive(process)}
    for process in tuple(left):
        with suppress(psutil.NoSuchProcess):
            left.update(process.children(recursive=True))
    left = _left_after(GRACE_SECONDS, left)
    for send, seconds in (
        (psutil.Process.terminate, MAX_WAIT_SECONDS),
        (psutil.Process.kill, GRACE_SECONDS),
    ):
        for process in left:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                send(process)
        left = _left_after(seconds, left)


def alive(process: psutil.Process) -> bool:
    """Whether a process, and not another of its number, runs; one that only waits to be collected does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _left_after(seconds: float, processes: set[psutil.Process]) -> set[psutil.Process]:
    """Return those that are alive after seconds; sooner where there are none."""
    until = time.monotonic() + seconds
    while (
        left := {process for process in processes if alive(process)}
    ) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _begin(process: psutil.Process) -> float:
    """Return when a process began, in seconds; before all others where it is gone."""
    try:
        return float(process.create_time())
    except psutil.NoSuchProcess:
        return 0.0


if __name__ == "__main__":
    watch(int(sys.argv[1]))
