"""A run that is killed leaves none of vLLM's processes; in a process of its own, as it would be killed."""

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
    find_spec("vllm") is None, reason="vLLM is not here: make test-vllm"
)

# Questions: more than are answered before the kill.
COUNT = 64


@pytest.fixture
def process(tmp_path):
    """A run of the program."""
    options = {
        "--benchmark": make_questions(tmp_path, COUNT),
        "--output": tmp_path / "runs",
        "--engine": "vllm",
        "--model": small_model(),
        "--dtype": "float32",
        "--image-size": "96x64",
        "--max-model-len": 8192,
    }
    given = [str(word) for pair in options.items() for word in pair]
    with (
        (tmp_path / "output").open("w") as output,
        psutil.Popen(
            [sys.executable, "-m", "render_agent", "--batch", *given],
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        yield process
        process.kill()


def started(process):
    """Return what descends from a process; nothing where it is gone."""
    with suppress(psutil.NoSuchProcess):
        return process.children(recursive=True)
    return []


def alive(process):
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def engines(process):
    """Return those of a run's processes that call themselves vLLM's."""
    found = []
    for one in started(process):
        with suppress(psutil.NoSuchProcess):
            found += [one] * any("VLLM::" in word for word in one.cmdline())
    return found


def wait_for(found, process, folder, seconds=240):
    """Wait until something is found while the run goes on, and return it."""
    until = time.monotonic() + seconds
    while not (this := found()):
        assert process.poll() is None, (folder / "output").read_text()
        assert time.monotonic() < until
        time.sleep(0.1)
    return this


@pytest.mark.parametrize("moment", ["loading", "answering"])
def test_a_killed_run_leaves_none_of_its_processes(process, tmp_path, moment):
    def lines():
        return [file for file in tmp_path.glob("runs/*/turns.jsonl") if file.stat().st_size]

    wait_for(lambda: engines(process), process, tmp_path)
    if moment == "answering":
        wait_for(lines, process, tmp_path)
    else:
        time.sleep(2 * POLL_SECONDS)
        assert not lines()
    left = started(process)
    assert engines(process)
    assert process.poll() is None
    try:
        process.kill()
        until = time.monotonic() + 10
        while (left := list(filter(alive, left))) and time.monotonic() < until:
            time.sleep(0.05)
        assert [one.cmdline() for one in left] == []
    finally:
        for one in left:
            one.kill()
