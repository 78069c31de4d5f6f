"""Tests of the camera path of hand-made turns."""

import math

import pytest
from msgspec import structs

from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.reply import Action
from render_agent.dialogue.turn import Turn
from render_agent.report.diagnosis.path import diagnose_path
from render_agent.scans.camera import Camera


def dialogue(*moves):
    """Return turns from (action, resulting pose) pairs, starting at (0, 0, 1.5); a pose is (x, y, z, yaw, pitch)."""
    turns, camera = [], Camera((0.0, 0.0, 1.5))
    for number, (action, (x, y, z, yaw, pitch)) in enumerate(moves):
        end = Camera((x, y, z), yaw, pitch)
        turns.append(Turn("1", number, "batched", (), (), "", action, "", camera, end))
        camera = end
    return turns


def test_path_length_and_rotation():
    action = Action(rotation=90, pitch=0, forward=1.0, left=-1.0, up=0.5)
    (step,) = diagnose_path(dialogue((action, (1, 1, 2.0, 90, 0))))
    assert step.path == pytest.approx(math.sqrt(2) + 0.5)
    assert step.turned == pytest.approx(90)
    assert not step.blocked
    assert not step.returned


@pytest.mark.parametrize(
    ("outcome", "blocked"),
    [
        (None, False),
        (Outcome(90.0, (1.0, 0.0, 0.0), (1.0, 0.0, 0.0)), False),
        (Outcome(0.0, (1.0, 0.0, 0.0), (0.6, 0.0, 0.0), level_obstacle="wall"), True),
        (Outcome(0.0, (0.0, 0.0, 1.0), vertical_obstacle="ceiling"), True),
        (Outcome(180.0, limits=("rotation_angle_degrees",)), True),
    ],
)
def test_blocked_follows_the_outcome(outcome, blocked):
    (turn,) = dialogue((Action(forward=1.0), (0, 0, 1.5, 0, 0)))
    (step,) = diagnose_path([structs.replace(turn, outcome=outcome)])
    assert step.blocked is blocked


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
def test_return_to_an_earlier_place(places, returned):
    turns = dialogue(*((GO, (x, y, 1.5, 0, 0)) for x, y in places))
    assert [step.returned for step in diagnose_path(turns)] == returned


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
def test_rotation_back_to_an_earlier_heading(yaws, returned):
    turns = dialogue(*((Action(rotation=1), (0, 0, 1.5, yaw, 0)) for yaw in yaws))
    assert [step.returned for step in diagnose_path(turns)] == returned


def test_rotation_back_at_another_place_is_no_return():
    turns = dialogue((GO, (0, 0, 1.5, 60, 0)), (GO, (2, 0, 1.5, 60, 0)), (GO, (2, 0, 1.5, 0, 0)))
    assert [step.returned for step in diagnose_path(turns)] == [False] * 3
