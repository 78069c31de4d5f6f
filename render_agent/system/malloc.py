"""Freed memory goes back to the system, so that a process that works for days holds no more than it uses."""

from __future__ import annotations

import ctypes

LARGE_BLOCK_BYTES = 1 << 20
"""Bytes of a block that is mapped on its own."""

_MMAP_THRESHOLD = -3
"""What `mallopt` calls the bound, by glibc's <malloc.h>."""


def give_back_large_blocks() -> bool:
    """Have every block of LARGE_BLOCK_BYTES or more given back when it is freed; return whether that can be had.

    glibc maps such blocks on their own, but raises the bound with each that is freed, up to 32 MiB (mallopt(3));
    below it they lie among small ones in the arena of a thread, whose end stays resident. Other C libraries are
    left as they are.
    """
    return bool(_called("mallopt", _MMAP_THRESHOLD, LARGE_BLOCK_BYTES))


def give_back_freed() -> None:
    """Give back now whatever the C library keeps of what was freed, where it is glibc."""
    _called("malloc_trim", 0)


def _called(name: str, *arguments: int) -> int:
    """Return what a function of glibc returns; 0 where the C library is another."""
    try:
        return int(getattr(ctypes.CDLL("libc.so.6"), name)(*arguments))
    except (OSError, AttributeError):
        return 0
