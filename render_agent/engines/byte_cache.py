"""Things kept for as long as a number of bytes allows, those used longest ago given up first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """Values by key, of at most `limit` bytes together; safe to use from several threads.

    A value larger than the limit is not kept. `hits` and `misses` count what was asked for, `bytes`
    what is kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._kept: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Value | None:
        """Return what is kept under a key, now the one used last; None where nothing is."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Keep a value of so many bytes in place of what the key had, where it fits at all."""
        with self._lock:
            self._drop(key)
            if size > self.limit:
                return
            self._kept[key] = value, size
            self.bytes += size
            while self.bytes > self.limit:
                self._drop(next(iter(self._kept)))

    def drop(self, which: Callable[[Hashable], bool]) -> None:
        """Give up everything whose key is such."""
        with self._lock:
            for key in [key for key in self._kept if which(key)]:
                self._drop(key)

    def _drop(self, key: Hashable) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self.bytes -= dropped[1]
