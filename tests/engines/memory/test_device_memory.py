"""Device memory: size, free memory and peak usage agree with the system's own numbers."""

import gc
import mmap
import os
import threading
import time

import numpy as np
import pytest
import torch
from factories.memory import FakeMemory

from render_agent.engines.memory.device import (
    CudaMemory,
    MainMemory,
    SampledPeak,
    device_memory,
    measure_peak,
    spare,
)

MEGABYTE = 2**20


def test_main_memory_agrees_with_the_system():
    memory = MainMemory()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory.free() <= memory.total() <= physical
    assert 10 * MEGABYTE < memory.used() < memory.total()


def test_peak_includes_short_lived_memory():
    memory = MainMemory()
    gc.collect()
    for megabytes in (200, 20, 100):
        memory.reset_peak()
        before = memory.used()
        # mmap, because memory retained by the C library already counts as used
        block = np.frombuffer(mmap.mmap(-1, megabytes * MEGABYTE), np.uint8)
        block[:] = 1
        until = time.monotonic() + 120
        while memory._peak.maximum < before + block.nbytes * 0.9:
            assert time.monotonic() < until
        del block
        needed = memory.peak() - before
        assert 0.9 * megabytes < needed / MEGABYTE < megabytes + 40, "only this block"


def test_memory_reused_by_the_c_library_counts_as_needed():
    count = 5000  # large compared with the free blocks left by earlier tests
    memory = MainMemory()
    small = [torch.ones(25_000) for _ in range(count)]
    del small
    gc.collect()
    memory.reset_peak()
    before = memory.used()
    reused = [torch.ones(25_000) for _ in range(count)]
    until = time.monotonic() + 120
    while memory._peak.maximum < memory.used():
        assert time.monotonic() < until
    needed = memory.peak() - before
    del reused
    assert needed > 0.9 * count * 100_000


def sampling_threads():
    return [thread for thread in threading.enumerate() if thread.name == "memory peak"]


def test_sampling_stops_after_an_exception():
    before = sampling_threads()
    with pytest.raises(ZeroDivisionError), measure_peak(MainMemory()):
        1 / (len(sampling_threads()) - len(before) - 1)
    assert sampling_threads() == before


def test_sampled_peak_is_the_maximum():
    level = 5
    peak = SampledPeak(lambda: level)
    level = 50
    while peak.maximum < 50:
        pass
    level = 7
    assert peak.stop() == 50


def test_spare_memory_leaves_a_fraction_free():
    assert spare(FakeMemory(1000, taken=300), 0.1) == 600
    assert spare(FakeMemory(1000, taken=950), 0.1) == 0


def test_memory_of_a_model_depends_on_its_device():
    model = torch.nn.Linear(2, 2)
    assert isinstance(device_memory(model), MainMemory)
    assert isinstance(device_memory(model.to("meta")), MainMemory)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU found")
def test_gpu_memory_counts_blocks_of_the_allocator_as_free():
    model = torch.nn.Linear(2, 2).cuda()
    memory = device_memory(model)
    assert isinstance(memory, CudaMemory)
    memory.reset_peak()
    before, free = memory.used(), memory.free()
    block = torch.ones(100 * MEGABYTE, dtype=torch.uint8, device="cuda")
    assert memory.used() - before == 100 * MEGABYTE
    del block
    assert memory.peak() - before == 100 * MEGABYTE
    assert memory.used() == before
    assert abs(memory.free() - free) < 10 * MEGABYTE, "blocks kept by the allocator count as free"
    assert free < memory.total()
