"""Faults in real processes: whatever happens, the run resumes to the undisturbed transcripts."""

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
from crashing_renderer import installed
from factories import TREE
from factories.runs import comparable_results, images, make_questions, transcripts

from render_agent.runs.read import list_runs

PROGRAM = Path(__file__).with_name("program.py")
QUESTIONS = 4
STEPS = ({"rotation_angle_degrees": 40, "forward_meters": 0.3}, {"view": "top"}, {"view": "around"})


class Ground:
    """A folder of runs over the same questions, and the undisturbed run."""

    def __init__(self, folder, words, whole=None):
        self.folder, self.words, self.whole = folder, words, whole
        self.output, self.note = folder / "runs", folder / "note"
        self.output.mkdir(parents=True)
        self.environment = {**os.environ, "PYTHONPATH": str(TREE), "NO_COLOR": "1"}

    def start(self, *words, **fault):
        typed = [*(words or self.words), "--output", str(self.output)]
        fault = {"below": str(self.output), "note": str(self.note), **fault}
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), json.dumps(fault), *typed],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment,
        )

    def run(self, *words, code, said="", **fault):
        """Run the program, by default a new run, and check its exit code."""
        with self.start(*words, **fault) as process:
            told, _ = process.communicate(timeout=300)
        assert process.returncode == code, told
        assert re.search(said, told), told
        assert "Traceback" not in told
        return told

    def lines(self):
        logs = [path / "turns.jsonl" for path in list_runs(self.output)]
        return [line for log in logs if log.exists() for line in log.read_bytes().split(b"\n")[:-1]]

    def resume_and_compare(self):
        """Resume the run and compare it with the undisturbed one: nothing is lost or duplicated."""
        before = self.lines()
        runs = list_runs(self.output)
        self.run(*(["--continue", "recent"] if runs else []), code=0)
        (path,) = list_runs(self.output)
        assert self.lines()[: len(before)] == before
        turns = [
            (x["question_id"], x["turn"]) for x in map(json.loads, self.lines()) if not x["error"]
        ]
        assert len(turns) == len(set(turns))
        assert transcripts(path) == transcripts(self.whole)
        assert comparable_results(path) == comparable_results(self.whole)
        assert images(path) == images(self.whole)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The undisturbed run, and its number of ticks by sort."""
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
    ground = Ground(folder, words)
    ground.run(code=0)
    (ground.whole,) = list_runs(ground.output)
    return ground, json.loads(ground.note.read_text())


@pytest.fixture
def ground(undisturbed, tmp_path):
    whole, _ = undisturbed
    return Ground(tmp_path / "ground", whole.words, whole.whole)


@pytest.fixture
def moment(undisturbed):
    """Return a function that draws a tick of one sort from a seed."""
    _, ticks = undisturbed

    def draw(sort, seed, last=0):
        at = random.Random(f"{sort} {seed}").randint(1, max(1, ticks[sort] - last))
        return {"sort": sort, "at": at}

    return draw


@pytest.mark.parametrize("seed", mostly_slow(range(12), 0))
def test_killed_run_resumes_identically(ground, moment, seed):
    ground.run(code=-signal.SIGKILL, deed="signal", number=signal.SIGKILL, **moment("writes", seed))
    for again in range(seed % 3):
        if list_runs(ground.output):
            at = 5 + moment("writes", f"{seed} {again}")["at"] // 3
            words = ("--continue", "recent")
            with ground.start(*words, deed="signal", number=signal.SIGKILL, at=at) as process:
                process.communicate(timeout=300)
            assert process.returncode in (0, -signal.SIGKILL)
    ground.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("sort", ["writes", "draws", "answers"])
def test_signal_stops_the_run_and_prints_how_to_resume(ground, moment, number, code, sort):
    told = ground.run(code=code, deed="signal", number=number, **moment(sort, code, last=5))
    assert "Resume with: " in told or "run folder: " not in told
    ground.resume_and_compare()


@pytest.mark.parametrize("error", mostly_slow(["ENOSPC", "EIO", "EROFS", "EDQUOT"], "ENOSPC"))
@pytest.mark.parametrize("seed", mostly_slow(range(3), 0))
def test_full_disk_stops_the_run(ground, moment, error, seed):
    said = rf"error: cannot (write|make) .*{os.strerror(getattr(errno, error))}"
    ground.run(code=1, said=said, deed="fail", error=error, **moment("writes", seed, last=5))
    ground.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize("sort", ["draws", "answers", "loads"])
def test_run_can_resume_after_memory_error(ground, moment, sort):
    ground.run(code=1, said="memory", deed="no_memory", **moment(sort, 0))
    ground.resume_and_compare()


def test_second_process_is_refused_and_changes_nothing(ground, moment):
    go = ground.folder / "go"
    fault = {"deed": "hold", "until": str(go), **moment("answers", 0, last=2)}
    with ground.start(**fault) as first:
        until = time.monotonic() + 120
        while not ground.note.exists() and time.monotonic() < until:
            time.sleep(0.02)
        before = ground.lines()
        said = f"is being written by process {first.pid} on "
        ground.run("--continue", "recent", code=1, said=said, deed="hold", until=str(go), at=10**9)
        assert ground.lines() == before
        go.touch()
        first.communicate(timeout=300)
    assert first.returncode == 0
    ground.resume_and_compare()


@pytest.mark.slow
def test_moved_folder_stops_the_run(ground, moment):
    away = ground.folder / "away"
    ground.run(code=1, said="error: ", deed="remove", to=str(away), **moment("answers", 0, last=3))
    assert not list_runs(ground.output)
    away.rename(ground.output / "20260101T000000_batched")
    ground.resume_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize(("how", "times"), [("crash", 1), ("crash", 10**6), ("no memory", 1)])
def test_renderer_crash_loses_no_turn(ground, moment, how, times):
    site = installed(ground.folder / "site")
    told = {"how": how, "times": times, "at": 3, "folder": str(ground.folder)}
    ground.environment["PYTHONPATH"] += os.pathsep + str(site)
    ground.words = [*ground.words, "--renderer", "crashing"]
    ground.environment["CRASHING_RENDERER"] = json.dumps(told)
    ground.run(code=0 if (how, times) == ("crash", 1) else 1)
    ground.environment["CRASHING_RENDERER"] = json.dumps(told | {"times": 0})
    ground.resume_and_compare()
