"""Instruments that err (`--tools measure:noise=0.1`, `--feedback drift:0.05`): what is told, logged and counted."""

import json
import math
import re

import pytest
from factories.runs import (
    comparable_results,
    make_questions,
    play,
    resume,
    transcripts,
    truncate_log,
)

from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.scans.boxes import distance
from render_agent.score.questions import score_answer
from render_agent.tasks.ground_truth import load_facts
from render_agent.tasks.question_types import subjects
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms

DISTANCES = {"type": ("object_abs_distance",)}
GAP = re.compile(r"From 1 to 2: [\d.]+ m \(([\d.]+) m between")
needs_rooms = pytest.mark.skipif(not BUNDLED.is_dir(), reason="the bundled rooms are missing")


def named_boxes(question):
    facts = load_facts([question])[question.scene]
    return [facts.boxes[name][0] for name in subjects(question)]


class Measuring:
    """Measures the two objects of a distance question `times` times, looking around in between, then answers."""

    def __init__(self, times, answer=None):
        self.questions = {question.id: question for question in load_bundled_rooms()}
        self.times, self.answer = times, answer

    def reply(self, request):
        question = self.questions[request.question_id]
        places = [box.centre.tolist() for box in named_boxes(question)]
        if request.turn % 2 == 0 and request.turn < 2 * self.times:
            return json.dumps({"measure": places})
        if request.turn < 2 * self.times - 1:
            return json.dumps({"rotation_angle_degrees": 90})
        told = GAP.search(request.messages[-1]["content"][0]["text"])
        return json.dumps({"answer": self.answer or told[1], "done": True})


def run_rooms(tmp_path, policy, **options):
    return play(tmp_path, "rooms", ScriptedEngine(policy), **DISTANCES, **options)


@needs_rooms
def test_trusting_policy_has_the_error_of_its_instrument(tmp_path):
    path, results = run_rooms(tmp_path, Measuring(1), tools="measure:bias=0.2")
    run = RunData(path)
    expected = []
    for state in run.states:
        gap = distance(*named_boxes(state.question))
        told = f"{round(1.2 * gap, 2):g}"
        assert state.answer == told
        expected.append(score_answer(state.question, told))
        (reading,) = state.turns[0].readings
        assert reading.implied == (told,)
        assert f"({gap:.2f} m between" in reading.true
        assert f"({1.2 * gap:.2f} m between" in reading.told
        assert reading.told in state.turns[0].feedback
        assert len(reading.points) == 2
    assert results["micro"] == pytest.approx(100 * sum(expected) / len(expected))
    figures, number = results["instruments"], len(expected)
    assert (figures["questions"], figures["readings"]) == (number, number)
    shares = {
        name: figures[name]["value"]
        for name in ("wrong", "measured_again", "looked", "contradicted")
    }
    assert shares == {"wrong": 100, "measured_again": 0, "looked": 0, "contradicted": 0}
    assert figures["contradicted"]["interval"] is not None  # eight rooms
    assert any("--tools measure:bias=0.2" in note for note in results["notes"])


@needs_rooms
def test_checking_policy_measures_again_looks_and_contradicts(tmp_path):
    options = {"tools": "measure:bias=0.2", "scene": ("room00", "room01")}
    _, results = run_rooms(tmp_path, Measuring(2, answer="99"), **options)
    figures = results["instruments"]
    assert figures["readings"] == 2 * figures["questions"]
    for name in ("wrong", "measured_again", "looked", "contradicted"):
        assert (figures[name]["value"], figures[name]["n"]) == (100, figures["questions"])


@needs_rooms
def test_noise_depends_on_seed_question_and_turn_only(tmp_path):
    options = {"tools": "measure:noise=0.1", "scene": ("room00",)}
    path, results = run_rooms(tmp_path / "a", Measuring(2), **options)
    told = [[t.readings[0].told for t in s.turns if t.readings] for s in RunData(path).states]
    assert all(first != second for first, second in told)
    truncate_log(path, 4)
    assert resume(path, ScriptedEngine(Measuring(2))) is not None
    again, _ = run_rooms(tmp_path / "b", Measuring(2), **options)
    other, _ = run_rooms(tmp_path / "c", Measuring(2), seed=1, **options)
    assert transcripts(path) == transcripts(again) != transcripts(other)
    assert comparable_results(path) == comparable_results(again)
    assert results["instruments"] == comparable_results(again)["instruments"]


def test_stale_measurement_repeats_the_previous_request(tmp_path):
    questions = make_questions(tmp_path, 1)
    replies = [
        {"measure": [[1, 1], [3, 1]]},
        {"measure": [[1, 1], [1, 2]]},
        {"answer": 3, "done": True},
    ]
    engine = ScriptedEngine(ReplayPolicy({"0": list(map(json.dumps, replies))}))
    path, _ = play(tmp_path, questions, engine, tools="measure:stale")
    first, second, _ = RunData(path).turns
    assert first.readings[0].told == first.readings[0].true == second.readings[0].told
    assert "From 1 to 2: 2.00 m" in second.feedback
    assert "From 1 to 2: 1.00 m" in second.readings[0].true


@needs_rooms
def test_wrong_graph_moves_or_relabels_a_share_of_the_boxes(tmp_path):
    engine = ScriptedEngine(ReplayPolicy({"*": ['{"answer": "99", "done": true}']}))
    options = {"scene": ("room05",), "limit": 3}
    path, results = play(tmp_path, "rooms", engine, tools="graph:wrong=20%", **options)
    for turn in RunData(path).turns:
        (reading,) = turn.readings
        assert reading.told in turn.messages[1]["content"][0]["text"]

        def boxes(text):  # without the numbers of objects, which shift if one is relabelled
            return [re.sub(r" \d+: ", " ", line) for line in text.splitlines()[1:]]

        told, true = boxes(reading.told), boxes(reading.true)
        assert len(told) == len(true)
        assert len(set(true) - set(told)) == round(0.2 * len(true))
    assert results["instruments"]["contradicted"]["value"] == 100
    assert "looked" not in results["instruments"]


def drift_of(turn):
    """Return the told position of a turn."""
    (text,) = [
        p["text"] for m in turn.messages for p in m["content"] if "You are at" in p.get("text", "")
    ]
    return [float(value) for value in re.search(r"at \[(.*?), (.*?), .*?\]", text).groups()]


def test_told_pose_drifts_by_a_share_of_every_move(tmp_path):
    questions = make_questions(tmp_path, 1)
    steps = [{"forward_meters": 0.5}, {"rotation_angle_degrees": 90}, {"answer": 3, "done": True}]
    engine = ScriptedEngine(ReplayPolicy({"0": list(map(json.dumps, steps))}))
    path, results = play(tmp_path, questions, engine, feedback="drift:0.2")
    start, moved, turned = RunData(path).turns
    assert start.readings == ()
    x, y, _ = moved.camera_before.position
    assert math.dist(drift_of(moved), (x, y)) == pytest.approx(0.2 * 0.5, abs=0.01)
    assert moved.readings[0].metres == pytest.approx(0.1, abs=1e-4)
    yaw = turned.camera_before.yaw
    told = float(re.search(r"yaw (-?\d+)", turned.readings[0].told)[1])
    assert abs((told - yaw + 180) % 360 - 180) == pytest.approx(18, abs=1)
    assert drift_of(turned) == drift_of(moved)
    assert any("--feedback drift:0.2" in note for note in results["notes"])
    plain, _ = play(tmp_path, questions, engine)
    cameras = [[turn.camera for turn in RunData(folder).turns] for folder in (path, plain)]
    assert cameras[0] == cameras[1]  # only what is told differs


WARNING = "can be wrong here"


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"tools": "measure"}, 0),
        ({"tools": "measure:noise=0"}, 0),
        ({"tools": "measure:noise=.1"}, 1),
        ({"tools": "measure:noise=0.1:bias=-0.1:stale"}, 1),
        ({"tools": "measure:noise=0.1:silent"}, 0),
        ({"tools": "graph:wrong=20%"}, 1),
        ({"tools": "graph:wrong=0.2:silent"}, 0),
        ({"feedback": "drift:0.05"}, 1),
        ({"feedback": "drift:0.05:silent"}, 0),
        ({"feedback": "drift:.05", "tools": "measure:stale"}, 2),
    ],
)
def test_prompt_mentions_errors_unless_silent(options, warns):
    exact = {
        name: re.split(r"[:]", value)[0].replace("drift", "on") for name, value in options.items()
    }
    prompt, plain = (build(RunConfig(batch=True, **o)).prompt for o in (options, exact))
    assert prompt.instructions.count(WARNING) == warns
    assert plain.instructions.count(WARNING) == 0
    if not warns:
        assert prompt.instructions == plain.instructions
    assert prompt.schema() == plain.schema()


@pytest.mark.parametrize(
    "options",
    [
        {"tools": "measure:noise"},
        {"tools": "measure:noise=-0.1"},
        {"tools": "measure:bias=-1"},
        {"tools": "measure:wrong=20%"},
        {"tools": "graph:wrong=120%"},
        {"tools": "graph:noise=0.1"},
        {"tools": "none:noise=0.1"},
        {"tools": "ruler"},
        {"tools": "ruler:noise=0.1"},
        {"feedback": "drift"},
        {"feedback": "drift:-1"},
        {"feedback": "drift:0.1", "views": "tour"},
        {"feedback": "drift:0.1", "agent": "show:2", "temperature": 1.0},
    ],
)
def test_invalid_faults_are_refused(options):
    with pytest.raises(UsageError):
        build(RunConfig(batch=True, **options))
