"""Pools whose threads have begun before there is work."""

import subprocess
import sys
import threading

import pytest

from render_agent.system.threads import begun_pool, find_room


def named(name):
    return [thread for thread in threading.enumerate() if thread.name.startswith(name)]


def test_all_threads_have_begun_and_work_starts_no_other():
    with begun_pool(3, "begun") as pool:
        before = named("begun")
        assert len(before) == 3
        assert all(thread.is_alive() for thread in before)
        assert sorted(pool.map(abs, range(-20, 0))) == list(range(1, 21))
        assert named("begun") == before
    assert named("begun") == []


@pytest.mark.parametrize("started", [0, 1, 2])
def test_where_the_system_starts_no_more_threads_none_is_left_waiting(monkeypatch, started):
    start, left = threading.Thread.start, [started]

    def refused(thread):
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    before = set(threading.enumerate())
    with pytest.raises(MemoryError, match=r"3 threads .* can't start new thread"):
        begun_pool(3, "refused")
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive()


def test_a_thread_that_ends_before_there_is_work_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr("concurrent.futures.thread._worker", lambda *_: None)
    monkeypatch.setattr("render_agent.system.threads.START_SECONDS", 0.05)
    with pytest.raises(MemoryError, match=r"2 threads .* one ended before there was work"):
        begun_pool(2, "ended")


WITHOUT_MEMORY = """
import resource, sys
from pathlib import Path
from render_agent.system.threads import begun_pool
pool = begun_pool(2, "begun")
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
print(sum(pool.map(abs, range(-100, 0))), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_work_goes_on_where_no_thread_could_begin_any_more():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "5050\n", done.stderr


SHORT = """
import resource, sys, threading
from pathlib import Path
from render_agent.system import threads
from render_agent.system.threads import begun_pool
threads.START_SECONDS = 2.0
threads.bound_starts()
for _ in range(2):
    begun = threading.Thread(target=int)
    begun.start()
    begun.join()  # the C library keeps its stack for the next
held, size = [], 1 << 20
pages = int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize(),) * 2)
while size > int(sys.argv[1]):
    try:
        held.append(bytearray(size))
    except MemoryError:
        size //= 2
try:
    begun_pool(2, "begun")
except MemoryError:
    del held
    print("MemoryError", flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("free", [256, 512, 1024, 2048, 4096])
def test_a_thread_is_not_waited_for_that_finds_a_stack_and_no_more_memory(free):
    done = subprocess.run(
        [sys.executable, "-c", SHORT, str(free)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "MemoryError\n", done.stderr


NEVER_BEGUN = """
import threading
from render_agent.system import threads
threads.bound_starts()
threads.bound_starts()
with threads.begun_pool(2, "begun") as pool:
    print(sum(pool.map(abs, range(-100, 0))))
once = threading.Thread(target=print, args=("begun",))
once.start()
once.join()
try:
    once.start()
except RuntimeError as error:
    print(error)
def no_memory(thread):
    raise MemoryError
threading.Thread._bootstrap_inner, threads.START_SECONDS = no_memory, 0.1
for started in (lambda: threads.begun_pool(2, "none"), lambda: threads.start(threading.Thread(target=int))):
    try:
        started()
    except MemoryError as error:
        print(error)
"""


def test_a_thread_that_dies_before_it_says_that_it_begins_is_not_waited_for_without_end():
    done = subprocess.run(
        [sys.executable, "-c", NEVER_BEGUN], capture_output=True, text=True, timeout=300
    )
    never = "a thread was started and never began"
    said = ["5050", "begun", "threads can only be started once", never, never]
    assert done.stdout.splitlines() == said, done.stderr


def test_there_is_room_for_a_thread_where_there_is_memory(monkeypatch):
    find_room()
    monkeypatch.setattr("render_agent.system.threads.SPARE_BYTES", 1 << 62)
    with pytest.raises(MemoryError):
        find_room()
    with pytest.raises(MemoryError):
        begun_pool(2, "none")
    assert named("none") == []
