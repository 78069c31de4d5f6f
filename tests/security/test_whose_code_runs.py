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

import render_agent
from render_agent.errors import UsageError
from render_agent.options import fingerprint_of

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


@pytest.fixture
def finished(evil, typed):
    """Return the folder of a run whose policy is stored elsewhere, as in the default layout."""
    typed(evil, *CONFIG, "--allow-code")
    (path,) = (evil / "experiment_logs").glob("2*_batched")
    (evil / "ran").unlink()
    return path


@pytest.fixture
def downloaded(finished):
    """Return the same without its turns and results."""
    (finished / "results.json").unlink()
    (finished / "turns.jsonl").unlink()
    return finished


def edit_config(path, **options):
    """Change options of a run, including their fingerprint."""
    record = json.loads((path / "config.json").read_text())
    record["config"] |= options
    record["fingerprint"] = fingerprint_of(record["config"])
    (path / "config.json").write_text(json.dumps(record))


@pytest.mark.parametrize("arguments", [(), ("--config", "config.yaml")])
@pytest.mark.parametrize("name", ["evil.py", "linked.py"])
def test_resuming_runs_no_unnamed_policy(evil, typed, downloaded, name, arguments):
    (evil / "linked.py").symlink_to("evil.py")
    edit_config(downloaded, model=str(evil / name))
    (evil / "config.yaml").write_text(yaml.safe_dump({"model": str(evil / name)}))
    assert str(downloaded / "config.json") in typed(evil, "--continue", downloaded, *arguments, code=2)  # fmt: skip
    assert not (evil / "ran").exists()


def test_dry_run_of_resuming_runs_no_code(evil, typed, downloaded):
    typed(evil, "--continue", downloaded, "--dry-run")
    typed(evil, "--continue", downloaded, "--dry-run", "--allow-code")
    assert not (evil / "ran").exists()


def test_environment_does_not_name_the_policy_again(evil, typed, downloaded, monkeypatch):
    monkeypatch.setenv("RENDER_AGENT_MODEL", str(evil / "evil.py"))
    assert "--allow-code" in typed(evil, "--continue", downloaded, code=2)
    assert not (evil / "ran").exists()


@pytest.mark.parametrize("arguments", [("--allow-code",), ("--model", "evil.py")])
def test_resuming_runs_a_policy_that_the_user_permits(evil, typed, downloaded, arguments):
    typed(evil, "--continue", downloaded, *arguments)
    assert (evil / "ran").exists()


def test_python_resumes_a_policy_that_is_named_again(evil, downloaded):
    with pytest.raises(UsageError, match="--allow-code"):
        render_agent.continue_run(downloaded)
    assert not (evil / "ran").exists()
    assert render_agent.continue_run(downloaded, model=evil / "evil.py").finished
    assert (evil / "ran").exists()


@pytest.mark.parametrize("spelling", ["evil.py/", "evil.py/.", "./evil.py"])
def test_spelling_does_not_hide_code(evil, typed, spelling):
    for name in ("config.yaml", "sweep.yaml"):
        text = (evil / name).read_text()
        (evil / name).write_text(text.replace(str(evil / "evil.py"), spelling))
    typed(evil, *CONFIG, code=2)
    typed(evil, *SWEEP, code=2)
    assert not (evil / "ran").exists()


@pytest.mark.parametrize("option", ["model", "benchmark", "annotations"])
def test_relative_paths_of_a_run_are_refused(evil, typed, downloaded, option):
    """They would be read from the folder that the reader happens to be in."""
    name = "evil.py" if option == "model" else "questions.jsonl"
    edit_config(downloaded, **{option: name})
    for arguments in ((), ("--dry-run",), ("--allow-code",)):
        output = typed(evil, "--continue", downloaded, *arguments, code=2)
        assert f"--{option}" in output
        assert name in output
    assert not (evil / "ran").exists()


@pytest.mark.parametrize(
    "command",
    ["ls", "show {}", "report {}", "compare {} other", "rescore {}", "diagnose {}", "bundle {} --to b.zip", "export {} --format csv --to a.csv"],
)  # fmt: skip
def test_reading_commands_run_no_code(evil, typed, finished, command):
    shutil.copytree(finished, finished.with_name("other"))
    typed(evil, *command.format(*[finished.name] * command.count("{}")).split())
    assert not (evil / "ran").exists()


START_PROCESSES = """
from pathlib import Path
from render_agent.cli.commands.doctor.checks import run_probe
from render_agent.util.processes import map_in_processes, signal_name, start_child

if __name__ == "__main__":
    assert list(map_in_processes(abs, [1, -2], 2)) == [1, 2]
    assert "no such folder" in run_probe("os", "listdir", "no such folder", seconds=60).error
    start_child(signal_name)[1].wait()
"""


def test_child_processes_import_nothing_from_the_working_directory(tmp_path):
    """Regression test: doctor and reports with several processes ran modules of the folder they were started in."""
    program, folder = tmp_path / "program" / "start.py", tmp_path / "downloaded"
    folder.mkdir()
    program.parent.mkdir()
    program.write_text(START_PROCESSES)
    for name in ("multiprocessing", "json", "numpy", "render_agent", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    process = subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not (tmp_path / "ran").exists()
    assert process.returncode == 0, process.stderr


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
