"""A stress, a view policy, a verifier and an agent from one package: nothing of the program is touched."""

import numpy as np
from factories.packages import install
from PIL import Image

from render_agent.runs.log.folder import RunFolder, list_runs

PROJECT = """
[project]
name = "odd-choices"
version = "1.0"
[project.entry-points."render_agent.picture_stresses"]
grey = "odd_choices:Grey"
[project.entry-points."render_agent.view_policies"]
behind = "odd_choices:Behind"
[project.entry-points."render_agent.verifiers"]
last = "odd_choices:Last"
[project.entry-points."render_agent.agents"]
pair = "odd_choices:Pair.parse"
[project.entry-points."render_agent.policies"]
mute = "odd_choices:mute"
[project.entry-points."render_agent.engines"]
echo = "odd_choices:Echo"
[project.entry-points."render_agent.commands"]
hello = "odd_choices:hello"
"""

MODULE = """
import click
import numpy as np

from render_agent.agents.registry import BestPlan
from render_agent.agents.verifiers.base import Verdict, Verifier
from render_agent.config.agent_plan import VerifierPlan
from render_agent.engines.scripted.engine import ScriptedEngine
from render_agent.engines.scripted import Replies
from render_agent.observation.stress.base import Painted, PictureStress
from render_agent.observation.view_policies.base import FurtherViews, ViewPolicy


class Grey(PictureStress):
    note = "stress test: every picture is grey"
    faithful = False

    def painted(self, pictures, seed):
        return Painted(pictures, lambda file, picture: np.full_like(picture, 77))


class Turned:
    def further(self, question, place):
        return FurtherViews([place.start.turned(180.0)])


class Behind(ViewPolicy):
    name = "behind"
    words = "what is behind"
    shared = True

    def most_views(self, kinds, max_turns):
        return len(self.opening_kinds(kinds)) + 1

    def build(self, config, questions):
        return Turned()


class Scores(Verifier):
    name = "last"
    members = ("last",)

    def score(self, context, candidates):
        return Verdict(np.array([[float(c.number) for c in candidates]]))


class Last(VerifierPlan):
    name = "last"
    forms = ("last",)

    def build(self, config, questions, engine):
        return Scores()


class Pair(BestPlan):
    kind = "pair"
    form = "pair"

    @classmethod
    def parse(cls, argument):
        return cls(2)


def mute(questions, seed, config):
    return Replies({"*": ['{"answer": "1", "done": true}']})


def Echo(config, questions):
    return ScriptedEngine(Replies({"*": ['{"answer": "2", "done": true}']}))


@click.command("hello")
def hello():
    \"\"\"Say hello. And no more.\"\"\"
    click.echo("hello")
"""

RUN = (
    "--batch",
    "--benchmark",
    "rooms",
    "--limit",
    "2",
    "--max-turns",
    "3",
    "--image-size",
    "64x48",
)


def test_choices_of_a_package_are_run_recorded_and_noted(tmp_path, monkeypatch, type_in):
    install(monkeypatch, tmp_path, PROJECT, {"odd_choices": MODULE})
    given = ("--engine", "scripted", "--model", "mute", "--views", "behind", "--pictures", "grey")
    code, _, told = type_in(*RUN, *given, folder=tmp_path)
    assert code == 0, told
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunFolder(path)
    assert run.record["packages"] == {
        "view policy behind": "odd-choices 1.0",
        "picture stress grey": "odd-choices 1.0",
        "scripted policy mute": "odd-choices 1.0",
    }
    notes = run.results()["notes"]
    assert "stress test: every picture is grey" in notes
    assert "views: what is behind, not chosen by the model (--views behind)" in notes
    opening = run.lines()[0]["views"]
    assert [view["kind"] for view in opening] == ["top", "ego", "ego"]
    assert {0} == {int(np.ptp(Image.open(path / view["file"]))) for view in opening}
    assert [row["answer"] for row in run.results()["questions"]] == ["1", "1"]


def test_a_verifier_and_an_agent_of_a_package_choose_moves(tmp_path, monkeypatch, type_in):
    install(monkeypatch, tmp_path, PROJECT, {"odd_choices": MODULE})
    given = ("--engine", "scripted", "--model", "wanderer", "--temperature", "1")
    code, _, told = type_in(*RUN, *given, "--agent", "pair", "--verifier", "last", folder=tmp_path)
    assert code == 0, told
    (path,) = list_runs(tmp_path / "experiment_logs")
    run = RunFolder(path)
    assert run.record["packages"].keys() == {"agent pair", "verifier last"}
    assert run.record["choosing"]["kind"] == "pair"
    moved = [line["evidence"]["chosen"] for line in run.lines() if line["turn"] < 2]
    assert moved == [1] * len(moved)


def test_an_engine_and_a_command_of_a_package_are_found(tmp_path, monkeypatch, type_in):
    install(monkeypatch, tmp_path, PROJECT, {"odd_choices": MODULE})
    code, _, told = type_in(*RUN, "--engine", "echo", folder=tmp_path)
    assert code == 0, told
    code, out, _ = type_in("hello", folder=tmp_path)
    assert (code, out) == (0, "hello\n")
    code, out, _ = type_in("--help", folder=tmp_path)
    assert code == 0
    assert "Say hello." in out
