"""Simulated device memory."""

from dataclasses import dataclass, field


@dataclass
class FakeMemory:
    """Device memory of a fixed size.

    Args:
        size: Total bytes.
        taken: Bytes in use by others; may change at any time.
    """

    size: int
    taken: int = 0
    most: int = field(default=0, init=False)

    def total(self) -> int:
        """Return the total bytes."""
        return self.size

    def free(self) -> int:
        """Return the free bytes."""
        return max(0, self.size - self.taken)

    def used(self) -> int:
        """Return the bytes in use."""
        return self.taken

    def reset_peak(self) -> None:
        """Reset the peak."""
        self.most = self.taken

    def peak(self) -> int:
        """Return the most bytes in use at once since the last reset."""
        return self.most

    def need(self, count: int) -> None:
        """Allocate and free this many bytes. Raises MemoryError if they are not available."""
        if count > self.free():
            raise MemoryError(f"{count} bytes of {self.free()}")
        self.most = max(self.most, self.taken + count)
