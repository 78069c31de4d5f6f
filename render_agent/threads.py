"""Pools of threads that have begun before there is work, so that none begins when memory is short."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier


def begun_pool(threads: int, name: str) -> ThreadPoolExecutor:
    """Return a pool of so many threads, named after `name`, all of which have begun.

    Whoever starts a thread waits until it says that it has begun; one that finds no memory to say so is waited
    for without end (`threading.Thread.start`), and a pool starts its threads when work comes. Here they begin
    while memory is at hand: later a shortage raises MemoryError where the work is done. MemoryError where the
    system starts no more threads.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
    met = Barrier(threads + 1)
    try:
        for _ in range(threads):
            pool.submit(met.wait)
        met.wait()
    except BaseException as error:
        met.abort()  # those that began wait for the others
        pool.shutdown(wait=False)
        if isinstance(error, RuntimeError):
            raise MemoryError(
                f"{threads} threads to work with cannot be started: {error}"
            ) from error
        raise
    return pool
