"""What is not installed is asked for by the name of its extra, before any work is done."""

import json
import subprocess
import sys
from configparser import ConfigParser

import pytest
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play, walking
from packaging.requirements import Requirement

from render_agent.cli.main import cli
from render_agent.engines.make_engine import describe_engine
from render_agent.errors import SetupError
from render_agent.extras import EXTRAS, PACKAGES, require


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


def test_a_missing_module_names_its_package_and_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(SetupError, match=r"usd-core.*render_agent\[scans\].*take a mug"):
        require("a cup", "json", "pxr", instead="take a mug")


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
def test_one_question_of_a_model_in_this_process_needs_no_extra(tmp_path):
    make_questions(tmp_path, 1)
    words = ("--ply", tmp_path / "room.ply", "--question", "How many boxes?", "--model", "small")
    assert json.loads(bare(*words, "--output", tmp_path / "runs", *SMALL))["status"] == "complete"
