"""Camera moves as numbers: what the action tower reads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.action import KINDS, Action
from render_agent.camera import MAX_PITCH, Camera, wrapped
from render_agent.moves import Limits

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
)
"""What the numbers of a move are, in order; all are 0 where nothing is asked for, and about 1 at most."""

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
    """Return the numbers of one move, (A,) float32, as NUMBERS names them.

    Angles count against what a turn may do at most, metres too; what is beyond is cut off, as the
    camera's move would be. camera: where the move was made from; with it `look_at` is the rotation
    and the pitch that it comes to, without it only that a point was looked at is told, since a point
    of the scene means nothing by itself. ValueError where a number is not finite.
    """
    rotation, pitch = action.rotation, action.pitch
    if action.look_at is not None and camera is not None:
        turned = camera.looking_at(action.look_at)
        rotation, pitch = wrapped(turned.yaw - camera.yaw), turned.pitch - camera.pitch
    limits = Limits()
    steps = np.array([action.forward, action.left, action.up]) / limits.metres
    if not np.isfinite([rotation, pitch, *steps]).all():
        raise ValueError("a move has a number that is not finite")
    turn = math.radians(max(-limits.rotation, min(limits.rotation, rotation)))
    flags = [
        action.look_at is not None,
        *(action.view == kind for kind in KINDS),
        isinstance(action.view, int),
        action.answer is not None,
        action.done,
    ]
    return np.array(
        [
            math.sin(turn),
            (1 - math.cos(turn)) / 2,  # half a turn to the left is half a turn to the right
            max(-2.0, min(2.0, pitch / MAX_PITCH)),
            *steps.clip(-1, 1),
            *flags,
        ],
        np.float32,
    )


def encode_history(
    actions: Sequence[Action], cameras: Sequence[Camera] | None = None, length: int = 10
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the last `length` moves of one history as values (length, A) and known (length,).

    The last action is the candidate. cameras: where each was made from, see `encode_action`. Replies
    that could not be read moved nothing: leave them out. ValueError where there is no action.
    """
    if not actions:
        raise ValueError("a history has one move at least")
    if cameras is not None and len(cameras) != len(actions):
        raise ValueError(f"{len(cameras)} cameras do not fit {len(actions)} actions")
    places: Sequence[Camera | None] = [None] * len(actions) if cameras is None else cameras
    moves = list(zip(actions, places, strict=True))[-length:]
    values = np.zeros((length, len(NUMBERS)), np.float32)
    known = np.zeros(length, np.bool_)
    values[-len(moves) :] = [encode_action(action, camera) for action, camera in moves]
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
