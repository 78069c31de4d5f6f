"""Memory of a stated size, for tests of what fits into it."""

from dataclasses import dataclass, field


@dataclass
class FakeMemory:
    """Memory of a stated size in which nothing lies: for simulations and tests.

    size: all there is. taken: what lies there for good; may be changed at any time, as when another
    process comes or goes.
    """

    size: int
    taken: int = 0
    most: int = field(default=0, init=False)

    def total(self) -> int:
        """Return its size."""
        return self.size

    def free(self) -> int:
        """Return what is not taken."""
        return max(0, self.size - self.taken)

    def used(self) -> int:
        """Return what is taken."""
        return self.taken

    def reset_peak(self) -> None:
        """Begin to watch for the peak."""
        self.most = self.taken

    def peak(self) -> int:
        """Return the most that was in use at once."""
        return self.most

    def need(self, count: int) -> None:
        """Take so many bytes for a moment. MemoryError where they are not there."""
        if count > self.free():
            raise MemoryError(f"{count} bytes of {self.free()}")
        self.most = max(self.most, self.taken + count)
