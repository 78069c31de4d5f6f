"""A cache with a byte limit whose entries are kept until all their owners are retired."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True)
class CacheEntry(Generic[Value]):
    """A cached value, its size in bytes and its owners."""

    value: Value
    size: int
    owners: set[str] = field(default_factory=set)


class ByteCache(Generic[Value]):
    """Thread-safe cache of at most `limit` bytes.

    Only entries without an owner are evicted, least recently used first. Owned entries stay until all their owners
    are retired; a new value that does not fit is not cached. Plain LRU eviction would fail here: dialogues take
    turns, so the least recently used entry is the one that is needed next.

    `hits` and `misses` count lookups; `bytes` is the size of all entries.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._entries: OrderedDict[Hashable, CacheEntry[Value]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable, owner: str | None = None) -> Value | None:
        """Return the value of a key, or None if it is not cached; the owner is added to a cached entry."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            if owner is not None:
                entry.owners.add(owner)
            return entry.value

    def put(self, key: Hashable, value: Value, size: int, owner: str | None = None) -> bool:
        """Store a value of `size` bytes, replacing the key's old value; return False if it does not fit."""
        with self._lock:
            self._drop(key)
            ownerless_keys = [name for name, entry in self._entries.items() if not entry.owners]
            while ownerless_keys and self.bytes + size > self.limit:
                self._drop(ownerless_keys.pop(0))
            if self.bytes + size > self.limit:
                return False
            self._entries[key] = CacheEntry(value, size, set() if owner is None else {owner})
            self.bytes += size
            return True

    def own(self, key: Hashable, owner: str | None) -> bool:
        """Add an owner to the entry of a key; return False if the key is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and owner is not None:
                entry.owners.add(owner)
            return entry is not None

    def retire(self, owner: str) -> None:
        """Remove an owner from all entries, and drop the entries without another owner."""
        with self._lock:
            keys = [key for key, entry in self._entries.items() if owner in entry.owners]
            for key in keys:
                self._entries[key].owners.discard(owner)
                if not self._entries[key].owners:
                    self._drop(key)

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()
            self.bytes = 0

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry.size
