"""How much memory a device has, how much of it is free, and how much a call of the model took at the most."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import psutil
import torch

from render_agent.util.memory import main_memory

SAMPLED_EVERY = 0.02
"""Seconds between two looks at the memory in use: with 0.005 a busy machine lost a sixth of its time to them."""


class DeviceMemory(Protocol):
    """The memory that a model's tensors lie in; all figures are bytes."""

    def total(self) -> int:
        """Return how much there is, or how much this process may have."""
        ...

    def free(self) -> int:
        """Return what can still be had, with what the allocator holds unused."""
        ...

    def used(self) -> int:
        """Return what is in use by this process."""
        ...

    def reset_peak(self) -> None:
        """Begin to watch for the peak."""
        ...

    def peak(self) -> int:
        """Return the most that was in use at once since `reset_peak`."""
        ...


def spare(memory: DeviceMemory, fraction: float) -> int:
    """Return the bytes that may be taken so that a fraction of all memory stays free."""
    return max(0, memory.free() - round(fraction * memory.total()))


@contextmanager
def watched(memory: DeviceMemory) -> Iterator[list[int]]:
    """Watch what something takes, whether it succeeds or not; give a list that holds those bytes when it has ended."""
    needed: list[int] = []
    memory.reset_peak()
    before = memory.used()
    try:
        yield needed
    finally:
        needed.append(max(0, memory.peak() - before))


def memory_of(model: Any) -> DeviceMemory:
    """Return the memory of the devices that a model lies on; parts on disk or in main memory apart."""
    devices = {parameter.device for parameter in model.parameters()}
    numbers = sorted({device.index or 0 for device in devices if device.type == "cuda"})
    if numbers:
        return CudaMemory(numbers)
    return MpsMemory() if any(device.type == "mps" for device in devices) else MainMemory()


class CudaMemory:
    """GPUs; of several that share a model the fullest decides, since its share is what runs out."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)

    def total(self) -> int:
        """Return the memory of all."""
        return sum(int(torch.cuda.mem_get_info(number)[1]) for number in self.numbers)

    def free(self) -> int:
        """Return as many times what the fullest has left, with what its cache of blocks holds unused."""
        left = [
            int(torch.cuda.mem_get_info(number)[0])
            + int(torch.cuda.memory_reserved(number))
            - int(torch.cuda.memory_allocated(number))
            for number in self.numbers
        ]
        return min(left) * len(left)

    def used(self) -> int:
        """Return what tensors take."""
        return sum(int(torch.cuda.memory_allocated(number)) for number in self.numbers)

    def reset_peak(self) -> None:
        """Begin to watch for the peak."""
        for number in self.numbers:
            torch.cuda.reset_peak_memory_stats(number)

    def peak(self) -> int:
        """Return the most that tensors took, summed over the GPUs' own peaks."""
        return sum(int(torch.cuda.max_memory_allocated(number)) for number in self.numbers)


class SampledMemory:
    """Memory whose peak no system keeps as it is wanted here: a thread looks at it again and again."""

    _peak: SampledPeak | None = None

    def used(self) -> int:
        """Return what is in use by this process."""
        raise NotImplementedError

    def reset_peak(self) -> None:
        """Begin to watch for the peak.

        Memory that the C library kept of freed blocks is returned first: a call that fills it again would seem to
        need nothing.
        """
        with suppress(OSError, AttributeError):  # not glibc
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        if self._peak is not None:
            self._peak.stop()
        self._peak = SampledPeak(self.used)

    def peak(self) -> int:
        """Return the most that was seen in use, other threads' work included."""
        return self._peak.stop() if self._peak is not None else self.used()


class MainMemory(SampledMemory):
    """The machine's memory, within the limit of the control group that the process is in."""

    def __init__(self, root: Path = Path("/")) -> None:
        """root: the folder that `proc` and `sys` lie in."""
        self._root = root
        self._process = psutil.Process()

    def total(self) -> int:
        """Return the machine's memory or the group's limit, whichever is less."""
        return main_memory(self._root)[0]

    def free(self) -> int:
        """Return what can be had without swapping, within the group's limit."""
        return main_memory(self._root)[1]

    def used(self) -> int:
        """Return the resident memory of this process."""
        return int(self._process.memory_info().rss)


class MpsMemory(SampledMemory):
    """The memory that an Apple GPU shares with the machine."""

    def total(self) -> int:
        """Return what Metal recommends as the most."""
        return int(torch.mps.recommended_max_memory())

    def free(self) -> int:
        """Return what is left of it."""
        return max(0, self.total() - self.used())

    def used(self) -> int:
        """Return what tensors take."""
        return int(torch.mps.current_allocated_memory())


class SampledPeak:
    """The peak of a figure, sampled by a thread every few milliseconds."""

    def __init__(self, figure: Callable[[], int]) -> None:
        self.figure = figure
        self.most = figure()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory peak", daemon=True)
        self._thread.start()

    def stop(self) -> int:
        """Return the peak and watch no longer."""
        self._ended.set()
        self._thread.join()
        return self.most

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLED_EVERY):
            self.most = max(self.most, self.figure())
