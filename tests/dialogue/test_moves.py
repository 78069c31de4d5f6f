"""Moves: the final pose, the outcome as data, and the feedback sentence."""

import functools
import math
from typing import NamedTuple

import numpy as np
import pytest
from factories.scans import as_scene, block, joined, rectangle, room
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from render_agent.dialogue.moves import MIN_MOVE, Outcome, apply_action, describe_outcome
from render_agent.dialogue.reply import MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.dialogue.wording import general
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.util.safe_parse import decode_json, encode_line

SIZE = (12.0, 10.0, 2.7)
START = Camera((4.0, 5.0, 1.6), 0.0, 0.0, 60.0)


@functools.cache
def space():
    """A large room with a low cupboard in front of a camera at (4, 5)."""
    return FreeSpace.of(as_scene(*room(block((8, 4, 0), (8.6, 6, 0.9)), size=SIZE)))


class Move(NamedTuple):
    camera: Camera
    outcome: Outcome
    feedback: str


def apply(action, camera=START, free_space=None):
    after, outcome = apply_action(action, camera, free_space or space())
    return Move(after, outcome, describe_outcome(action, camera, after, outcome, general()))


def move(camera=START, free_space=None, **fields):
    return apply(Action(**fields), camera, free_space)


@pytest.mark.parametrize(
    ("fields", "feedback"),
    [
        ({}, "the camera did not move"),
        ({"rotation": 45}, "turned 45° left"),
        ({"rotation": -22.5}, "turned 22.5° right"),
        ({"rotation": 180}, "turned 180° left"),
        ({"rotation": 270}, "rotation_angle_degrees 270 was limited to 180° per turn; turned 180° left"),
        ({"pitch": 20}, "tilted 20° up, pitch is now 20°"),
        ({"pitch": -75}, "tilted 60° down, pitch is now -60° (the limit is ±60°)"),
        ({"forward": 1}, "moved 1 m forward"),
        ({"forward": -0.5, "left": 0.25}, "moved 0.5 m back and 0.25 m to the left"),
        ({"left": -1.5}, "moved 1.5 m to the right"),
        ({"up": 0.3}, "moved 0.3 m up"),
        ({"up": -0.3}, "moved 0.3 m down"),
        ({"forward": 5}, "forward_meters 5 was limited to 2 m per turn; moved 2 m forward"),
        ({"up": 2}, "moved 0.89 of 2 m up: the ceiling is above"),
        ({"up": -2}, "moved 1.39 of 2 m down: the floor is below"),
        ({"rotation": 90, "forward": 1, "up": -0.1}, "turned 90° left; moved 1 m forward; moved 0.1 m down"),
        ({"look_at": (6, 7, 1.6)}, "turned to the point (6, 7, 1.6)"),
    ],
)  # fmt: skip
def test_feedback_states_what_was_done_and_limited(fields, feedback):
    assert move(**fields).feedback == feedback


def test_feedback_names_obstacle_and_side():
    near = Camera((1.0, 5.0, 1.6))
    assert move(near, forward=-1.5).feedback == "moved 0.79 of 1.5 m back: a wall is behind"
    assert move(Camera((1.0, 5.0, 1.6), 180), forward=1.5).feedback.endswith("a wall is ahead")
    assert move(Camera((1.0, 5.0, 1.6), 90), left=1.5).feedback.endswith("a wall is on the left")
    assert move(Camera((1.0, 5.0, 1.6), -90), left=-1.5).feedback.endswith("a wall is on the right")
    diagonal = move(near, forward=-1.5, left=1.5).feedback
    assert diagonal.endswith("0.79 of 1.5 m to the left: a wall is in the way")
    low = Camera((7.0, 5.0, 0.6))
    assert move(low, forward=1.5).feedback == "moved 0.79 of 1.5 m forward: furniture is ahead"
    over = Camera((8.3, 5.0, 1.6))
    assert move(over, up=-1).feedback == "moved 0.49 of 1 m down: furniture is below"


def test_blocked_move_keeps_the_pose():
    stopped = move(Camera((1.0, 5.0, 1.6), 180), forward=2).camera
    second = move(stopped, forward=1)
    assert second.feedback in (
        "could not move forward: a wall is ahead",
        "moved 0.01 of 1 m forward: a wall is ahead",
    )
    third = move(second.camera, forward=1)
    assert third.feedback == "could not move forward: a wall is ahead"
    assert third.camera == second.camera


def test_move_stops_at_the_end_of_the_scan():
    flat = FreeSpace.of(
        as_scene(*joined(rectangle((0, 0, 0), (6, 4, 0)), rectangle((0, 0, 0), (0, 4, 2.7))))
    )
    camera = Camera((5.0, 2.0, 1.6))
    ahead = move(camera, flat, forward=2).feedback
    assert ahead == "moved 1 of 2 m forward: the end of the scan is ahead"
    assert move(camera, flat, up=2).feedback.endswith("the end of the scan is above")


def test_pitch_at_the_limit_does_not_change():
    high = Camera((4.0, 5.0, 1.6), 0, 60)
    tilted = move(high, pitch=10)
    assert tilted.feedback == "could not tilt: pitch is already 60° (the limit is ±60°)"
    assert tilted.camera == high


def test_rotation_precedes_a_level_move():
    moved = move(Camera((4.0, 5.0, 1.6), 0, -40), rotation=90, forward=1, left=0.5).camera
    assert np.allclose(moved.position, (3.5, 6.0, 1.6))
    assert (moved.yaw, moved.pitch) == (90, -40)


def test_look_at_turns_moves_and_turns_again():
    point = (4.0, 8.0, 1.0)
    moved = move(look_at=point, left=1.0)
    assert np.allclose(moved.camera.position, (3.0, 5.0, 1.6))  # left as seen towards the point
    assert moved.camera.to_camera_frame(np.array([point]))[0][:2] == pytest.approx((0, 0), abs=1e-9)
    assert moved.feedback == (
        "turned to the point (4, 8, 1); moved 1 m to the left; then turned to the point again"
    )


def test_look_at_overrides_rotation_and_pitch():
    combined = move(look_at=(4, 8, 1.6), rotation=30, pitch=10)
    assert combined.camera == move(look_at=(4, 8, 1.6)).camera
    assert combined.feedback.startswith("rotation and pitch were ignored")


def test_look_at_too_steep_keeps_the_pitch_limit():
    steep = move(look_at=(4.1, 5.0, 0.0))
    assert steep.camera.pitch == -60
    assert "limited to ±60°" in steep.feedback
    at_point = move(look_at=START.position)
    assert at_point.camera == START
    assert at_point.feedback.endswith("the camera is at that point")


numbers = st.floats(-4, 4)
actions = st.builds(
    Action,
    rotation=st.floats(-400, 400),
    pitch=st.floats(-90, 90),
    forward=numbers,
    left=numbers,
    up=numbers,
    look_at=st.none() | st.tuples(numbers, numbers, numbers),
)


@given(walk=st.lists(actions, min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_any_walk_respects_the_limits(walk):
    camera = START
    for action in walk:
        moved, _ = apply_action(action, camera, space())
        assert math.dist(moved.position[:2], camera.position[:2]) <= math.hypot(2, 2) + 1e-9
        assert abs(moved.position[2] - camera.position[2]) <= 2 + 1e-9
        assert -60 <= moved.pitch <= 60
        assert -180 <= moved.yaw < 180
        assert moved.vertical_fov == camera.vertical_fov
        clearance = np.minimum(moved.position, np.array(SIZE) - moved.position)
        assert (clearance >= 0.19).all()
        camera = moved


@given(
    rotation=st.floats(-180, 180),
    forward=st.floats(-2, 2),
    left=st.floats(-2, 2),
    up=st.floats(-1, 1),
)
@settings(max_examples=100, deadline=None)
def test_reversed_move_returns_to_the_start(rotation, forward, left, up):
    there = move(rotation=rotation, forward=forward, left=left, up=up)
    assume(not there.outcome.is_short)
    back = move(there.camera, forward=-forward, left=-left, up=-up)
    assume(not back.outcome.is_short)
    home = move(back.camera, rotation=-rotation).camera
    assert np.allclose(home.position, START.position, atol=1e-9)
    assert math.remainder(home.yaw - START.yaw, 360) == pytest.approx(0, abs=1e-9)
    assert home.pitch == START.pitch


@given(action=actions, start=st.tuples(st.floats(1, 11), st.floats(1, 9), st.floats(0.4, 2.4)))
@settings(max_examples=200, deadline=None)
def test_outcome_is_consistent_with_action_and_poses(action, start):
    camera = Camera(start, 30.0)
    after, outcome, feedback = apply(action, camera)
    for value, requested, moved in zip(
        (action.forward, action.left, action.up), outcome.requested, outcome.moved, strict=True
    ):
        assert abs(requested) == (min(abs(value), MAX_MOVE_METRES) if abs(value) >= MIN_MOVE else 0)
        assert abs(moved) <= abs(requested) + 1e-9
        assert min(value * requested, requested * moved) >= 0
    assert abs(outcome.turned) <= MAX_ROTATION_DEGREES
    heading = camera.turned(outcome.turned)
    walked = np.array(camera.position) + heading.offset(*outcome.moved)
    assert np.allclose(after.position, walked, atol=1e-6)
    (*level, up), (*level_moved, up_moved) = outcome.requested, outcome.moved
    assert (outcome.level_obstacle is None) == np.allclose(level, level_moved, atol=1e-12)
    assert (outcome.vertical_obstacle is None) == (up == up_moved)
    exceeded = {
        "forward_meters": abs(action.forward) > MAX_MOVE_METRES,
        "left_meters": abs(action.left) > MAX_MOVE_METRES,
        "z_delta_meters": abs(action.up) > MAX_MOVE_METRES,
        "rotation_angle_degrees": not action.look_at
        and abs(action.rotation) > MAX_ROTATION_DEGREES,
        "pitch_degrees": not action.look_at and abs(action.pitch) > 60 + 1e-9,
    }
    assert set(outcome.limits) == {field for field, is_exceeded in exceeded.items() if is_exceeded}
    for field in set(exceeded) - {"pitch_degrees"}:
        assert (f"{field} " in feedback) == exceeded[field]
    assert ("could not move" in feedback) == any(
        obstacle and not any(steps)
        for obstacle, steps in (
            (outcome.level_obstacle, level_moved),
            (outcome.vertical_obstacle, [up_moved]),
        )
    )


@given(action=actions)
@settings(max_examples=50, deadline=None)
def test_outcome_round_trips_through_the_log(action):
    camera, outcome, feedback = apply(action)
    logged = decode_json(encode_line(outcome), Outcome)
    assert logged == outcome
    assert describe_outcome(action, START, camera, logged, general()) == feedback


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({}, Outcome()),
        ({"rotation": 45, "left": -0.5}, Outcome(45, (0, -0.5, 0), (0, -0.5, 0))),
        ({"look_at": (4, 9, 1.6)}, Outcome(90)),
        ({"rotation": -999}, Outcome(-180, limits=("rotation_angle_degrees",))),
        ({"pitch": 70}, Outcome(limits=("pitch_degrees",))),
        ({"up": 9}, Outcome(0, (0, 0, 2), (0, 0, pytest.approx(0.89, abs=0.01)), ("z_delta_meters",), vertical_obstacle="ceiling")),
    ],
)  # fmt: skip
def test_outcome_states_requested_and_actual_moves(fields, outcome):
    assert move(**fields).outcome == outcome


def test_outcome_names_the_obstacle():
    stopped = move(Camera((7.0, 5.0, 0.6)), forward=1.5).outcome
    assert stopped.level_obstacle == "furniture"
    assert stopped.moved[0] == pytest.approx(0.79, abs=0.01)
    assert stopped.is_short
    assert not move(forward=1.5).outcome.is_short
