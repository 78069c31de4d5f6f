"""What memory there is, what is free, and what was the most in use, as the system itself says it."""

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
    memory_of,
    spare,
    watched,
)

MEGABYTE = 2**20


def test_main_memory_is_what_the_system_has():
    memory = MainMemory()
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < memory.free() <= memory.total() <= physical
    assert 10 * MEGABYTE < memory.used() < memory.total()


def test_the_peak_is_what_was_in_use_for_a_moment():
    memory = MainMemory()
    gc.collect()
    for megabytes in (200, 20, 100):
        memory.reset_peak()
        before = memory.used()
        # of the system and not of what the C library kept, which is in use already
        block = np.frombuffer(mmap.mmap(-1, megabytes * MEGABYTE), np.uint8)
        block[:] = 1
        until = time.monotonic() + 120
        while memory._peak.most < before + block.nbytes * 0.9:
            assert time.monotonic() < until
        del block
        needed = memory.peak() - before
        assert 0.9 * megabytes < needed / MEGABYTE < megabytes + 40, "of this call alone"


def test_what_the_c_library_kept_is_no_part_of_the_next_call():
    count = 5000  # beside which holes in what earlier tests hold are small
    memory = MainMemory()
    small = [torch.ones(25_000) for _ in range(count)]
    del small
    gc.collect()
    memory.reset_peak()
    before = memory.used()
    again = [torch.ones(25_000) for _ in range(count)]
    until = time.monotonic() + 120
    while memory._peak.most < memory.used():
        assert time.monotonic() < until
    needed = memory.peak() - before
    del again
    assert needed > 0.9 * count * 100_000


def watching():
    return [thread for thread in threading.enumerate() if thread.name == "memory peak"]


def test_what_fails_is_watched_no_longer():
    before = watching()
    with pytest.raises(ZeroDivisionError), watched(MainMemory()):
        1 / (len(watching()) - len(before) - 1)
    assert watching() == before


def test_a_sampled_peak_sees_what_rises_and_falls():
    level = 5
    peak = SampledPeak(lambda: level)
    level = 50
    while peak.most < 50:
        pass
    level = 7
    assert peak.stop() == 50


def test_what_may_be_taken_leaves_a_fraction_free():
    assert spare(FakeMemory(1000, taken=300), 0.1) == 600
    assert spare(FakeMemory(1000, taken=950), 0.1) == 0


def test_a_model_is_asked_where_it_lies():
    model = torch.nn.Linear(2, 2)
    assert isinstance(memory_of(model), MainMemory)
    assert isinstance(memory_of(model.to("meta")), MainMemory)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU")
def test_the_memory_of_a_gpu():
    model = torch.nn.Linear(2, 2).cuda()
    memory = memory_of(model)
    assert isinstance(memory, CudaMemory)
    memory.reset_peak()
    before, free = memory.used(), memory.free()
    block = torch.ones(100 * MEGABYTE, dtype=torch.uint8, device="cuda")
    assert memory.used() - before == 100 * MEGABYTE
    del block
    assert memory.peak() - before == 100 * MEGABYTE
    assert memory.used() == before
    assert abs(memory.free() - free) < 10 * MEGABYTE, "what the allocator keeps can be had again"
    assert free < memory.total()
