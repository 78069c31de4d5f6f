"""Child processes that die with their parent, and the number of usable cores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")

_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def start_child(
    function: Callable[..., object], *arguments: str | int, stderr: int | None = None
) -> tuple[Connection[Any, Any], subprocess.Popen[bytes]]:
    """Call a module-level function in a new process; return our end of a pipe to it, and the process.

    The function receives the file descriptor of its end of the pipe, then `arguments`. On Linux the kernel kills the
    process when the thread that started it ends. Its standard output is discarded.
    """
    parent_end, child_end = Pipe()
    values = ", ".join(map(repr, (child_end.fileno(), *arguments)))
    program = (
        f"import sys; sys.path[:] = {sys.path!r}\n"
        f"from {__name__} import die_with_parent; die_with_parent({os.getpid()})\n"
        f"from {function.__module__} import {function.__name__}; {function.__name__}({values})"
    )
    with child_end:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # stdout is reserved for results
            stderr=stderr,
            pass_fds=[child_end.fileno()],
            process_group=0,  # Ctrl-C goes to the parent only, which then ends this process
        )
    return parent_end, process


def map_in_processes(
    function: Callable[[Task], Result], tasks: Sequence[Task], processes: int
) -> Iterator[Result]:
    """Yield `function(task)` for each task, in order, computed in spawned processes.

    With one process, this process computes them. Stopping the iteration, by an exception or otherwise, kills the
    processes.
    """
    if processes == 1:
        yield from map(function, tasks)
        return
    context = get_context("spawn")  # threads and compiled kernels do not survive a fork
    earlier = set(active_children())
    with _safe_path():  # starts the resource tracker
        pool = ProcessPoolExecutor(processes, context, die_with_parent, (os.getpid(),))
    try:
        # Children inherit this, so that Ctrl-C goes only to this process, which then kills the others.
        with _ignore_interrupts(), _safe_path():
            results = pool.map(function, tasks)
        yield from results
    except BaseException:
        children = set(active_children()) - earlier
        # Before the kill: a pool that finds its processes dead fails its tasks, and crashes on canceled ones.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in children:
            child.kill()
        for child in children:
            child.join()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore SIGINT; no-op outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Start Python processes that import nothing from the working directory, which may be of someone else."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent (process id `parent`) dies. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(1)


def prefer_for_oom_kill() -> None:
    """Make this process the OOM killer's first choice; see proc(5). Linux only."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def signal_name(return_code: int) -> str:
    """Return the name of the signal behind a negative return code."""
    try:
        return signal.Signals(-return_code).name
    except ValueError:
        return f"signal {-return_code}"


def count_cores() -> int:
    """Return the number of CPU cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
