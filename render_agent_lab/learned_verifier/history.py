"""Camera moves encoded as numbers, which the action tower reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.reply import KINDS, MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.scans.camera import MAX_PITCH, Camera, wrapped

ENDS = ("from", "to")
"""The poses of a move: where it was made from, and where it led."""

POSE = ("ahead", "left", "up", "heading_sine", "heading_cosine", "pitch", "known")
"""What the numbers of a pose are, seen from another."""

REACH = 4.0
"""Metres that count as 1 in a pose; what is three times as far is cut off."""

NUMBERS = (
    "rotation_sine",
    "rotation_half_of_1_minus_cosine",
    "pitch",
    "forward",
    "left",
    "up",
    "look_at",
    *KINDS,
    "earlier_view",
    "answer",
    "done",
    *(f"{end}_{number}" for end in ENDS for number in POSE),
)
"""What the numbers of a move are, in order; all are 0 where nothing is asked for and no pose is told.

They are about 1 at most. First comes what was asked for, then the poses in which it began and ended, as
they are seen from where the camera stands now.
"""

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """N histories of at most H moves.

    values: (N, H, A) float32, the newest move last, 0 where there is none. known: (N, H) bool, which
    places hold a move: the last ones of a row, at least one. ValueError where they are not so.
    """

    values: FloatArray
    known: NDArray[np.bool_]

    def __post_init__(self) -> None:
        values, known = self.values, self.known
        if values.ndim != 3 or known.shape != values.shape[:2]:
            raise ValueError(
                f"values of (N, H, A) and known of (N, H) are needed, not {values.shape} and {known.shape}"
            )
        if values.dtype != np.float32 or known.dtype != np.bool_:
            raise ValueError(f"float32 and bool are needed, not {values.dtype} and {known.dtype}")
        if not len(values):
            raise ValueError("there is no history to score")
        if not np.isfinite(values).all():
            raise ValueError("a move has a number that is not finite")
        if not known[:, -1:].any(1).all() or (known[:, :-1] & ~known[:, 1:]).any():
            raise ValueError(
                "the moves of a history stand in its last places, and there is one at least"
            )
        if values[~known].any():
            raise ValueError("places without a move hold zeros")

    def __len__(self) -> int:
        return len(self.values)


def encode_action(action: Action, camera: Camera | None = None) -> FloatArray:
    """Return the numbers of what one move asks for, (A,) float32, as NUMBERS names them; no pose is told.

    Angles count against what a turn may do at most, metres too; what is beyond is cut off, as the
    camera's move would be. camera: where the move was made from; with it `look_at` is the rotation
    and the pitch that it comes to, without it only that a point was looked at is told, since a point
    of the scene means nothing by itself. ValueError where a number is not finite.
    """
    rotation, pitch = action.rotation, action.pitch
    if action.look_at is not None and camera is not None:
        turned = camera.looking_at(action.look_at)
        rotation, pitch = wrapped(turned.yaw - camera.yaw), turned.pitch - camera.pitch
    steps = np.array([action.forward, action.left, action.up]) / MAX_MOVE_METRES
    if not np.isfinite([rotation, pitch, *steps]).all():
        raise ValueError("a move has a number that is not finite")
    turn = math.radians(max(-MAX_ROTATION_DEGREES, min(MAX_ROTATION_DEGREES, rotation)))
    flags = [
        action.look_at is not None,
        *(action.view == kind for kind in KINDS),
        isinstance(action.view, int),
        action.answer is not None,
        action.done,
    ]
    numbers = [
        math.sin(turn),
        (1 - math.cos(turn)) / 2,  # half a turn to the left is half a turn to the right
        max(-2.0, min(2.0, pitch / MAX_PITCH)),
        *steps.clip(-1, 1),
        *flags,
    ]
    return np.array([*numbers, *[0.0] * (len(NUMBERS) - len(numbers))], np.float32)


def encode_pose(pose: Camera, now: Camera) -> FloatArray:
    """Return the numbers of a pose as it is seen from another, (P,) float32, as POSE names them."""
    east, north, up = (
        there - here for there, here in zip(pose.position, now.position, strict=True)
    )
    yaw = math.radians(now.yaw)
    turn = math.radians(pose.yaw - now.yaw)
    metres = np.array(
        [
            east * math.cos(yaw) + north * math.sin(yaw),
            north * math.cos(yaw) - east * math.sin(yaw),
            up,
        ]
    )
    return np.array(
        [
            *(metres / REACH).clip(-3, 3),
            math.sin(turn),
            math.cos(turn),
            pose.pitch / MAX_PITCH,
            1.0,
        ],
        np.float32,
    )


def encode_history(
    actions: Sequence[Action],
    trail: Sequence[Camera] | None = None,
    length: int = 10,
    now: Camera | None = None,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the last `length` moves of one history as values (length, A) and known (length,).

    The last action is the candidate. trail: the poses in which they were made, in order, and the one that
    the candidate leads to; without it no pose is told. now: where the camera stands, from which poses are
    seen; where the candidate was made from, unless given. Replies that could not be read moved nothing:
    leave them out. ValueError where there is no action.
    """
    if not actions:
        raise ValueError("a history has one move at least")
    if trail is not None and len(trail) != len(actions) + 1:
        raise ValueError(
            f"a trail of {len(trail)} poses does not fit {len(actions)} actions: it is one longer"
        )
    first = max(0, len(actions) - length)
    moves = actions[first:]
    values = np.zeros((length, len(NUMBERS)), np.float32)
    known = np.zeros(length, np.bool_)
    if trail is None:
        values[-len(moves) :] = [encode_action(action) for action in moves]
    else:
        here = trail[-2] if now is None else now
        for place, action in enumerate(moves):
            number = place + length - len(moves)
            values[number] = encode_action(action, trail[first + place])
            ends = [encode_pose(trail[first + place + end], here) for end in (0, 1)]
            values[number, -2 * len(POSE) :] = np.concatenate(ends)
    known[-len(moves) :] = True
    return values, known


def stack(histories: Sequence[tuple[FloatArray, NDArray[np.bool_]]]) -> Histories:
    """Return what `encode_history` gave, as one; ValueError where there is none or lengths differ."""
    if not histories:
        raise ValueError("there is no history to score")
    if len({len(known) for _, known in histories}) > 1:
        raise ValueError("histories of different lengths cannot be stacked")
    values, known = zip(*histories, strict=True)
    return Histories(np.stack(values), np.stack(known))


def read_histories(context: TurnContext, candidates: Sequence[Candidate], length: int) -> Histories:
    """Return the history that each candidate ends, of `length` moves at the most.

    Replies that could not be read moved nothing and are left out. ValueError where a candidate could not
    be read.
    """
    earlier = [(t.action, t.stood) for t in context.state.turns if isinstance(t.action, Action)]
    actions, trail = [action for action, _ in earlier], [stood for _, stood in earlier]
    here = context.observation.camera
    rows = []
    for candidate in candidates:
        if not isinstance(candidate.action, Action):
            raise ValueError(f"candidate {candidate.number} could not be read: it moves nothing")
        requested = [*actions, candidate.action]
        poses = [*trail, here, candidate.camera]
        rows.append(encode_history(requested, poses, length, here))
    return stack(rows)
