"""Runs killed with SIGKILL at any point resume to the transcripts of an undisturbed run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from factories.runs import comparable_results, evidence_by_turn, images, transcripts

from render_agent.runs.read import RunData

LINES = sum(number % 4 + 2 for number in range(3))

LOOPS = ("lines,3,single", "images,2,lookahead:3")

MORE_LOOPS = (f"lines,{LINES},single", "moments,30,single", "lines,6,lookahead:3", "images,10,lookahead:3", "moments,10,show:3")  # fmt: skip


def run_loops(folder, *names):
    """Run the kill loops in one process; return their folders by loop."""
    command = [sys.executable, Path(__file__).with_name("kill_loop.py"), folder, "7", *names]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def few_kills(tmp_path_factory):
    return run_loops(tmp_path_factory.mktemp("few"), *LOOPS)


@pytest.mark.parametrize("name", LOOPS)
def test_killed_run_resumes_identically(few_kills, name):
    assert_equals_undisturbed(few_kills[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_LOOPS)
def test_frequently_killed_run_resumes_identically(tmp_path, name):
    assert_equals_undisturbed(run_loops(tmp_path / "runs", name)[name], name)


def beliefs(path):
    """Return stated beliefs by question and turn."""
    return {
        (line["question_id"], line["turn"]): line.get("probe", {}).get("reply")
        for line in RunData(path).lines()
    }


def assert_equals_undisturbed(folders, name):
    """Compare every killed run of a loop with the undisturbed one."""
    whole = Path(folders["whole"])
    count = len(RunData(whole).lines())
    assert folders["killed"]
    for runs in folders["killed"]:
        (path,) = map(Path, runs)
        assert transcripts(path) == transcripts(whole)
        assert evidence_by_turn(path) == evidence_by_turn(whole)
        assert comparable_results(path) == comparable_results(whole)
        assert beliefs(path) == beliefs(whole)
        assert images(path) == images(whole)
        numbers = [(line["question_id"], line["turn"]) for line in RunData(path).lines()]
        assert len(numbers) == len(set(numbers)) == count
    if name.endswith(",single"):
        assert count == LINES
        assert all(beliefs(whole).values())
    else:
        assert any("candidate" in file for file in images(whole))
