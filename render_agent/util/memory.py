"""Main memory: total and available bytes within the container's limits, and a limit on allocations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil


def available_memory(root: Path = Path("/")) -> tuple[int, int]:
    """Return total and available memory in bytes, within the limits of this process's control groups (v2)."""
    machine = psutil.virtual_memory()
    total, free = int(machine.total), int(machine.available)
    for group in _control_groups(root):
        with suppress(OSError, ValueError):  # no such file, or no limit ("max")
            limit = int((group / "memory.max").read_text())
            used_bytes = int((group / "memory.current").read_text())
            stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
            # the kernel reclaims inactive file pages when memory is needed
            used_bytes -= int(stat.get("inactive_file", 0))
            total, free = min(total, limit), min(free, max(0, limit - used_bytes))
    return total, free


def _control_groups(root: Path) -> list[Path]:
    """Return the folders of this process's control group and its ancestors, outermost first."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own_group = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    parts = Path(own_group).parts
    return [root.joinpath("sys/fs/cgroup", *parts[:depth]) for depth in range(len(parts) + 1)]


@contextmanager
def limit_memory(limit: int) -> Iterator[None]:
    """Limit further allocations in this process to `limit` bytes. The block raises ValueError if it exceeds them. Linux
    only.
    """
    if sys.platform != "linux":
        yield
        return
    import resource

    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = used_bytes + limit if soft == resource.RLIM_INFINITY else min(used_bytes + limit, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    except MemoryError:
        raise ValueError(f"it needs more than {limit:,} bytes of memory") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
