"""What installed packages bring: found by name, refused in one sentence where it is none or broken."""

import sys
from configparser import ConfigParser
from importlib.metadata import EntryPoints

import pytest
from factories.packages import PAGES, install
from factories.runs import make_config, make_questions

from render_agent import bundled_rooms, registry
from render_agent.cli.commands.doctor.machine import package_checks
from render_agent.errors import QuestionsError, SetupError, UsageError
from render_agent.options import RunConfig
from render_agent.render.make_renderer import make_renderer
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent.tasks.benchmark import Benchmark
from render_agent.tasks.selection import question_files

PROJECT = """
[project]
name = "{name}"
version = "2.1"
[project.entry-points."{group}"]
{part} = "{module}:{thing}"
"""


@pytest.fixture
def bring(monkeypatch, tmp_path):
    """Install a package that brings one part."""

    def brought(kind, part, source, thing="Part", name="odd-parts"):
        """Return the folder in which Python finds it."""
        module = name.replace("-", "_")
        group = registry.GROUPS[kind]
        project = PROJECT.format(name=name, group=group, part=part, module=module, thing=thing)
        install(monkeypatch, tmp_path / name, project, {module: source})
        return tmp_path / name / "site"

    return brought


@pytest.mark.parametrize(
    ("source", "told"),
    [("import no_such_library", "no_such_library"), ("Other = 1", "no attribute 'Part'")],
)
def test_a_part_that_cannot_be_imported_is_one_sentence_that_names_its_package(bring, source, told):
    bring("renderer", "odd", source)
    with pytest.raises(SetupError, match=told) as raised:
        make_renderer("odd")
    assert "odd-parts 2.1" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_parts_own_sentence_is_kept(bring):
    source = "from render_agent.errors import SetupError\ndef Part(): raise SetupError('no lamp: buy one')"
    bring("renderer", "odd", source)
    with pytest.raises(SetupError, match=r"^no lamp: buy one$"):
        make_renderer("odd")


def test_an_unknown_name_is_told_all_that_there_are(bring):
    bring("renderer", "odd", "Part = dict")
    with pytest.raises(SetupError, match=r"'crayon'.* rasteriser, pyrender, odd"):
        make_renderer("crayon")
    for name, value in (("engine", "magic"), ("renderer", "crayon")):
        config = RunConfig(batch=True, benchmark="rooms", **{"engine": "scripted", name: value})
        with pytest.raises(UsageError, match=f"no {name} '{value}'"):
            start_run(config)


def test_two_packages_may_not_bring_the_same(bring):
    for name in ("odd-parts", "even-parts"):
        bring("renderer", "odd", "Part = dict", name=name)
    assert registry.brought("renderer") == ["odd"]
    with pytest.raises(SetupError, match=r"even-parts 2\.1 and odd-parts 2\.1"):
        make_renderer("odd")


def test_the_programs_own_come_first(bring):
    bring("renderer", "rasteriser", "raise SystemError('not to be imported')")
    renderer = make_renderer("rasteriser")
    assert type(renderer).__module__ == "render_agent.render.rasteriser.rasteriser"
    renderer.close()


@pytest.mark.parametrize(
    ("returned", "sentence"),
    [
        ("[]", "no questions"),
        ("['How many?']", "entry 0 .*'How many"),
        ("[run_probe('a'), run_probe('a')]", "duplicate id 'a'"),
        ("[run_probe('a\\n')]", r"entry 0: id 'a\\n'"),
    ],
)
def test_a_benchmark_that_gives_no_questions_is_refused(bring, returned, sentence):
    source = f"""
from render_agent.dialogue.question import Question
def run_probe(name):
    return Question(name, "odd", "odd", "odd", "odd", "How many?", "number", truth="1")
def Part(config):
    return {returned}
"""
    bring("benchmark", "odd", source)
    with pytest.raises((QuestionsError, SetupError), match=sentence):
        build(RunConfig(batch=True, benchmark="odd", views="none")).questions()


def test_a_benchmark_of_a_package_can_find_scans_and_name_its_files(bring, tmp_path):
    source = f"""
from dataclasses import replace
from pathlib import Path
from render_agent import bundled_rooms
from render_agent.dialogue.question import Question
from render_agent.tasks.benchmark import Benchmark
class Odd(Benchmark):
    def questions(self, config):
        return [Question("a", "odd", "odd", "room07", "odd", "How many?", "number", truth="1")]
    def files(self, config):
        return [Path({str(tmp_path / "list.txt")!r})]
    def with_scans(self, config, questions):
        return [replace(question, scan=bundled_rooms()[question.scene]) for question in questions]
Part = Odd()
"""
    bring("benchmark", "odd", source)
    config = RunConfig(batch=True, benchmark="odd")
    [question] = build(config).questions()
    assert question.scan == bundled_rooms()["room07"]
    assert question_files(config) == [tmp_path / "list.txt"]


def test_what_is_missing_is_refused_before_there_is_a_run_folder(bring, tmp_path):
    bring("renderer", "odd", "import no_such_library")
    given = {
        "batch": True,
        "benchmark": "rooms",
        "engine": "scripted",
        "output": str(tmp_path / "runs"),
    }
    for options in ({"renderer": "odd"}, {"kinds": ("ego", "gone")}, {"engine": "gone"}):
        with pytest.raises(SetupError, match=r"gone|no_such_library"):
            start_run(RunConfig(**given | options))
    assert not (tmp_path / "runs").exists()


def test_a_run_whose_package_is_gone_does_not_go_on(bring, monkeypatch, tmp_path):
    source = "from render_agent.render.rasteriser.rasteriser import Rasteriser as Part"
    site = bring("renderer", "odd", source)
    run = start_run(make_config(tmp_path, make_questions(tmp_path), renderer="odd"))
    run.close()
    folder = RunData(run.path)
    assert folder.record["packages"] == {"renderer odd": "odd-parts 2.1"}
    resume_run(folder, {}).close()
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place != str(site)])
    with pytest.raises(SetupError, match="no renderer 'odd'"):
        resume_run(folder, {})


def test_the_doctor_lists_what_packages_bring(bring, monkeypatch, tmp_path):
    bring("renderer", "whole", "Part = dict")
    bring("engine", "torn", "import no_such_library", name="torn-parts")
    places = [str(tmp_path / name / "site") for name in ("odd-parts", "torn-parts")]
    monkeypatch.setenv("PYTHONPATH", ":".join([*places, str(PAGES.parents[1])]))
    torn, whole = package_checks()
    assert (whole.name, whole.works, whole.detail) == ("renderer whole", True, "odd-parts 2.1")
    assert (torn.name, torn.works, torn.needed) == ("engine torn", False, False)
    assert "No module named 'no_such_library'" in torn.detail


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in registry.BUILT_IN for name in registry.built_in(kind)],
)
def test_every_built_in_part_can_be_loaded(kind, name):
    part = registry.load(kind, name)
    assert isinstance(part, Benchmark) if kind == "benchmark" else callable(part)
    assert registry.package(kind, name) is None


def test_the_parts_of_the_second_package_can_be_loaded():
    settings = ConfigParser()
    settings.read(PAGES.parents[1] / "setup.cfg", "utf-8")
    declared = settings["options.entry_points"]
    for kind, group in registry.GROUPS.items():
        for line in declared.get(group, "").strip().splitlines():
            name = line.partition(" = ")[0]
            assert callable(registry.load(kind, name))
            assert registry.package(kind, name) is None


def test_the_program_runs_without_the_second_package(monkeypatch, tmp_path, type_in):
    monkeypatch.setattr(
        registry, "_groups", lambda path: dict.fromkeys(registry.GROUPS.values(), EntryPoints(()))
    )
    code, _, error = type_in("bench", "--small", folder=tmp_path)
    assert (code, error.count("\n")) == (2, 1)
    code, out, _ = type_in("--help", folder=tmp_path)
    assert code == 0
    assert "make-rooms" not in out
