"""Simulated device memory."""

from dataclasses import dataclass, field


@dataclass
class FakeMemory:
    """Device memory of a fixed size."""

    size: int  # total bytes
    taken: int = 0  # bytes in use by other processes; tests may change it at any time
    peak_bytes: int = field(default=0, init=False)

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
        self.peak_bytes = self.taken

    def peak(self) -> int:
        """Return the most bytes in use at once since the last reset."""
        return self.peak_bytes

    def allocate(self, count: int) -> None:
        """Allocate and free `count` bytes. Raises MemoryError if they are not available."""
        if count > self.free():
            raise MemoryError(f"{count} bytes of {self.free()}")
        self.peak_bytes = max(self.peak_bytes, self.taken + count)
