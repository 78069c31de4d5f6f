"""Threads that start only while there is memory for them, pools of threads that have begun, and the cores there are."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

STACK_BYTES = 8 << 20
"""Bytes of a new thread's stack where the system does not say."""

MAX_STACK_BYTES = 64 << 20
"""Bytes of one to make sure of: a larger one that the system has no room for it refuses itself."""

SPARE_BYTES = 4 << 20
"""Bytes beside its stack that a thread may need to begin."""

START_SECONDS = 15.0
"""Waited for, twice, until a started thread begins: a process that was stopped meanwhile gets a second chance."""


class Begun(threading.Event):
    """The event that a thread sets once it has begun, for which its starter waits a bounded time."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait; MemoryError where the thread does not begin: it had no memory to say so."""
        if timeout is not None:
            return super().wait(timeout)
        if super().wait(START_SECONDS) or super().wait(START_SECONDS):
            return True
        raise MemoryError("a thread was started and never began")


def bound_starts() -> None:
    """Have no start of a thread in this process, whosever it is, wait without end; for programs, not libraries.

    One that finds no memory to say that it has begun is waited for without end otherwise
    (https://github.com/python/cpython/issues/140746).
    """
    begin = threading.Thread.start

    def start_bounded(thread: threading.Thread) -> None:
        if thread.ident is None:
            thread._started = Begun()  # type: ignore[attr-defined]  # what `begin` waits for
        begin(thread)

    if begin.__name__ != start_bounded.__name__:
        threading.Thread.start = start_bounded  # type: ignore[assignment, method-assign]


def begun_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool of so many threads, named after `name`, all of which have begun.

    A pool starts its threads when work comes. Here they begin while memory is at hand: later a shortage raises
    MemoryError where the work is done. MemoryError where the system starts no more threads.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    # A thread may end before it comes to the others.
    met = threading.Barrier(threads + 1, timeout=2 * START_SECONDS)
    try:
        for _ in range(threads):
            find_room()
            pool.submit(met.wait)
        met.wait()
    except BaseException as error:
        met.abort()  # those that began wait for the others
        pool.shutdown(wait=False)
        if isinstance(error, RuntimeError):
            why = str(error) or "one ended before there was work"
            raise MemoryError(f"{threads} threads to work with cannot be started: {why}") from error
        raise
    return pool


def start(thread: threading.Thread) -> None:
    """Start a thread; MemoryError where there is not the memory for it."""
    find_room()
    thread.start()


def find_room() -> None:
    """Return where a thread can begin now; MemoryError where there is not the memory for it.

    Memory that is taken by others between this and the thread's first step is what `bound_starts` is for.
    """
    bytes(_stack() + SPARE_BYTES)  # mapped, not written, and given back at once


def cores() -> int:
    """Return how many cores of the processor this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stack() -> int:
    """Return the bytes of a new thread's stack: as Python was told, else the limit of the process."""
    if threading.stack_size():
        return threading.stack_size()
    try:
        import resource
    except ImportError:  # another system than Unix
        return STACK_BYTES
    limit = resource.getrlimit(resource.RLIMIT_STACK)[0]
    return STACK_BYTES if limit == resource.RLIM_INFINITY else min(limit, MAX_STACK_BYTES)
