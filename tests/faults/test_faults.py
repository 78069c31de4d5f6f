"""Faults in real processes: every run resumes to the transcripts of an undisturbed one."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import mostly_slow
from crashing_renderer import install
from factories import TREE
from factories.runs import comparable_results, images, make_questions, transcripts

from render_agent.runs.read import list_runs

PROGRAM = Path(__file__).with_name("program.py")
QUESTIONS = 4
STEPS = ({"rotation_angle_degrees": 40, "forward_meters": 0.3}, {"view": "top"}, {"view": "around"})


class Experiment:
    """A folder of runs over the same questions, and the undisturbed run."""

    def __init__(self, folder, words, undisturbed=None, type_in=None):
        self.folder, self.words, self.undisturbed = folder, words, undisturbed
        self.type_in = type_in
        self.output, self.note = folder / "runs", folder / "note"
        self.output.mkdir(parents=True)
        self.environment = {**os.environ, "PYTHONPATH": str(TREE), "NO_COLOR": "1"}

    def start(self, *words, **fault):
        fault = {"folder": str(self.output), "note": str(self.note), **fault}
        command = [sys.executable, str(PROGRAM), json.dumps(fault), *(words or self.words)]
        return subprocess.Popen(
            [*command, "--output", str(self.output)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )

    def run(self, code, message="", **fault):
        """Run the program in a process and check its exit code."""
        with self.start(**fault) as process:
            output, _ = process.communicate(timeout=300)
        assert process.returncode == code, output
        assert re.search(message, output), output
        assert "Traceback" not in output
        return output

    def resume(self):
        """Resume the run, or start it if it left no folder, in this process; return the exit code and stderr."""
        words = ["--continue", "recent"] if list_runs(self.output) else self.words
        code, _, err = self.type_in(*words, "--output", self.output, folder=self.folder)
        return code, err

    def lines(self):
        logs = [path / "turns.jsonl" for path in list_runs(self.output)]
        return [line for log in logs if log.exists() for line in log.read_bytes().split(b"\n")[:-1]]

    def resume_and_compare(self):
        """Resume the run and compare it with the undisturbed one: nothing is lost."""
        before = self.lines()
        code, err = self.resume()
        assert code == 0, err
        assert self.lines()[: len(before)] == before
        self.compare()

    def compare(self):
        """Compare the run with the undisturbed one: nothing is duplicated."""
        (path,) = list_runs(self.output)
        turns = [
            (x["question_id"], x["turn"]) for x in map(json.loads, self.lines()) if not x["error"]
        ]
        assert len(turns) == len(set(turns))
        assert transcripts(path) == transcripts(self.undisturbed)
        assert comparable_results(path) == comparable_results(self.undisturbed)
        assert images(path) == images(self.undisturbed)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The undisturbed run, and its number of events by kind."""
    folder = tmp_path_factory.mktemp("undisturbed")
    replies = [
        {
            "id": number,
            "replies": [*STEPS[: number % 4], {"answer": "B" if number % 2 else "3", "done": True}],
        }
        for number in range(QUESTIONS)
    ]
    (folder / "replies.jsonl").write_text("".join(json.dumps(line) + "\n" for line in replies))
    words = [
        *("--batch", "--benchmark", str(make_questions(folder, QUESTIONS))),
        *("--engine", "scripted", "--model", str(folder / "replies.jsonl")),
        *("--image-size", "48x36", "--batch-size", "2", "--max-turns", "5"),
    ]
    experiment = Experiment(folder, words)
    experiment.run(code=0)
    (experiment.undisturbed,) = list_runs(experiment.output)
    return experiment, json.loads(experiment.note.read_text())


@pytest.fixture
def experiment(undisturbed, tmp_path, type_in):
    original, _ = undisturbed
    return Experiment(tmp_path / "experiment", original.words, original.undisturbed, type_in)


@pytest.fixture
def random_event(undisturbed):
    """Return a function that draws an event of one kind, except the last few, from a seed."""
    _, counts = undisturbed

    def draw(kind, seed, except_last=0):
        at = random.Random(f"{kind} {seed}").randint(1, max(1, counts[kind] - except_last))
        return {"kind": kind, "at": at}

    return draw


@pytest.mark.parametrize("seed", mostly_slow(range(12), 0))
def test_killed_run_resumes_identically(experiment, random_event, seed):
    experiment.run(
        code=-signal.SIGKILL, action="signal", number=signal.SIGKILL, **random_event("writes", seed)
    )
    for again in range(seed % 3):
        if list_runs(experiment.output):
            at = 5 + random_event("writes", f"{seed} {again}")["at"] // 3
            words = ("--continue", "recent")
            with experiment.start(*words, action="signal", number=signal.SIGKILL, at=at) as process:
                process.communicate(timeout=300)
            assert process.returncode in (0, -signal.SIGKILL)
    experiment.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("kind", ["writes", "draws", "answers"])
def test_signal_stops_the_run_and_prints_how_to_resume(
    experiment, random_event, number, code, kind
):
    event = random_event(kind, code, except_last=5)
    output = experiment.run(code=code, action="signal", number=number, **event)
    assert "--continue" in output or "run folder: " not in output
    experiment.resume_and_compare()


@pytest.mark.parametrize("error", mostly_slow(["ENOSPC", "EIO", "EROFS", "EDQUOT"], "ENOSPC"))
@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
def test_full_disk_stops_the_run(experiment, random_event, error, seed):
    event = random_event("writes", seed, except_last=5)
    message = rf"error: cannot .*{os.strerror(getattr(errno, error))}"
    experiment.run(code=1, message=message, action="fail", error=error, **event)
    experiment.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["draws", "answers", "loads"])
def test_run_can_resume_after_memory_error(experiment, random_event, kind):
    experiment.run(code=1, message="memory", action="no_memory", **random_event(kind, 0))
    experiment.resume_and_compare()


def test_second_process_is_refused_and_changes_nothing(experiment, random_event):
    go = experiment.folder / "go"
    fault = {"action": "hold", "until": str(go), **random_event("answers", 0, except_last=2)}
    with experiment.start(**fault) as first:
        until = time.monotonic() + 120
        while not experiment.note.exists() and time.monotonic() < until:
            time.sleep(0.02)
        before = experiment.lines()
        code, err = experiment.resume()
        assert code == 1
        assert f"process {first.pid} " in err
        assert experiment.lines() == before
        go.touch()
        first.communicate(timeout=300)
    assert first.returncode == 0
    experiment.compare()


@pytest.mark.slow
def test_moved_folder_stops_the_run(experiment, random_event):
    away = experiment.folder / "away"
    event = random_event("answers", 0, except_last=3)
    experiment.run(code=1, message="error: ", action="remove", to=str(away), **event)
    assert not list_runs(experiment.output)
    away.rename(experiment.output / "20260101T000000_batched")
    experiment.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "times"), [("crash", 1), ("crash", 10**6), ("no memory", 1)])
def test_renderer_crash_loses_no_turn(experiment, monkeypatch, how, times):
    site = install(experiment.folder / "site")
    fault = {"how": how, "times": times, "at": 3, "folder": str(experiment.folder)}
    experiment.environment["PYTHONPATH"] += os.pathsep + str(site)
    experiment.words = [*experiment.words, "--renderer", "crashing"]
    experiment.environment["CRASHING_RENDERER"] = json.dumps(fault)
    experiment.run(code=0 if (how, times) == ("crash", 1) else 1)
    monkeypatch.setenv("CRASHING_RENDERER", json.dumps(fault | {"times": 0}))
    monkeypatch.setenv("PYTHONPATH", experiment.environment["PYTHONPATH"])
    monkeypatch.syspath_prepend(site)
    experiment.resume_and_compare()
