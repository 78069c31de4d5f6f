"""Pairs about the bundled rooms: no constant answer is right for both members, and edited rooms are physically possible."""

import numpy as np
import pytest
from factories.physics import RoomPhysics

from render_agent.options import RunConfig
from render_agent.runs.build import build
from render_agent.score.questions import metric_of
from render_agent.tasks.scene_reader import read_scene
from render_agent.util.numbers import is_number

CHANGES = ("remove add move move:other swap swap:other order names").split()
PLACING = {"remove", "add", "move", "move:other", "swap", "swap:other"}
MIN_PAIRS = {"remove": 17, "add": 10, "move": 80, "swap": 70}
"""Least number of pairs of all bundled rooms whose answer must change."""

ROOMS = [("room07",), pytest.param((), marks=pytest.mark.slow)]  # all rooms if empty


@pytest.fixture(scope="module", params=ROOMS, ids=["one room", "all rooms"])
def questions(request):
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        engine="scripted",
        change=tuple(CHANGES),
        scene=request.param,
        seed=1,
    )
    return build(config).questions()


def test_no_constant_answer_is_right_for_both_members(questions):
    originals = {question.id: question for question in questions}
    num_checked = 0
    for question in questions:
        if question.change is None or not question.change.changes_answer:
            continue
        num_checked += 1
        original, metric = originals[question.change.original_id], metric_of(question)
        before = {original.ground_truth, question.change.original_truth}
        answers = [*"ABCDEF", *question.options, *before, question.ground_truth]
        if is_number(question.ground_truth):
            low, high = sorted(map(float, (original.ground_truth, question.ground_truth)))
            answers += map(repr, np.geomspace(low / 2, 2 * high, 500).tolist())
            answers += map(str, range(1, 20))
            largest_error = {0.5: 0.3, 1.0: 0.05}[metric.min_correct_score]
            assert (1 - largest_error) * high > (1 + largest_error) * low
        assert metric.is_correct(question.ground_truth, question.ground_truth)
        for answer in answers:
            is_right = any(metric.is_correct(answer, truth) for truth in before)
            assert not (is_right and metric.is_correct(answer, question.ground_truth))
    assert num_checked >= 12


def test_enough_pairs_remain(questions):
    if len({question.scene for question in questions if question.change is None}) < 8:
        pytest.skip("the numbers are those of all rooms")
    for change, number in MIN_PAIRS.items():
        pairs = [q for q in questions if q.change and q.change.kind == change]
        assert sum(q.change.changes_answer for q in pairs) >= number, change


def test_edited_rooms_are_physically_possible(questions):
    rooms = {}
    edits = {(q.change.scene, q.change.edits) for q in questions if q.change and q.change.kind in PLACING}  # fmt: skip
    assert len(edits) >= 15
    for question in questions:
        if question.change is None and question.scene not in rooms:
            scene = read_scene(question.scan, question.scene)
            rooms[question.scene] = RoomPhysics(scene, question)
    faults = {(name, edit): rooms[name].faults(edit) for name, edit in edits}
    assert not {key: problems for key, problems in faults.items() if problems}
