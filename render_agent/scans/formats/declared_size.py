"""Refuse files by the size of the content that they declare, before it is read or decompressed."""

from __future__ import annotations

from pathlib import Path

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import unreadable
from render_agent.util.display import format_bytes
from render_agent.util.memory import available_memory

# Scans are compressed to a twentieth at most; only small ones, which cannot fill the memory, may be compressed further.
MAX_EXPANSION = 64
SMALL_BYTES, MAX_SMALL_EXPANSION = 64 << 20, 256


def check_expansion(path: Path, size: int, expanded: int, content: str) -> None:
    """Raise SceneError if `size` compressed bytes declare `expanded` bytes of content, more than a scan can."""
    if expanded > size * (MAX_SMALL_EXPANSION if expanded <= SMALL_BYTES else MAX_EXPANSION):
        raise too_many(path, size, content)


def check_memory(path: Path, num_bytes: int, content: str) -> None:
    """Raise SceneError if the content needs more than half of the free memory."""
    _, free = available_memory()
    if num_bytes > free // 2:
        raise unreadable(
            path,
            f"its {content} need {format_bytes(num_bytes)} of memory, more than half of the {format_bytes(free)} that are free",
            "reduce their number, or free memory",
        )


def too_many(path: Path, size: int, content: str) -> SceneError:
    """Return the error for a file that declares more content than `size` bytes can hold."""
    return unreadable(path, f"it declares {content}, too many for {size:,} bytes")
