"""Encoding of camera moves as numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from render_agent.dialogue.reply import Action
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent_lab.learned_verifier.history import (
    NUMBERS,
    POSE,
    Histories,
    encode_action,
    encode_history,
    stack,
)


def numbers(action, camera=None):
    return dict(zip(NUMBERS, encode_action(action, camera).tolist(), strict=True))


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Action(rotation=90), {"rotation_sine": 1, "rotation_half_of_1_minus_cosine": 0.5}),
        (Action(rotation=-90), {"rotation_sine": -1, "rotation_half_of_1_minus_cosine": 0.5}),
        (Action(pitch=-30), {"pitch": -0.5}),
        (Action(forward=1), {"forward": 0.5}),
        (Action(left=-2, up=0.5), {"left": -1, "up": 0.25}),
        (Action(forward=99, left=-99), {"forward": 1, "left": -1}),
        (Action(view="ego"), {"ego": 1}),
        (Action(view="top"), {"top": 1}),
        (Action(view="around"), {"around": 1}),
        (Action(view=0), {"earlier_view": 1}),
        (Action(answer="A", done=True), {"answer": 1, "done": 1}),
        (Action(look_at=(1, 2, 3)), {"look_at": 1}),
    ],
)
def test_requested_moves_are_encoded_under_their_names(action, expected):
    encoded = numbers(action)
    assert encoded == pytest.approx(dict.fromkeys(NUMBERS, 0) | expected, abs=1e-6)


def test_half_turns_encode_equally_and_continuously():
    left, right, nearly = (encode_action(Action(rotation=r)) for r in (180, -180, 179))
    np.testing.assert_allclose(left, right, atol=1e-6)
    assert np.abs(nearly - right).max() < 0.02
    np.testing.assert_allclose(encode_action(Action(rotation=400)), left, atol=1e-6)


@given(st.floats(-170, 170), st.floats(-50, 50), st.floats(-180, 180), st.floats(-40, 40))
def test_look_at_is_encoded_as_the_rotation_it_causes(rotation, pitch, yaw, first):
    camera = Camera((1.0, 2.0, 1.5), yaw, first, 60.0)
    aim = math.radians(yaw + rotation), math.radians(max(-59, min(59, first + pitch)))
    point = (
        1 + 3 * math.cos(aim[0]) * math.cos(aim[1]),
        2 + 3 * math.sin(aim[0]) * math.cos(aim[1]),
        1.5 + 3 * math.sin(aim[1]),
    )
    turned = camera.looking_at(point)
    encoded = numbers(Action(look_at=point), camera)
    same = numbers(Action(rotation=wrap_degrees(turned.yaw - yaw), pitch=turned.pitch - first))
    assert encoded == pytest.approx(same | {"look_at": 1.0}, abs=1e-5)


def test_histories_are_right_aligned():
    actions = [Action(forward=0.1 * n) for n in range(1, 14)]
    values, known = encode_history(actions)
    assert known.all()
    np.testing.assert_allclose(
        values[:, NUMBERS.index("forward")], np.arange(4, 14) * 0.05, atol=1e-6
    )
    values, known = encode_history(actions[:2])
    assert known.tolist() == [False] * 8 + [True] * 2
    assert not values[:8].any()
    assert len(stack([encode_history(actions), encode_history(actions[:1])])) == 2


def pose_number(values, index, end, name):
    return float(values[index, NUMBERS.index(f"{end}_{name}")])


def test_poses_are_relative_to_the_current_camera():
    start = Camera((0.0, 0.0, 1.6), 0.0)
    now = Camera((4.0, 0.0, 1.6), 90.0)
    then = Camera((4.0, 2.0, 1.2), 60.0, -30.0)
    values, _ = encode_history([Action(forward=2), Action(rotation=-30)], [start, now, then])
    # From the current camera, the start is on the left and faces right.
    assert pose_number(values, -2, "from", "left") == pytest.approx(1)
    assert pose_number(values, -2, "from", "ahead") == pytest.approx(0, abs=1e-6)
    assert pose_number(values, -2, "from", "heading_sine") == pytest.approx(-1)
    assert pose_number(values, -1, "to", "ahead") == pytest.approx(0.5)
    assert pose_number(values, -1, "to", "up") == pytest.approx(-0.1)
    assert pose_number(values, -1, "to", "heading_cosine") == pytest.approx(math.sqrt(3) / 2)
    assert pose_number(values, -1, "to", "pitch") == pytest.approx(-0.5)
    for place, end in ((-2, "to"), (-1, "from")):
        here = [pose_number(values, place, end, name) for name in POSE]
        assert here == pytest.approx([0, 0, 0, 0, 1, 0, 1], abs=1e-6)
    assert not values[:-2].any()


@given(
    st.floats(-180, 180), st.floats(-20, 20), st.floats(-20, 20), st.integers(1, 12), st.randoms()
)
def test_encoding_is_invariant_to_rotation_and_translation(yaw, x, y, count, chance):
    trail = [
        Camera(
            (chance.uniform(-3, 3), chance.uniform(-3, 3), chance.uniform(0, 2)),
            chance.uniform(-180, 180),
            chance.uniform(-60, 60),
        )
        for _ in range(count + 1)
    ]
    actions = [Action(forward=chance.uniform(-2, 2)) for _ in range(count)]
    turn = math.radians(yaw)
    moved = [
        Camera(
            (
                x + c.position[0] * math.cos(turn) - c.position[1] * math.sin(turn),
                y + c.position[0] * math.sin(turn) + c.position[1] * math.cos(turn),
                c.position[2] + 5,
            ),
            wrap_degrees(c.yaw + yaw),
            c.pitch,
        )
        for c in trail
    ]
    encoded, other = (encode_history(actions, poses)[0] for poses in (trail, moved))
    np.testing.assert_allclose(encoded, other, atol=1e-5)


def test_malformed_histories_are_rejected():
    for actions, cameras in (
        ([], None),
        ([Action(done=True)], [Camera((0.0, 0.0, 1.6))]),
        ([Action(forward=math.nan)], None),
        ([Action(rotation=math.inf)], None),
    ):
        with pytest.raises(ValueError, match=r"move|poses|finite"):
            encode_history(actions, cameras)
    for histories in ([], [encode_history([Action()], length=n) for n in (2, 3)]):
        with pytest.raises(ValueError, match=r"histor|length"):
            stack(histories)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([[False, False]], "at least one"),
        ([[True, False]], "right-aligned"),
        ([[False, True]], "zero"),
        ([[True, True, True]], r"\(N, H\)"),
    ],
)
def test_histories_with_gaps_are_rejected(known, message):
    with pytest.raises(ValueError, match=message):
        Histories(np.ones((1, 2, 3), np.float32), np.array(known))
    with pytest.raises(ValueError, match="no history"):
        Histories(np.ones((0, 2, 3), np.float32), np.ones((0, 2), bool))
    with pytest.raises(ValueError, match="float32"):
        Histories(np.ones((1, 2, 3)), np.ones((1, 2), bool))
