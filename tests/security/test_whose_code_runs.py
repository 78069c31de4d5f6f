"""Policy files run only if the command line permits it, and dry runs execute and write nothing."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from factories.runs import make_questions, play, truncate_log, walking_engine

POLICY = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
class Policy:
    def reply(self, request):
        return '{"answer": "A", "done": true}'
def policy(questions, seed):
    return Policy()
"""


def start_program(folder, *arguments, code=0, **streams):
    """Run the program in a subprocess in a folder; return standard output and standard error."""
    result = subprocess.run(
        [sys.executable, "-m", "render_agent", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])},
        text=True,
        check=False,
        **streams,
    )
    assert result.returncode == code, result.stderr
    return (result.stdout or "") + (result.stderr or "")


@pytest.fixture
def typed(type_in, monkeypatch):
    """Return a function that runs the program in this process; it returns standard output and standard error."""

    def run(folder, *arguments, code=0):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        exit_code, out, err = type_in(*arguments, folder=folder)
        assert exit_code == code, err
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


@pytest.mark.parametrize("arguments", [(*CONFIG, "--dry-run"), (*SWEEP, "--dry-run"), (*SWEEP, "--dry-run", "--allow-code"), CONFIG, SWEEP])  # fmt: skip
def test_config_file_runs_no_code(evil, typed, arguments):
    refused = "--dry-run" not in arguments
    output = typed(evil, *arguments, code=2 if refused else 0)
    assert not (evil / "ran").exists()
    if refused:
        assert f"program, {evil / 'evil.py'}," in output
        assert "Traceback" not in output


@pytest.mark.parametrize("arguments", [(*CONFIG, "--allow-code"), (*CONFIG, "--model", "evil.py")])
def test_command_line_can_permit_code(evil, typed, arguments):
    typed(evil, *arguments)
    assert (evil / "ran").exists()


def test_resuming_runs_no_code_from_the_run_folder(evil, typed):
    typed(evil, *CONFIG, "--allow-code", "--output", ".")
    (path,) = evil.glob("2*_batched")
    (path / "results.json").unlink()
    (path / "turns.jsonl").unlink()
    (evil / "ran").unlink()
    output = typed(evil, "--continue", path, code=2)
    assert "config.json" in output
    assert not (evil / "ran").exists()
    typed(evil, "--continue", path, "--allow-code")
    assert (evil / "ran").exists()


def snapshot(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_dry_run_of_resuming_changes_nothing(evil, typed):
    path, _ = play(evil, evil / "questions.jsonl", walking_engine(2), max_turns=5)
    truncate_log(path, 3)
    before = snapshot(path)
    output = typed(evil, "--continue", path, "--dry-run")
    assert f"{path.name} has 3 turns of 2 questions" in output
    printed = json.loads(typed(evil, "--continue", path, "--dry-run", "--json"))
    assert (printed["turns"], printed["active"]) == (3, 1)
    assert snapshot(path) == before
    assert "--max-turns cannot change" in typed(
        evil, "--continue", path, "--dry-run", "--max-turns", "3", code=2
    )


def test_dry_runs_clean_up(evil, typed):
    """A dry run keeps its images for an hour; a failed one leaves nothing."""
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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is missing")
def test_full_standard_output_is_one_sentence(evil):
    with Path("/dev/full").open("w") as full:
        output = start_program(evil, "ls", code=1, stdout=full, stderr=subprocess.PIPE)
    assert "cannot write standard output: No space left on device" in output
    assert "Traceback" not in output
