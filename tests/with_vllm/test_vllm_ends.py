"""Killing a run also ends vLLM's processes."""

import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec

import psutil
import pytest
from factories.models import small_model
from factories.runs import make_questions

from render_agent.engines.vllm.watcher import POLL_SECONDS

pytestmark = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed; run make test-vllm"
)

# Number of questions; more than can be answered before the kill.
COUNT = 64


@pytest.fixture
def process(tmp_path):
    """The process of a run with --engine vllm."""
    options = {
        "--benchmark": make_questions(tmp_path, COUNT),
        "--output": tmp_path / "runs",
        "--engine": "vllm",
        "--model": small_model(),
        "--dtype": "float32",
        "--image-size": "96x64",
        "--max-model-len": 8192,
    }
    flags = [str(word) for pair in options.items() for word in pair]
    with (
        (tmp_path / "output").open("w") as output,
        psutil.Popen(
            [sys.executable, "-m", "render_agent", "--batch", *flags],
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        yield process
        process.kill()


def descendants(process):
    """Return the descendants of a process; empty if it has ended."""
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def is_alive(process):
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def engines(process):
    """Return the vLLM engine processes of a run."""
    processes = []
    for child in descendants(process):
        with suppress(psutil.NoSuchProcess):
            processes += [child] * any("VLLM::" in word for word in child.cmdline())
    return processes


def wait_for(condition, process, folder, seconds=240):
    """Wait while the run continues until `found` returns something, and return it."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert process.poll() is None, (folder / "output").read_text()
        assert time.monotonic() < end
        time.sleep(0.1)
    return result


@pytest.mark.parametrize("moment", ["loading", "answering"])
def test_killed_run_leaves_no_processes(process, tmp_path, moment):
    def lines():
        return [file for file in tmp_path.glob("runs/*/turns.jsonl") if file.stat().st_size]

    wait_for(lambda: engines(process), process, tmp_path)
    if moment == "answering":
        wait_for(lines, process, tmp_path)
    else:
        time.sleep(2 * POLL_SECONDS)
        assert not lines()
    remaining = descendants(process)
    assert engines(process)
    assert process.poll() is None
    try:
        process.kill()
        end = time.monotonic() + 10
        while (remaining := list(filter(is_alive, remaining))) and time.monotonic() < end:
            time.sleep(0.05)
        assert [child.cmdline() for child in remaining] == []
    finally:
        for child in remaining:
            child.kill()
