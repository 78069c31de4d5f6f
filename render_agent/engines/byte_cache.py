"""A cache with a byte limit whose entries are kept until all their owners are retired."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Thread-safe cache of at most `limit` bytes; `bytes` is the size of all entries.

    A value that does not fit is not cached. LRU eviction would fail here: dialogues take turns, so the least recently used
    entry is the one that is needed next.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._entries: dict[Hashable, tuple[Value, int, set[str]]] = {}  # with size and owners
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, owner: str) -> Value | None:
        """Return the value of a key, which gets another owner; None if it is not cached."""
        with self._lock:
            if (entry := self._entries.get(key)) is None:
                return None
            entry[2].add(owner)
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int, owner: str) -> None:
        """Store the value of a new key, of `size` bytes, if it fits."""
        with self._lock:
            if key not in self._entries and self.bytes + size <= self.limit:
                self._entries[key] = value, size, {owner}
                self.bytes += size

    def retire(self, owner: str) -> None:
        """Remove an owner from all entries, and drop those without another one."""
        with self._lock:
            for key, (_, size, owners) in [*self._entries.items()]:
                owners.discard(owner)
                if not owners:
                    del self._entries[key]
                    self.bytes -= size
