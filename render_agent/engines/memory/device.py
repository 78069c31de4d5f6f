"""Memory of a device: its size, how much is free, and the peak usage of a model call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch

from render_agent.util.memory import available_memory

SAMPLE_SECONDS = 0.02  # sampling interval; 0.005 cost a busy machine a sixth of its time


class DeviceMemory(Protocol):
    """The memory that contains a model's tensors. All values are in bytes."""

    def total(self) -> int:
        """Return the capacity, or the limit of this process."""
        ...

    def free(self) -> int:
        """Return the available memory, including unused memory reserved by the allocator."""
        ...

    def used(self) -> int:
        """Return the memory in use by this process."""
        ...

    def reset_peak(self) -> None:
        """Start a new measurement of the peak usage."""
        ...

    def peak(self) -> int:
        """Return the peak usage since `reset_peak`."""
        ...


def spare(memory: DeviceMemory, fraction: float) -> int:
    """Return the number of bytes that can be allocated while a fraction of the total stays free."""
    return max(0, memory.free() - round(fraction * memory.total()))


@contextmanager
def measure_peak(memory: DeviceMemory) -> Iterator[list[int]]:
    """Measure the additional memory that a block needs, even if it fails."""
    peaks: list[int] = []
    memory.reset_peak()
    before = memory.used()
    try:
        yield peaks
    finally:
        peaks.append(max(0, memory.peak() - before))


def device_memory(model: Any) -> DeviceMemory:
    """Return the memory of a model's devices; if any is a GPU, parts in main memory or on disk are ignored."""
    devices = {parameter.device for parameter in model.parameters()}
    indices = sorted({device.index or 0 for device in devices if device.type == "cuda"})
    if indices:
        return CudaMemory(indices)
    return MpsMemory() if any(device.type == "mps" for device in devices) else MainMemory()


class CudaMemory:
    """Memory of one or several GPUs; if they share a model, the fullest one is the bottleneck."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)

    def total(self) -> int:
        """Return the memory of all GPUs."""
        return sum(int(torch.cuda.mem_get_info(number)[1]) for number in self.numbers)

    def free(self) -> int:
        """Return the free memory of the fullest GPU, including its unused cached blocks, times their number."""
        free = [
            int(torch.cuda.mem_get_info(number)[0])
            + int(torch.cuda.memory_reserved(number))
            - int(torch.cuda.memory_allocated(number))
            for number in self.numbers
        ]
        return min(free) * len(free)

    def used(self) -> int:
        """Return the memory of all tensors."""
        return sum(int(torch.cuda.memory_allocated(number)) for number in self.numbers)

    def reset_peak(self) -> None:
        """Start a new measurement of the peak usage."""
        for number in self.numbers:
            torch.cuda.reset_peak_memory_stats(number)

    def peak(self) -> int:
        """Return the sum of the GPUs' peaks of tensor memory."""
        return sum(int(torch.cuda.max_memory_allocated(number)) for number in self.numbers)


class SampledMemory:
    """Memory whose peak the system does not record, so that a thread samples the usage."""

    _peak: SampledPeak | None = None

    def used(self) -> int:
        """Return the memory in use by this process."""
        raise NotImplementedError

    def reset_peak(self) -> None:
        """Start a new measurement of the peak usage.

        First return freed blocks from the C library to the system; otherwise a call that reuses them would appear to
        need no memory.
        """
        with suppress(OSError, AttributeError):  # not glibc
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        if self._peak is not None:
            self._peak.stop()
        self._peak = SampledPeak(self.used)

    def peak(self) -> int:
        """Return the highest sampled usage, including that of other threads."""
        return self._peak.stop() if self._peak is not None else self.used()


class MainMemory(SampledMemory):
    """Main memory, within the limit of the process's control group."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._process = psutil.Process()

    def total(self) -> int:
        """Return the machine's memory or the limit of the control group, whichever is less."""
        return available_memory(self._root)[0]

    def free(self) -> int:
        """Return the memory available without swapping, within the limit of the control group."""
        return available_memory(self._root)[1]

    def used(self) -> int:
        """Return the resident memory of this process."""
        return int(self._process.memory_info().rss)


class MpsMemory(SampledMemory):
    """The memory that an Apple GPU shares with the machine."""

    def total(self) -> int:
        """Return the maximum that Metal recommends."""
        return int(torch.mps.recommended_max_memory())

    def free(self) -> int:
        """Return the recommended maximum minus the memory in use."""
        return max(0, self.total() - self.used())

    def used(self) -> int:
        """Return the memory of all tensors."""
        return int(torch.mps.current_allocated_memory())


class SampledPeak:
    """Samples a value in a thread and records its maximum."""

    def __init__(self, measure: Callable[[], int]) -> None:
        self.measure = measure
        self.maximum = measure()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="memory peak", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Stop sampling and return the maximum."""
        self._stopped.set()
        self._thread.join()
        return self.maximum

    def _sample(self) -> None:
        while not self._stopped.wait(SAMPLE_SECONDS):
            self.maximum = max(self.maximum, self.measure())
