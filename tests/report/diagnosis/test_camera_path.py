"""The way of the camera, from turns made by hand."""

import math

import pytest

from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.turn import Turn
from render_agent.report.diagnosis.path import steps
from render_agent.scans.camera import Camera


def dialogue(*moves):
    """Return turns, each of an action and the pose (x, y, z, yaw, pitch) that it led to from 0, 0, 1.5."""
    turns, camera = [], Camera((0.0, 0.0, 1.5))
    for number, (action, (x, y, z, yaw, pitch)) in enumerate(moves):
        end = Camera((x, y, z), yaw, pitch)
        turns.append(Turn("1", number, "batched", (), (), "", action, "", camera, end))
        camera = end
    return turns


def test_metres_go_level_then_up_and_degrees_are_between_the_views():
    action = Action(rotation=90, pitch=0, forward=1.0, left=-1.0, up=0.5)
    (step,) = steps(dialogue((action, (1, 1, 2.0, 90, 0))), said_done=False)
    assert step.path == pytest.approx(math.sqrt(2) + 0.5)
    assert step.turned == pytest.approx(90)
    assert not step.blocked
    assert not step.returned


@pytest.mark.parametrize(
    ("action", "end", "blocked"),
    [
        (Action(forward=1.0), (1.0, 0, 1.5, 0, 0), False),
        (Action(forward=1.0), (0.6, 0, 1.5, 0, 0), True),
        (Action(forward=5.0), (2.0, 0, 1.5, 0, 0), True),
        (Action(up=1.0), (0, 0, 1.5, 0, 0), True),
        (Action(rotation=270), (0, 0, 1.5, 180, 0), True),
        (Action(rotation=180), (0, 0, 1.5, -180, 0), False),
        (Action(pitch=80), (0, 0, 1.5, 0, 60), True),
        (Action(pitch=60), (0, 0, 1.5, 0, 60), False),
        (Action(look_at=(0, 5, 1.5), forward=1.0), (0, 1.0, 1.5, 90, 0), False),
        (Action(look_at=(0, 5, 1.5), forward=1.0), (0, 0.2, 1.5, 90, 0), True),
        (Action(look_at=(0, 5, 1.5), rotation=900), (0, 0, 1.5, 90, 0), False),
        (Malformed("empty"), (0, 0, 1.5, 0, 0), False),
    ],
)
def test_what_was_asked_and_not_done_was_blocked(action, end, blocked):
    (step,) = steps(dialogue((action, end)), said_done=False)
    assert step.blocked is blocked


def test_moves_beside_the_final_answer_are_not_blocked():
    turns = dialogue((Action(forward=1.0, answer="A", done=True), (0, 0, 1.5, 0, 0)))
    assert [step.blocked for step in steps(turns, said_done=True)] == [False]
    assert [step.blocked for step in steps(turns, said_done=False)] == [True]


GO = Action(forward=1.0)


@pytest.mark.parametrize(
    ("places", "returned"),
    [
        ([(1, 0), (2, 0), (3, 0)], [False, False, False]),
        ([(1, 0), (0.1, 0)], [False, True]),
        ([(1, 0), (1, 1), (0, 1), (0, 0.2)], [False, False, False, True]),
        ([(0.25, 0), (0.5, 0), (0.25, 0)], [False, False, True]),
        ([(0.1, 0), (0.2, 0), (0.1, 0)], [False, False, False]),
    ],
)
def test_coming_back_to_a_place_that_was_left(places, returned):
    turns = dialogue(*((GO, (x, y, 1.5, 0, 0)) for x, y in places))
    assert [step.returned for step in steps(turns, said_done=False)] == returned


@pytest.mark.parametrize(
    ("yaws", "returned"),
    [
        ([90, 180, -90, 0], [False] * 4),
        ([60, 0], [False, True]),
        ([60, 30], [False, False]),
        ([60, 120, 60], [False, False, True]),
        ([60, 60, 0], [False, False, True]),
        ([10, 0], [False, False]),
    ],
)
def test_turning_back_and_forth(yaws, returned):
    turns = dialogue(*((Action(rotation=1), (0, 0, 1.5, yaw, 0)) for yaw in yaws))
    assert [step.returned for step in steps(turns, said_done=False)] == returned


def test_turning_back_somewhere_else_shows_something_else():
    turns = dialogue((GO, (0, 0, 1.5, 60, 0)), (GO, (2, 0, 1.5, 60, 0)), (GO, (2, 0, 1.5, 0, 0)))
    assert [step.returned for step in steps(turns, said_done=False)] == [False] * 3
