"""The control group that limits this process's memory, as in a container."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The limit that the system sets a group of processes, in either version of its files.

    cache: the name, in `memory.stat`, of what the group only keeps until memory is wanted.
    """

    limit_file: Path
    usage_file: Path
    stat_file: Path
    cache: str

    def limit(self) -> int:
        """Return the most that the group may have."""
        return int(self.limit_file.read_text())

    def free(self) -> int:
        """Return what it may still have."""
        entries = dict(line.split() for line in self.stat_file.read_text().splitlines())
        held = int(self.usage_file.read_text()) - int(entries.get(self.cache, 0))
        return max(0, self.limit() - held)


def control_group(root: Path = Path("/")) -> ControlGroup | None:
    """Return the innermost control group of this process that limits its memory, if any does."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    base = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "memory":
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            top = base / "memory"
        elif not controllers:
            names, top = ("memory.max", "memory.current", "inactive_file"), base
        else:
            continue
        # Inside a container the path is often that of the host, and only the top is there.
        own = top / path.lstrip("/")
        for folder in (own, *own.parents):
            group = ControlGroup(
                folder / names[0], folder / names[1], folder / "memory.stat", names[2]
            )
            if _limits(group):
                return group
            if folder == top:
                break
    return None


def _limits(group: ControlGroup) -> bool:
    """Whether the group's files are there and name a limit; without one they say `max` or 2^63."""
    try:
        return group.limit() < 1 << 60 and group.free() >= 0
    except (OSError, ValueError):
        return False
