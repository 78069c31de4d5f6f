"""What is not installed is asked for by the name of its extra, before any work is done."""

import json
import re
import subprocess
import sys
from configparser import ConfigParser

import pytest
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play, walking
from packaging.requirements import Requirement

import render_agent
from render_agent.cli.main import cli
from render_agent.engines.registry import describe_engine
from render_agent.errors import SetupError
from render_agent.extras import EXTRAS, PACKAGES, require
from render_agent.runs.log.folder import find_run


def declared():
    """Return the names of the packages of each extra, and those that always come, under ""."""
    read = ConfigParser()
    read.read(TREE / "setup.cfg", "utf-8")
    texts = {"": read["options"]["install_requires"], **read["options.extras_require"]}
    return {
        extra: {
            Requirement(line).name
            for line in text.splitlines()
            if line.strip() and not line.startswith("#")
        }
        for extra, text in texts.items()
    }


@pytest.mark.parametrize(("module", "extra"), EXTRAS.items())
def test_every_extra_brings_what_it_is_asked_for(module, extra):
    package = PACKAGES.get(module, module)
    assert package in declared()[extra]
    assert package not in declared()[""]


def test_the_oldest_transformers_that_is_allowed_is_the_one_that_make_test_oldest_tries():
    tree = TREE
    (tried,) = re.findall(
        r"^version=(\d+\.\d+)\.", (tree / "scripts/test-oldest").read_text(), re.M
    )
    assert f"transformers>={tried},<" in (tree / "setup.cfg").read_text("utf-8")


@pytest.mark.parametrize("module", [*EXTRAS, "trimesh"])
def test_a_missing_module_is_one_sentence_that_names_its_extra(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    install = f"render_agent[{EXTRAS[module]}]" if module in EXTRAS else "render_agent"
    package = PACKAGES.get(module, module)
    told = f'a cup needs {package}, which is not installed: pip install "{install}", or take a mug'
    with pytest.raises(SetupError) as raised:
        require("a cup", "json", module, instead="take a mug")
    assert str(raised.value) == told


def test_a_folder_of_the_name_is_no_module(monkeypatch, tmp_path):
    (tmp_path / "vllm").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    found = EXTRAS["vllm"]
    with pytest.raises(SetupError, match=rf"\[{found}\]"):
        require("a cup", "vllm")


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["report", "recent"], "matplotlib"),
        (["view", "recent"], "starlette"),
        (["view", "recent"], "uvicorn"),
        (["compare", "recent", "recent", "--page"], "matplotlib"),
        (["export", "recent", "--format", "parquet", "--to", "x.parquet"], "pyarrow"),
        (["export", "recent", "--format", "inspect", "--to", "x.json"], "inspect_ai"),
    ],
)
def test_a_command_says_so_before_it_works(monkeypatch, tmp_path, words, module):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1))
    before = sorted(path.rglob("*"))
    monkeypatch.setitem(sys.modules, module, None)
    asked = CliRunner().invoke(cli, [*words, "--output", str(path.parent)])
    assert isinstance(asked.exception, SetupError), asked.output
    assert f"render_agent[{EXTRAS[module]}]" in str(asked.exception)
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize(
    ("engine", "module"), [("human", "starlette"), ("human", "uvicorn"), ("openai", "openai")]
)
def test_an_engine_says_so_before_there_is_a_run(monkeypatch, tmp_path, engine, module):
    monkeypatch.setitem(sys.modules, module, None)
    config = make_config(tmp_path, "x", benchmark="rooms", engine=engine, model="made")
    with pytest.raises(
        SetupError, match=rf"--engine {engine} needs {module}, .*\[{EXTRAS[module]}\]"
    ):
        describe_engine(config)


def test_frames_say_so(monkeypatch, tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(SetupError, match=r"render_agent\[pandas\]"):
        render_agent.load_run(path).turns  # noqa: B018 - reading it makes the frame


def bare(*words):
    """Run the program where no extra is installed, and return what it said."""
    start = (
        f"import sys; sys.modules.update(dict.fromkeys({[*EXTRAS]!r}))\n"
        "from render_agent.cli.main import main\n"
        "main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", start, *map(str, words)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


SMALL = ("--max-turns", 2, "--image-size", "96x72", "--json")


def test_a_run_needs_no_extra(tmp_path):
    questions, runs = make_questions(tmp_path, 1), tmp_path / "runs"
    words = ("--batch", "--benchmark", questions, "--engine", "scripted", "--output", runs)
    done = json.loads(bare(*words, *SMALL))
    assert done["status"] == "complete"


@pytest.mark.slow
def test_nor_does_going_on_with_a_run(tmp_path):
    questions, runs = make_questions(tmp_path, 1), tmp_path / "runs"
    words = ("--batch", "--benchmark", questions, "--engine", "scripted", "--output", runs)
    done = json.loads(bare(*words, *SMALL))
    path = find_run(runs, "recent").path
    (path / "results.json").unlink()
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:-1]))
    assert json.loads(bare("--continue", path, "--json"))["official"] == done["official"]


@pytest.mark.slow
def test_one_question_of_a_model_in_this_process_needs_no_extra(tmp_path):
    make_questions(tmp_path, 1)
    words = ("--ply", tmp_path / "room.ply", "--question", "How many boxes?", "--model", "small")
    assert json.loads(bare(*words, "--output", tmp_path / "runs", *SMALL))["status"] == "complete"
