"""Memory of a device: its size, how much is free, and the peak usage of a model call."""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil
import torch

from render_agent.util.memory import available_memory

SAMPLE_SECONDS = 0.02  # sampling interval; 0.005 cost a busy machine a sixth of its time


class DeviceMemory(ABC):
    """The memory that contains a model's tensors. All values are in bytes.

    Most systems do not record the peak of its usage, so that a thread samples it.
    """

    _peak: SampledPeak | None = None

    @abstractmethod
    def total(self) -> int:
        """Return the capacity, or the limit of this process."""

    @abstractmethod
    def free(self) -> int:
        """Return the available memory, including unused memory reserved by the allocator."""

    @abstractmethod
    def used(self) -> int:
        """Return the memory in use by this process."""

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
        """Return the peak usage since `reset_peak`, including that of other threads."""
        return self._peak.stop() if self._peak is not None else self.used()


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


class CudaMemory(DeviceMemory):
    """Memory of one or several GPUs; if they share a model, the fullest one is the bottleneck."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)

    def total(self) -> int:
        return sum(int(torch.cuda.mem_get_info(number)[1]) for number in self.numbers)

    def free(self) -> int:
        free = [
            int(torch.cuda.mem_get_info(number)[0])
            + int(torch.cuda.memory_reserved(number))
            - int(torch.cuda.memory_allocated(number))
            for number in self.numbers
        ]
        return min(free) * len(free)

    def used(self) -> int:
        return sum(int(torch.cuda.memory_allocated(number)) for number in self.numbers)

    def reset_peak(self) -> None:
        for number in self.numbers:
            torch.cuda.reset_peak_memory_stats(number)

    def peak(self) -> int:
        return sum(int(torch.cuda.max_memory_allocated(number)) for number in self.numbers)


class MainMemory(DeviceMemory):
    """Main memory, within the limit of the process's control group."""

    def __init__(self) -> None:
        self._process = psutil.Process()

    def total(self) -> int:
        return available_memory()[0]

    def free(self) -> int:
        return available_memory()[1]

    def used(self) -> int:
        return int(self._process.memory_info().rss)


class MpsMemory(DeviceMemory):
    """The memory that an Apple GPU shares with the machine, up to the maximum that Metal recommends."""

    def total(self) -> int:
        return int(torch.mps.recommended_max_memory())

    def free(self) -> int:
        return max(0, self.total() - self.used())

    def used(self) -> int:
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
