"""A cache limited by bytes, whose entries stay until no question needs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True)
class CacheEntry(Generic[Value]):
    """A value, its bytes, and who asks for it."""

    value: Value
    size: int
    owners: set[str] = field(default_factory=set)


class ByteCache(Generic[Value]):
    """Values by key, of at most `limit` bytes together; safe to use from several threads.

    What has an owner stays until all its owners are retired, and where there is no room a new value
    is not kept: questions take turns, so giving up the one used longest ago would give up the one
    that is needed next. What nobody owns makes room, that used longest ago first. `hits` and
    `misses` count what was asked for, `bytes` what is kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._kept: OrderedDict[Hashable, CacheEntry[Value]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable, owner: str | None = None) -> Value | None:
        """Return the value of a key, which this owner shares from now on; None where there is none."""
        with self._lock:
            held = self._kept.get(key)
            if held is None:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            if owner is not None:
                held.owners.add(owner)
            return held.value

    def put(self, key: Hashable, value: Value, size: int, owner: str | None = None) -> bool:
        """Keep a value of so many bytes in place of what the key had; whether there was room for it."""
        with self._lock:
            self._drop(key)
            free = [name for name, kept in self._kept.items() if not kept.owners]
            while free and self.bytes + size > self.limit:
                self._drop(free.pop(0))
            if self.bytes + size > self.limit:
                return False
            self._kept[key] = CacheEntry(value, size, set() if owner is None else {owner})
            self.bytes += size
            return True

    def own(self, key: Hashable, owner: str | None) -> bool:
        """Add an owner to the value of a key; whether there is one."""
        with self._lock:
            held = self._kept.get(key)
            if held is not None and owner is not None:
                held.owners.add(owner)
            return held is not None

    def retire(self, owner: str) -> None:
        """Remove an owner; values without any other owner are dropped."""
        with self._lock:
            mine = [key for key, kept in self._kept.items() if owner in kept.owners]
            for key in mine:
                self._kept[key].owners.discard(owner)
                if not self._kept[key].owners:
                    self._drop(key)

    def clear(self) -> None:
        """Give up everything."""
        with self._lock:
            self._kept.clear()
            self.bytes = 0

    def _drop(self, key: Hashable) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self.bytes -= dropped.size
