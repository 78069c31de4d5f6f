"""Plug-ins of installed packages: found by name, and refused with one sentence if missing or broken."""

import sys
from configparser import ConfigParser
from importlib.metadata import EntryPoints

import pytest
from factories import TREE
from factories.packages import install
from factories.runs import make_config, make_questions

from render_agent import bundled_rooms, registry
from render_agent.cli.commands.doctor.checks import package_checks
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.question_type import QuestionType
from render_agent.tasks.selection import question_files

PROJECT = """
[project]
name = "{name}"
version = "2.1"
[project.entry-points."{group}"]
{part} = "{module}:{thing}"
"""


@pytest.fixture
def install_plugin(monkeypatch, tmp_path):
    """Install a package with one plug-in."""

    def install_package(kind, part, source, thing="Part", name="odd-parts"):
        """Return the folder that was added to the import path."""
        module = name.replace("-", "_")
        group = registry.GROUPS[kind]
        project = PROJECT.format(name=name, group=group, part=part, module=module, thing=thing)
        install(monkeypatch, tmp_path / name, project, {module: source})
        return tmp_path / name / "site"

    return install_package


@pytest.mark.parametrize(
    ("source", "reason"),
    [("import no_such_library", "no_such_library"), ("Other = 1", "no attribute 'Part'")],
)
def test_broken_plugin_error_names_its_package(install_plugin, source, reason):
    install_plugin("renderer", "odd", source)
    with pytest.raises(SetupError, match=reason) as raised:
        make_renderer("odd")
    assert "odd-parts 2.1" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_plugin_error_message_is_preserved(install_plugin):
    source = "from render_agent.errors import SetupError\ndef Part(): raise SetupError('no lamp: buy one')"
    install_plugin("renderer", "odd", source)
    with pytest.raises(SetupError, match=r"^no lamp: buy one$"):
        make_renderer("odd")


def test_unknown_name_lists_all_names(install_plugin):
    install_plugin("renderer", "odd", "Part = dict")
    with pytest.raises(SetupError, match=r"'crayon'.* rasteriser, pyrender, odd"):
        make_renderer("crayon")
    for name, value in (("engine", "magic"), ("renderer", "crayon")):
        config = RunConfig(batch=True, benchmark="rooms", **{"engine": "scripted", name: value})
        with pytest.raises(UsageError, match=f"no {name} '{value}'"):
            start_run(config)


def test_duplicate_plugins_are_refused(install_plugin):
    for name in ("odd-parts", "even-parts"):
        install_plugin("renderer", "odd", "Part = dict", name=name)
    assert registry.package_names("renderer") == ["odd"]
    with pytest.raises(SetupError, match=r"even-parts 2\.1 and odd-parts 2\.1"):
        make_renderer("odd")


def test_built_in_parts_take_precedence(install_plugin):
    install_plugin("renderer", "rasteriser", "raise SystemError('not to be imported')")
    renderer = make_renderer("rasteriser")
    assert type(renderer).__module__ == "render_agent.render.rasteriser.rasteriser"
    renderer.close()


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ("[]", "no questions"),
        ("['How many?']", "entry 0 .*'How many"),
        ("[question('a'), question('a')]", "'a'"),
        ("[question('a\\n')]", r"entry 0: id 'a\\n'"),
    ],
)
def test_invalid_benchmark_is_refused(install_plugin, returned, reason):
    source = f"""
from render_agent.dialogue.question import Question
def question(name):
    return Question(name, "odd", "odd", "odd", "odd", "How many?", "number", ground_truth="1")
def Part(config):
    return {returned}
"""
    install_plugin("benchmark", "odd", source)
    with pytest.raises((QuestionsError, SetupError), match=reason):
        build(RunConfig(batch=True, benchmark="odd", views="none")).questions()


def test_benchmark_plugin_can_locate_scans_and_files(install_plugin, tmp_path):
    source = f"""
from dataclasses import replace
from pathlib import Path
from render_agent import bundled_rooms
from render_agent.dialogue.question import Question
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.question_type import QuestionType
class Odd(Benchmark):
    def questions(self, config):
        return [Question("a", "odd", "odd", "room07", "odd", "How many?", "number", ground_truth="1")]
    def files(self, config):
        return [Path({str(tmp_path / "list.txt")!r})]
    def with_scans(self, config, questions):
        return [replace(question, scan=bundled_rooms()[question.scene]) for question in questions]
Part = Odd()
"""
    install_plugin("benchmark", "odd", source)
    config = RunConfig(batch=True, benchmark="odd")
    [question] = build(config).questions()
    assert question.scan == bundled_rooms()["room07"]
    assert question_files(config) == [tmp_path / "list.txt"]


def test_missing_plugin_is_refused_before_the_run_starts(install_plugin, tmp_path):
    install_plugin("renderer", "odd", "import no_such_library")
    common = {"batch": True, "benchmark": "rooms", "engine": "scripted"}
    common["output"] = str(tmp_path / "runs")
    for options in ({"renderer": "odd"}, {"view_types": ("ego", "gone")}, {"engine": "gone"}):
        with pytest.raises(SetupError, match=r"gone|no_such_library"):
            start_run(RunConfig(**common | options))
    assert not (tmp_path / "runs").exists()


def test_run_cannot_resume_without_its_plugin(install_plugin, monkeypatch, tmp_path):
    source = "from render_agent.render.rasteriser.rasteriser import Rasteriser as Part"
    site = install_plugin("renderer", "odd", source)
    run = start_run(make_config(tmp_path, make_questions(tmp_path), renderer="odd"))
    run.close()
    folder = RunData(run.path)
    assert folder.record["packages"] == {"renderer odd": "odd-parts 2.1"}
    resume_run(folder, {}).close()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(site)])
    with pytest.raises(SetupError, match="no renderer 'odd'"):
        resume_run(folder, {})


def test_doctor_lists_plugins(install_plugin, monkeypatch, tmp_path):
    install_plugin("renderer", "valid", "Part = dict")
    install_plugin("engine", "broken", "import no_such_library", name="broken-parts")
    sites = [str(tmp_path / name / "site") for name in ("odd-parts", "broken-parts")]
    monkeypatch.setenv("PYTHONPATH", ":".join([*sites, str(TREE)]))
    broken, valid = package_checks()
    assert (valid.name, valid.works, valid.detail) == ("renderer valid", True, "odd-parts 2.1")
    assert (broken.name, broken.works, broken.needed) == ("engine broken", False, False)
    assert "'no_such_library'" in broken.detail


def is_part(kind, part):
    """Return True if a part is what its kind promises."""
    records = {"benchmark": Benchmark, "question type": QuestionType}
    return isinstance(part, records[kind]) if kind in records else callable(part)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in registry.BUILT_IN for name in registry.built_in(kind)],
)
def test_built_in_parts_can_be_loaded(kind, name):
    part = registry.load(kind, name)
    assert is_part(kind, part)
    assert registry.package(kind, name) is None


def test_lab_parts_can_be_loaded():
    settings = ConfigParser()
    settings.read(TREE / "setup.cfg", "utf-8")
    entry_points = settings["options.entry_points"]
    for kind, group in registry.GROUPS.items():
        for line in entry_points.get(group, "").strip().splitlines():
            name = line.partition(" = ")[0]
            assert is_part(kind, registry.load(kind, name))
            assert registry.package(kind, name) is None


def test_program_runs_without_the_lab_package(monkeypatch, tmp_path, type_in):
    monkeypatch.setattr(
        registry, "_groups", lambda path: dict.fromkeys(registry.GROUPS.values(), EntryPoints(()))
    )
    code, _, error = type_in("bench", "--small", folder=tmp_path)
    assert (code, error.count("\n")) == (2, 1)
    code, out, _ = type_in("--help", folder=tmp_path)
    assert code == 0
    assert "make-rooms" not in out
