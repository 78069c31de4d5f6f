"""What is freed goes back to the system, also what a thread held among smaller things."""

import json
import platform
import subprocess
import sys

import pytest

from render_agent.system.malloc import LARGE_BLOCK_BYTES, give_back_large_blocks

SCRIPT = """
import ctypes, json, os, sys, threading
from pathlib import Path
from render_agent.system.malloc import LARGE_BLOCK_BYTES as LARGE, give_back_large_blocks

libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes, libc.memset.argtypes = [ctypes.c_void_p], [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def block(size):
    made = libc.malloc(size)
    libc.memset(made, 1, size)
    return made


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work():
    libc.free(block(31 << 20))  # raises the bound, unless that is set
    for _ in range(10):
        large, small = block(8 << 20), block(1 << 10)
        libc.free(large)  # a small one that stays lies behind it


done = give_back_large_blocks() if sys.argv[1] == "set" else None
before, grown = resident(), []
for _ in range(2):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    libc.malloc_trim(0)
    grown.append(resident() - before)
print(json.dumps({"done": done, "grown": grown}))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_nothing_large_stays_resident_once_it_is_freed():
    def found(how):
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)

    given_back = found("set")
    assert given_back["done"] is True
    assert max(given_back["grown"]) < 2 * LARGE_BLOCK_BYTES
    assert max(found("unset")["grown"]) > 4 * max(given_back["grown"])


def test_another_c_library_is_left_as_it_is(monkeypatch):
    def lacking(name):
        raise OSError(name)

    monkeypatch.setattr("ctypes.CDLL", lacking)
    assert give_back_large_blocks() is False
