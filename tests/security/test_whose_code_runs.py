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
from factories.runs import cut, make_questions, play, walking

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
        assert f"program, {evil / 'evil.py'}," in said
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
    assert "config.json" in said
    assert not (evil / "ran").exists()
    typed(evil, "--continue", path, "--allow-code")
    assert (evil / "ran").exists()


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_to_try_going_on_goes_not_on(evil, typed):
    path, _ = play(evil, evil / "questions.jsonl", walking(2), max_turns=5)
    cut(path, 3)
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
    typed(evil, *CONFIG, "--dry-run")
    assert [path.name == old.name for path in evil.glob("render-agent-dry-run-*")] == [False]
    assert list(evil.glob("render-agent-dry-run-*/views"))
    shutil.rmtree(next(evil.glob("render-agent-dry-run-*")))
    (evil / "room.ply").write_bytes(b"ply\nnone")
    typed(evil, *CONFIG, "--dry-run", code=1)
    assert not list(evil.glob("render-agent-dry-run-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_for_standard_output_is_one_sentence(evil):
    with Path("/dev/full").open("w") as full:
        said = started(evil, "ls", code=1, stdout=full, stderr=subprocess.PIPE)
    assert "cannot write standard output: No space left on device" in said
    assert "Traceback" not in said
