"""A policy's file is run only by whom the command line says so, and a dry run runs, writes and leaves nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from factories.runs import make_questions, play, walking

from render_agent.runs.log.folder import RunFolder, RunLog

POLICY = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
class Policy:
    def reply(self, request):
        return '{"answer": "A", "done": true}'
def policy(questions, seed):
    return Policy()
"""


def started(folder, *words, code=0, **streams):
    """Run the program in a process of its own, as it is typed in a folder; return what it printed and said."""
    done = subprocess.run(
        [sys.executable, "-m", "render_agent", *map(str, words)],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
        check=False,
        **streams,
    )
    assert done.returncode == code, done.stderr
    return (done.stdout or "") + (done.stderr or "")


@pytest.fixture
def typed(type_in, monkeypatch):
    """Run the program in this process, its temporary folder where it is typed; return what it printed and said."""

    def run(folder, *words, code=0):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        ended, out, err = type_in(*words, folder=folder)
        assert ended == code, err
        return out + err

    return run


@pytest.fixture
def evil(tmp_path):
    make_questions(tmp_path, 2)
    (tmp_path / "evil.py").write_text(POLICY)
    options = {
        "benchmark": str(tmp_path / "questions.jsonl"),
        "engine": "scripted",
        "model": str(tmp_path / "evil.py"),
        "image_size": "48x36",
        "max_turns": 2,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**options, "batch": True}))
    sweep = {"options": options, "grid": {"seed": [0]}}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    return tmp_path


CONFIG, SWEEP = ("--config", "config.yaml"), ("sweep", "sweep.yaml")


@pytest.mark.parametrize("words", [(*CONFIG, "--dry-run"), (*SWEEP, "--dry-run"), (*SWEEP, "--dry-run", "--allow-code"), CONFIG, SWEEP])  # fmt: skip
def test_a_file_of_options_runs_no_code(evil, typed, words):
    refused = "--dry-run" not in words
    said = typed(evil, *words, code=2 if refused else 0)
    assert not (evil / "ran").exists()
    if refused:
        assert f"names a program, {evil / 'evil.py'}, as the model" in said
        assert "Traceback" not in said


@pytest.mark.parametrize("words", [(*CONFIG, "--allow-code"), (*CONFIG, "--model", "evil.py")])
def test_whoever_starts_the_program_may_say_that_it_is_run(evil, typed, words):
    typed(evil, *words)
    assert (evil / "ran").exists()


def test_going_on_with_a_run_runs_no_code_that_came_with_it(evil, typed):
    typed(evil, *CONFIG, "--allow-code", "--output", ".")
    (path,) = evil.glob("2*_batched")
    (path / "results.json").unlink()
    (path / "turns.jsonl").unlink()
    (evil / "ran").unlink()
    said = typed(evil, "--continue", path, code=2)
    assert "config.json names a program" in said
    assert not (evil / "ran").exists()
    typed(evil, "--continue", path, "--allow-code")
    assert (evil / "ran").exists()


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_to_try_going_on_goes_not_on(evil, typed):
    path, _ = play(evil, evil / "questions.jsonl", walking(2), max_turns=5)
    (path / "results.json").unlink()
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:3]))
    before = everything(path)
    said = typed(evil, "--continue", path, "--dry-run")
    assert f"{path.name} has 3 turns of 2 questions: it would go on with 1 of them" in said
    told = json.loads(typed(evil, "--continue", path, "--dry-run", "--json"))
    assert (told["turns"], told["active"]) == (3, 1)
    assert everything(path) == before
    assert "--max-turns would change" in typed(
        evil, "--continue", path, "--dry-run", "--max-turns", "3", code=2
    )


def test_what_is_left_for_good_is_little(evil, typed):
    """A dry run keeps the pictures that it names for an hour; what it leaves where it fails is nothing."""
    old = evil / "render-agent-dry-run-old"
    old.mkdir()
    os.utime(old, (1, 1))
    draft = evil / "experiment_logs" / ".new-abcdefgh"
    draft.mkdir(parents=True)
    (draft / ".config.json.part").write_text("{")
    others = evil / "experiment_logs" / ".new-ijklmnop"
    others.mkdir()
    (others / "thesis.txt").write_text("mine")
    for folder in (draft, others):
        os.utime(folder, (1, 1))
    typed(evil, *CONFIG, "--dry-run")
    assert [path.name == old.name for path in evil.glob("render-agent-dry-run-*")] == [False]
    assert list(evil.glob("render-agent-dry-run-*/views"))
    shutil.rmtree(next(evil.glob("render-agent-dry-run-*")))
    (evil / "room.ply").write_bytes(b"ply\nnone")
    typed(evil, *CONFIG, "--dry-run", code=1)
    assert not list(evil.glob("render-agent-dry-run-*"))
    RunLog.create(evil / "experiment_logs", "batched", {"config": {}}).close()
    assert not draft.exists()
    assert (others / "thesis.txt").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_disk_that_is_full_for_what_is_said_stops_nothing(evil):
    words = (*CONFIG, "--allow-code", "--verbose")
    with Path("/dev/full").open("w") as full:
        started(evil, *words, stderr=full, stdout=subprocess.DEVNULL)
        (path,) = (evil / "experiment_logs").iterdir()
        assert RunFolder(path).results()["counts"]["failed"] == 0
        started(evil, "--batch", "--nonsense", code=2, stderr=full)
        said = started(evil, "ls", code=1, stdout=full, stderr=subprocess.PIPE)
        assert "cannot write standard output: No space left on device" in said
        assert "Traceback" not in said


CLOSED = """
import os, sys
if len(sys.argv) == 1:
    for number in range(3):
        os.close(number)
    os.execv(sys.executable, [sys.executable, __file__, "again"])
import render_agent.__main__
with open("log", "w") as log:
    os.write(2, b"what a library says")
    print("what the program says", file=sys.stderr, flush=True)
    log.write(str(log.fileno()))
"""


def test_closed_streams_are_no_files_of_the_run(tmp_path):
    (tmp_path / "closed.py").write_text(CLOSED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, "closed.py"], cwd=tmp_path, env=environment, check=True, timeout=60
    )
    assert int((tmp_path / "log").read_text()) > 2
