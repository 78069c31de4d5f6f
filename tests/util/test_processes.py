"""Child processes die with their parent."""

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
    words = ["diagnose", str(run), "--processes", "2"]
    with psutil.Popen(
        [sys.executable, "-m", "render_agent", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as command:
        while len(workers := command.children(recursive=True)) < 2:
            assert command.poll() is None
            time.sleep(0.02)
        command.kill()
    assert psutil.wait_procs(workers, timeout=10)[1] == []
