"""A missing package is reported with the name of its extra, before any work is done."""

import json
import subprocess
import sys
from configparser import ConfigParser

import pytest
from click.testing import CliRunner
from factories import TREE
from factories.runs import make_config, make_questions, play, walking_engine
from packaging.requirements import Requirement

from render_agent.cli.main import cli
from render_agent.engines.make_engine import describe_engine
from render_agent.errors import SetupError
from render_agent.extras import EXTRAS, PACKAGES, require


def declared_packages():
    """Return the package names of each extra; those of required packages under ""."""
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
def test_every_extra_installs_its_packages(module, extra):
    package = PACKAGES.get(module, module)
    assert package in declared_packages()[extra]
    assert package not in declared_packages()[""]


def test_missing_module_error_names_its_package_and_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(SetupError, match=r"usd-core.*render_agent\[scans\].*take a mug"):
        require("a cup", "json", "pxr", instead="take a mug")


def test_folder_with_the_name_of_a_module_does_not_count(monkeypatch, tmp_path):
    (tmp_path / "vllm").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    extra = EXTRAS["vllm"]
    with pytest.raises(SetupError, match=rf"\[{extra}\]"):
        require("a cup", "vllm")


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["report", "recent"], "matplotlib"),
        (["view", "recent"], "starlette"),
        (["view", "recent"], "uvicorn"),
        (["compare", "recent", "recent", "--page"], "matplotlib"),
        (["export", "recent", "--format", "parquet", "--to", "x.parquet"], "pyarrow"),
        (["export", "recent", "--format", "inspect", "--to", "x.json"], "inspect_ai"),
    ],
)
def test_commands_report_missing_modules_before_writing(monkeypatch, tmp_path, arguments, module):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking_engine(1))
    before = sorted(path.rglob("*"))
    monkeypatch.setitem(sys.modules, module, None)
    result = CliRunner().invoke(cli, [*arguments, "--output", str(path.parent)])
    assert isinstance(result.exception, SetupError), result.output
    assert f"render_agent[{EXTRAS[module]}]" in str(result.exception)
    assert sorted(path.rglob("*")) == before


@pytest.mark.parametrize(
    ("engine", "module"), [("human", "starlette"), ("human", "uvicorn"), ("openai", "openai")]
)
def test_engines_report_missing_modules_before_the_run_folder_exists(
    monkeypatch, tmp_path, engine, module
):
    monkeypatch.setitem(sys.modules, module, None)
    config = make_config(tmp_path, "x", benchmark="rooms", engine=engine, model="made")
    with pytest.raises(
        SetupError, match=rf"--engine {engine} needs {module}, .*\[{EXTRAS[module]}\]"
    ):
        describe_engine(config)


def run_without_extras(*arguments):
    """Run the program without any installed extra; return its standard output."""
    start = (
        f"import sys; sys.modules.update(dict.fromkeys({[*EXTRAS]!r}))\n"
        "from render_agent.cli.main import main\n"
        "main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", start, *map(str, arguments)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


SMALL = ("--max-turns", 2, "--image-size", "96x72", "--json")


def test_scripted_run_needs_no_extra(tmp_path):
    questions, runs = make_questions(tmp_path, 1), tmp_path / "runs"
    arguments = ("--batch", "--benchmark", questions, "--engine", "scripted", "--output", runs)
    results = json.loads(run_without_extras(*arguments, *SMALL))
    assert results["status"] == "complete"


@pytest.mark.slow
def test_question_to_the_bundled_model_needs_no_extra(tmp_path):
    make_questions(tmp_path, 1)
    arguments = (
        "--ply",
        tmp_path / "room.ply",
        "--question",
        "How many boxes?",
        "--model",
        "small",
    )
    results = json.loads(run_without_extras(*arguments, "--output", tmp_path / "runs", *SMALL))
    assert results["status"] == "complete"
