"""Map scores with known results, and an exhaustive check of the assignment."""

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Probe, Turn
from render_agent.parts.beliefs.belief_figures import (
    ProbeStep,
    belief_differences,
    calibration,
    summarize_steps,
)
from render_agent.parts.beliefs.map_score import relations, score_map
from render_agent.parts.beliefs.matching import assign_pairs, match
from render_agent.parts.beliefs.own_answer import own_answer
from render_agent.parts.beliefs.scored_probe import score_probe
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera
from render_agent.scans.edits import Edit

CAMERA = Camera((1.0, 1.0, 1.5), yaw=170.0)


def box(x, y, size=0.5):
    return OrientedBox(np.array([x, y, 0.5]), np.full(3, size), np.eye(3))


def believed(category, x, y, sure=None, length=None):
    return BelievedObject(category, (x, y), sure, length)


def test_assignment_matches_exhaustive_search():
    rng = np.random.default_rng(3)
    for _ in range(30):
        rows, columns = map(int, rng.integers(0, 5, 2))
        distances = rng.uniform(0, 2, (rows, columns))
        pair_rows, pair_columns = assign_pairs(distances, 1.0)
        score = (len(pair_rows), -distances[pair_rows, pair_columns].sum())
        short, tall = sorted((rows, columns))
        costs = distances if rows <= columns else distances.T
        choices = ([costs[i, j] for i, j in enumerate(order) if costs[i, j] <= 1] for order in permutations(range(tall), short))  # fmt: skip
        best = max((len(pair_costs), -sum(pair_costs)) for pair_costs in choices)
        assert score == pytest.approx(best)


def test_found_duplicate_invented_and_missing_objects():
    belief = Belief(
        (
            believed("chair", 0.3, 0),
            believed("chairs", 0.1, 0),
            believed("chair", 5, 5),
            believed("lamp", 0, 0),
        )
    )
    result = match(belief, {"chair": [box(0, 0), box(2, 0)], "table": [box(1, 1)]})
    (pair,) = result.pairs
    assert (pair.believed, pair.true, pair.metres) == (1, 0, pytest.approx(0.1))
    assert [entry.position for entry in result.doubled] == [(0.3, 0)]
    assert [entry.position for entry in result.invented] == [(5, 5)]
    assert result.missing == (("chair", 1), ("table", 0))


def test_relations_are_invariant_to_rigid_motion_but_not_to_mirroring():
    true = np.random.default_rng(1).uniform(0, 6, (7, 2))
    angle = math.radians(40)
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    (sides, all_sides), (nearer, all_nearer) = relations(true @ rotation.T + (3, -8), true)
    assert sides == all_sides > 25
    assert nearer == all_nearer > 80
    (sides, _), (nearer, _) = relations(true * (-1, 1), true)
    assert (sides, nearer) == (0, all_nearer)
    in_line = np.array([[0.0, 0], [1, 0.01], [2, 0]])
    assert relations(in_line, in_line) == ((0, 0), (2, 2))


def test_score_includes_pose_counts_and_confidence():
    belief = Belief(
        (believed("chair", 0, 0, 90), believed("chair", 9, 9, 40)), {"chair": 3}, (4.0, 5.0), -170.0
    )
    score = score_map(belief, {"chair": [box(0, 0.5)]}, {"chair": 1}, CAMERA)
    assert (score.metres, score.degrees) == (pytest.approx(5), pytest.approx(20))
    assert score.counts == {"chair": 2}
    assert score.sure == ((0.9, True), (0.4, False))
    assert (score.found, score.true, score.believed) == (1, 1, 2)


def test_calibration():
    mixed = [(0.75, True)] * 3 + [(0.75, False)]
    assert calibration(mixed) == [{"from": 0.7, "n": 4, "sure": 0.75, "found": 0.75}]


def question(kind, text, options=(), ground_truth="A", scene="s"):
    answer_form = "letter" if options else "number"
    return Question("q", "rooms", "rooms", scene, kind, text, answer_form, options, ground_truth)


DIRECTION = "If I am standing by the sofa and facing the table, is the lamp to the left or the right of the table?"
DISTANCE = "Measuring from the closest point of each object, what is the distance between the sofa and the table (in meters)?"
LAMP = ("lamp", 3, 3)
AWAY = Edit("transform", "sofa", shift=(0.8, 0, 0))
GONE = Edit("remove", "sofa", 1)
MORE = Edit("copy", "sofa", shift=(0, 5, 0))


SIDES = ("A. left", "B. right")


@pytest.mark.parametrize(
    ("question_fields", "objects", "answer"),
    [
        (question("object_rel_direction_easy", DIRECTION, SIDES), [("sofa", 0, 0), ("table", 2, 0), ("lamp", 2, 1)], "A"),
        (question("object_rel_direction_easy", DIRECTION, SIDES), [("sofa", 0, 0), ("table", 2, 0), ("lamp", 2, -1)], "B"),
        (question("object_rel_direction_easy", DIRECTION, SIDES), [("sofa", 0, 0), ("table", 2, 0)], None),
        (question("object_abs_distance", DISTANCE), [("sofa", 1, 0), ("table", 4, 0)], "2.0"),
        (question("object_counting", "How many sofa(s) are in this room?"), [("sofa", 0, 0)] * 3, "3"),
        (question("object_size_estimation", "What is the length of the longest dimension (length, width, or height) of the sofa, measured in centimeters?"), [("sofa", 0, 0)], "170"),
        (question("route_planning", "You are a robot beginning at the sofa facing the table. Navigate to the lamp."), [("sofa", 0, 0)], None),
    ],
)  # fmt: skip
def test_answer_implied_by_map(question_fields, objects, answer):
    belief = Belief(tuple(believed(*entry, length=1.7) for entry in objects))
    boxes = {"sofa": [box(0, 0, 1.0)], "table": [box(7, 7, 1.0)], "lamp": [box(3, 3, 0.2)]}
    assert own_answer(question_fields, belief, boxes) == answer


@pytest.mark.parametrize(
    ("metric", "worth"),
    [(None, 0.6), ("exact-match", 0), ("mean-relative-accuracy", 0.6), ("llm-match", None)],
)
def test_implied_answer_is_scored_by_the_question_metric(metric, worth):
    questions = question("object_counting", "How many sofa(s) are in this room?", ground_truth="4")
    sofas = Probe("", belief=Belief((believed("sofa", 0, 0),) * 3))
    turn = Turn(question_id="1", number=0, phase="batched", views=(), messages=(), reply="", action=Malformed("x"), feedback="", camera_before=CAMERA, camera=CAMERA)  # fmt: skip
    result = score_probe(
        replace(questions, metric=metric), turn, sofas, {"sofa": [box(0, 0)]}, {}, "4"
    )
    assert (result.answer, result.worth) == ("3", worth)


def step(scene, now, before=None):
    """Return a question about a scene with a sofa at (0, 0) and a table at (3, 0), with two beliefs."""
    questions = question("object_rel_direction_easy", DIRECTION, SIDES, scene=scene)
    boxes = {"sofa": [box(0, 0)], "table": [box(3, 0)]}
    turn = Turn(question_id="1", number=0, phase="batched", views=(), messages=(), reply="", action=Malformed("x"), feedback="", camera_before=CAMERA, camera=CAMERA)  # fmt: skip
    scored = [
        None if objects is None else score_probe(questions, turn, Probe("", belief=Belief(tuple(believed(*entry) for entry in objects))), boxes, {}, "A")
        for objects in (now, before)
    ]  # fmt: skip
    return ProbeStep(questions, *scored)


def test_belief_figures_of_a_run():
    sofa, table, wrong = ("sofa", 0, 0.4, 100), ("table", 3, 0, 100), ("table", 9, 9, 100)
    steps = [step(f"s{n}", [sofa, table], [sofa, wrong]) for n in range(4)]
    steps += [step(f"s{n}", [wrong], [sofa]) for n in range(4, 8)]
    result = summarize_steps([*steps, None])
    expected = {"readable": 100, "found": 50, "right": 200 / 3, "invented": 100 / 3, "doubled": 0, "kept": 50, "corrected": 50, "position_metres": 0.2, "brier": 1 / 3, "ece": 1 / 3}  # fmt: skip
    assert {name: result[name]["value"] for name in expected} == pytest.approx(expected, abs=1e-5)
    assert all(result[name]["scenes"] == 8 for name in ("found", "right", "brier", "ece", "kept"))
    low, high = result["found"]["interval"]
    assert low < 50 < high
    low, high = result["ece"]["interval"]
    assert 0 <= low < 1 / 3 < high
    few_steps_summary = summarize_steps(steps[:5])
    assert (
        few_steps_summary["found"]["interval"]
        is few_steps_summary["position_metres"]["interval"]
        is None
    )


def test_figures_of_counts_and_pose():
    first_step = step("s", [])
    step_question, boxes = (
        first_step.question,
        {"sofa": [box(0, 0)], "table": [box(3, 0), box(5, 0)]},
    )
    turn = Turn(question_id="1", number=0, phase="batched", views=(), messages=(), reply="", action=Malformed("x"), feedback="", camera_before=CAMERA, camera=CAMERA)  # fmt: skip
    steps = [
        ProbeStep(step_question, score_probe(step_question, turn, Probe("", belief=Belief((), counts, (1.0, y), yaw)), boxes, {"sofa": 1, "table": 2}, "A"), None)
        for counts, y, yaw in (({"sofa": 1, "table": 5}, 4.0, -170.0), ({"sofa": 1}, 1.0, 170.0))
    ]  # fmt: skip
    result = summarize_steps(steps)
    expected = {"exact_counts": 50, "counts_off": 1.25, "self_metres": 1.5, "self_degrees": 10}
    assert {name: result[name]["value"] for name in expected} == expected


@pytest.mark.parametrize(
    ("sure", "ece"), [([100, 0], 0), ([95, 95], 0.45), ([5, 5], 0.45), ([75, 15], 0.2)]
)
def test_calibration_error(sure, ece):
    """The sofa is found, the table is not; errors of different bins do not cancel."""
    objects = [("sofa", 0, 0, sure[0]), ("table", 9, 9, sure[1])]
    assert summarize_steps([step("s", objects)])["ece"]["value"] == pytest.approx(ece)


def test_belief_differences_are_paired():
    sofa, table, wrong = ("sofa", 0, 0.4, 100), ("table", 3, 0, 100), ("table", 9, 9, 60)
    a = {f"q{n}": step(f"s{n}", [sofa, wrong]) for n in range(8)}
    b = {f"q{n}": step(f"s{n}", [sofa, table] if n < 7 else [sofa, wrong]) for n in range(8)}
    result = belief_differences(a, b | {"other": step("s9", [])})
    right = result["right"]
    assert (right["a"], right["b"], right["n"], right["scenes"]) == (50, 93.75, 8, 8)
    # leaving out a scene gives 3/7 of all objects, or 1/2 for the scene without a difference
    left = np.array([50 - 50 / 7 * (n < 7) for n in range(8)])
    error = np.sqrt(7 / 8 * ((left - left.mean()) ** 2).sum())
    reach = stats.t.ppf(0.975, 7) * error
    assert right["interval"] == pytest.approx([43.75 - reach, 43.75 + reach])
    assert right["p"] == pytest.approx(max(2 * stats.t.sf(43.75 / error, 7), 2**-7))
    assert right["p"] < right["p_holm"]
    assert result["position_metres"]["difference"] == pytest.approx(-0.4 * 7 / 15)
    unchanged = belief_differences(a, a)
    assert all(entry["difference"] == 0 and entry["p"] == 1 for entry in unchanged.values())
    assert all(
        entry["interval"] is entry["p"] is None
        for entry in belief_differences({"q0": a["q0"]}, b).values()
    )
