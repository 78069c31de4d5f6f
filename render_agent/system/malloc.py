"""The C library's memory: freed blocks given back to the system, garbage collected rarely, allocations bounded."""

from __future__ import annotations

import atexit
import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LARGE_BLOCK_BYTES = 1 << 20
"""Bytes of a block that is mapped on its own."""

NEW_OBJECTS = 200_000
"""More of them at a time than a page or a scene is made of."""

_MMAP_THRESHOLD = -3
"""What `mallopt` calls the bound, by glibc's <malloc.h>."""


def give_back_large_blocks() -> bool:
    """Have every block of LARGE_BLOCK_BYTES or more given back when it is freed; return whether that can be had.

    glibc maps such blocks on their own, but raises the bound with each that is freed, up to 32 MiB (mallopt(3));
    below it they lie among small ones in the arena of a thread, whose end stays resident. Other C libraries are
    left as they are.
    """
    return bool(_call_libc("mallopt", _MMAP_THRESHOLD, LARGE_BLOCK_BYTES))


def give_back_freed() -> None:
    """Give back now whatever the C library keeps of what was freed, where it is glibc."""
    _call_libc("malloc_trim", 0)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for circles of objects only when NEW_OBJECTS more are there.

    A log is read as hundreds of thousands of objects, in no circle, and every look would visit all of them.
    """
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def end_without_collecting() -> None:
    """Have this process end without a last look for circles of objects: its memory ends with it."""
    atexit.register(gc.freeze)


@contextmanager
def bounded_memory(most: int) -> Iterator[None]:
    """Let this process take `most` bytes more than it has; ValueError where a block asks for more.

    Where the system is not Linux, nothing is bounded.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = has + most if soft == resource.RLIM_INFINITY else min(has + most, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    except MemoryError:
        raise ValueError(f"it asks for more than {most:,} bytes of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _call_libc(name: str, *arguments: int) -> int:
    """Return what a function of glibc returns; 0 where the C library is another."""
    try:
        return int(getattr(ctypes.CDLL("libc.so.6"), name)(*arguments))
    except (OSError, AttributeError):
        return 0
