"""Child processes die with their parent."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from factories.reports import run_rooms

PARENT = """
import sys, time
from render_agent.util.processes import start_child
connection, child = start_child({function})
print(child.pid, flush=True)
time.sleep(600)
"""

CHILD = """
import time
def sleep(connection):
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's PR_SET_PDEATHSIG")
def test_child_dies_when_its_parent_is_killed(tmp_path):
    (tmp_path / "sleeper.py").write_text(CHILD)
    program = PARENT.format(function="sleep").replace(
        "import sys", "from sleeper import sleep; import sys"
    )
    environment = {"PYTHONPATH": f"{tmp_path}"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        time.sleep(1)
        assert child.is_running()
        parent.kill()
    assert psutil.wait_procs([child], timeout=10)[1] == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's PR_SET_PDEATHSIG")
def test_workers_die_when_the_diagnosis_is_killed(tmp_path):
    run = run_rooms(tmp_path, scene=("room00", "room01"), max_turns=2).path
    arguments = ["diagnose", str(run), "--processes", "2"]
    with psutil.Popen(
        [sys.executable, "-m", "render_agent", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as command:
        while len(workers := command.children(recursive=True)) < 2:
            assert command.poll() is None
            time.sleep(0.02)
        command.kill()
    assert psutil.wait_procs(workers, timeout=10)[1] == []


POOL = """
import sys, time
from render_agent.util.processes import map_in_processes
from napping import nap
if __name__ == "__main__":
    for result in map_in_processes(nap, range(200), 2):
        print("ready", flush=True)
"""

NAP = """
import time
def nap(number):
    time.sleep(0.2 if number < 2 else 30)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopping_ends_the_processes_at_once(tmp_path, stop):
    """Regression test: after SIGTERM, all remaining tasks were run; after Ctrl-C, every process printed a traceback."""
    (tmp_path / "napping.py").write_text(NAP)
    program = tmp_path / "program.py"
    program.write_text(
        POOL.replace(
            "if __name__", "from render_agent.util.interrupts import install\nif __name__"
        ).replace("    for result", "    install()\n    for result")
    )
    started = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, start_new_session=True,
    )  # fmt: skip
    assert started.stdout.readline() == "ready\n"
    children = psutil.Process(started.pid).children(recursive=True)
    if stop == signal.SIGINT:
        os.killpg(started.pid, stop)  # like a terminal
    else:
        started.send_signal(stop)
    _, err = started.communicate(timeout=20)
    assert started.returncode != 0
    assert err.count("Traceback") == 1  # of the program itself, which does not catch it
    assert psutil.wait_procs(children, timeout=10)[1] == []
