"""The controls come out in the order in which they must, and mirrored rooms flip left and right."""

import importlib.util
from functools import partial
from pathlib import Path

import pytest

from render_agent.engines.scripted import ScriptedEngine
from render_agent.engines.witness import Eyes, Witness
from render_agent.facts import known_facts
from render_agent.questions.rooms import BUNDLED
from render_agent.score.official import DIRECTION_TYPES
from render_agent.siblings import siblings
from render_agent.stress.scenes import scenes_of

pytestmark = pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are not here")

SMALL = {"image_size": (64, 48)}
EACH = 40
VIEWS = ("none", "start", "free", "tour", "oracle")


def load_benchmark():
    path = Path(__file__).parents[1] / "benchmarks" / "fair_controls.py"
    spec = importlib.util.spec_from_file_location("fair_controls", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


controls = load_benchmark()


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    return controls.ask_bundled(tmp_path_factory.mktemp("rooms"), EACH)


class Shared(ScriptedEngine):
    """The witness with eyes that several runs share, as sorting a room's surface takes long."""

    def close(self):
        pass


@pytest.fixture(scope="module")
def play(questions, tmp_path_factory):
    """Runs of the witness, in rooms that are read once."""
    output = tmp_path_factory.mktemp("runs")
    opened = {}

    def engine(config, asked):
        if config.pictures not in opened:
            facts = known_facts(asked)
            opened[config.pictures] = Eyes(scenes_of(config, asked), facts, config.image_size)
        sees = config.pictures in ("real", "mirrored") and not config.blind
        eyes = opened[config.pictures] if sees else None
        return Shared(Witness(asked, config.seed, eyes, walks=config.views == "free"))

    yield partial(controls.play, questions, output, engine, **SMALL)
    for eyes in opened.values():
        eyes.close()


@pytest.fixture(scope="module")
def runs(play):
    return {views: play(views=views) for views in VIEWS}


@pytest.fixture(scope="module")
def steps(runs):
    found = controls.steps({views: [results] for views, (_, results) in runs.items()})
    return {(step["worse"], step["better"]): step for step in found}


@pytest.mark.parametrize("pair", controls.ORDER, ids="<".join)
def test_who_sees_more_of_what_is_asked_is_right_more_often(steps, pair):
    step = steps[pair]
    assert step["n"] == 8 * EACH
    assert step["difference"] > 0
    assert step["interval"][0] > 0
    assert step["p"] < 0.05


def test_every_run_came_to_its_end_and_the_controls_are_siblings(runs):
    for views, (folder, results) in runs.items():
        assert results["status"] == "complete"
        assert results["counts"]["answered"] == 8 * EACH
        beside = [s.value for s in siblings(folder) if s.option == "views"]
        assert sorted(beside) == sorted(set(VIEWS) - {views})


@pytest.mark.parametrize("pictures", ["black", "noise"])
def test_without_the_pictures_it_is_as_right_as_without_views(runs, play, pictures):
    _, found = play(views="start", pictures=pictures)
    assert controls.answers(found) == controls.answers(runs["none"][1])


def test_mirrored_rooms_flip_left_and_right(runs, play):
    _, real = runs["oracle"]
    _, found = play(views="oracle", pictures="mirrored")
    flipped = found["mirrored"]
    for kind in DIRECTION_TYPES:
        was = real["types"][kind]["score"]
        against = flipped["mirrored"]["types"][kind]["score"]
        assert against == pytest.approx(was, abs=8), kind
        assert flipped["original"]["types"][kind]["score"] < was - 20, kind
    turned = flipped["turned"]
    assert turned["mirrored"]["interval"][0] > turned["original"]["interval"][1]
    assert flipped["n"] > 100
    same = set(real["types"]) - {*DIRECTION_TYPES, "route_planning"}
    for kind in same:  # what no mirror changes
        assert found["types"][kind]["score"] == pytest.approx(real["types"][kind]["score"], abs=6)
