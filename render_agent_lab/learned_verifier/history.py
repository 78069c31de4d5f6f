"""Encodes camera moves as numbers for the action tower."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.reply import MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.dialogue.turn import Candidate
from render_agent.options import VIEW_TYPES
from render_agent.scans.camera import MAX_PITCH, Camera, wrap_degrees

ENDS = ("from", "to")  # the poses before and after a move

# Components of a pose relative to another pose.
POSE = ("ahead", "left", "up", "heading_sine", "heading_cosine", "pitch", "known")

POSE_METRES = 4.0  # metres that are encoded as 1 in a pose; clipped at 3 times this distance

# The numbers of a move in order, at most about 1 in magnitude: the request, then the poses before and after it relative
# to the current camera. Zero if not requested or unknown.
NUMBERS = (
    "rotation_sine",
    "rotation_half_of_1_minus_cosine",
    "pitch",
    "forward",
    "left",
    "up",
    "look_at",
    *VIEW_TYPES,
    "earlier_view",
    "answer",
    "done",
    *(f"{end}_{number}" for end in ENDS for number in POSE),
)

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """N histories of at most H moves."""

    values: FloatArray
    """(N, H, A) float32, right-aligned with the most recent move last, zero-padded."""
    known: NDArray[np.bool_]
    """(N, H) bool mask of the entries that contain a move, at least one per row."""

    def __post_init__(self) -> None:
        values, known = self.values, self.known
        if values.ndim != 3 or known.shape != values.shape[:2]:
            raise ValueError(
                f"expected values (N, H, A) and known (N, H), not {values.shape} and {known.shape}"
            )
        if values.dtype != np.float32 or known.dtype != np.bool_:
            raise ValueError(f"expected float32 and bool, not {values.dtype} and {known.dtype}")
        if not len(values):
            raise ValueError("no history to score")
        if not np.isfinite(values).all():
            raise ValueError("a move contains a non-finite number")
        if not known[:, -1:].any(1).all() or (known[:, :-1] & ~known[:, 1:]).any():
            raise ValueError(
                "each history needs at least one move, and moves must be right-aligned"
            )
        if values[~known].any():
            raise ValueError("padding must be zero")

    def __len__(self) -> int:
        return len(self.values)


def encode_action(action: Action, camera: Camera | None = None) -> FloatArray:
    """Encode the request of one move as the numbers named in NUMBERS, without poses.

    Angles and distances are scaled by, and clipped to, the limits of one turn. Given the camera before the move, `look_at`
    becomes the rotation and pitch that it causes; otherwise only its flag is set.
    """
    rotation, pitch = action.rotation, action.pitch
    if action.look_at is not None and camera is not None:
        camera_after = camera.looking_at(action.look_at)
        rotation, pitch = (
            wrap_degrees(camera_after.yaw - camera.yaw),
            camera_after.pitch - camera.pitch,
        )
    steps = np.array([action.forward, action.left, action.up]) / MAX_MOVE_METRES
    if not np.isfinite([rotation, pitch, *steps]).all():
        raise ValueError("a move contains a non-finite number")
    turn = math.radians(max(-MAX_ROTATION_DEGREES, min(MAX_ROTATION_DEGREES, rotation)))
    flags = [
        action.look_at is not None,
        *(action.view == kind for kind in VIEW_TYPES),
        isinstance(action.view, int),
        action.answer is not None,
        action.done,
    ]
    numbers = [
        math.sin(turn),
        (1 - math.cos(turn)) / 2,  # +180 and -180 degrees encode to the same value
        max(-2.0, min(2.0, pitch / MAX_PITCH)),
        *steps.clip(-1, 1),
        *flags,
    ]
    return np.array([*numbers, *[0.0] * (len(NUMBERS) - len(numbers))], np.float32)


def encode_pose(pose: Camera, reference: Camera) -> FloatArray:
    """Encode a pose relative to another one, (P,) float32 as named in POSE."""
    east, north, up = (
        end - start for end, start in zip(pose.position, reference.position, strict=True)
    )
    yaw = math.radians(reference.yaw)
    turn = math.radians(pose.yaw - reference.yaw)
    metres = np.array(
        [
            east * math.cos(yaw) + north * math.sin(yaw),
            north * math.cos(yaw) - east * math.sin(yaw),
            up,
        ]
    )
    return np.array(
        [
            *(metres / POSE_METRES).clip(-3, 3),
            math.sin(turn),
            math.cos(turn),
            pose.pitch / MAX_PITCH,
            1.0,
        ],
        np.float32,
    )


def encode_history(
    actions: Sequence[Action],
    # pose before each move, then the pose after the candidate; None omits poses
    trail: Sequence[Camera] | None = None,
    length: int = 10,
    now: Camera | None = None,
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Encode the last `length` moves of one history, whose last move is the candidate: values (length, A) and mask
    (length,).

    `now` is the pose that others are relative to, by default the one before the candidate.
    """
    if not actions:
        raise ValueError("a history needs at least one move")
    if trail is not None and len(trail) != len(actions) + 1:
        raise ValueError(f"{len(actions)} actions need {len(actions) + 1} poses, not {len(trail)}")
    start = max(0, len(actions) - length)
    moves = actions[start:]
    values = np.zeros((length, len(NUMBERS)), np.float32)
    known = np.zeros(length, np.bool_)
    if trail is None:
        values[-len(moves) :] = [encode_action(action) for action in moves]
    else:
        reference_pose = trail[-2] if now is None else now
        for index, action in enumerate(moves):
            row = index + length - len(moves)
            values[row] = encode_action(action, trail[start + index])
            ends = [encode_pose(trail[start + index + end], reference_pose) for end in (0, 1)]
            values[row, -2 * len(POSE) :] = np.concatenate(ends)
    known[-len(moves) :] = True
    return values, known


def stack(histories: Sequence[tuple[FloatArray, NDArray[np.bool_]]]) -> Histories:
    """Stack results of `encode_history`. Raises ValueError if there are none or lengths differ."""
    if not histories:
        raise ValueError("no history to score")
    if len({len(known) for _, known in histories}) > 1:
        raise ValueError("cannot stack histories of different lengths")
    values, known = zip(*histories, strict=True)
    return Histories(np.stack(values), np.stack(known))


def read_histories(context: TurnContext, candidates: Sequence[Candidate], length: int) -> Histories:
    """Encode the history that ends with each candidate, at most `length` moves.

    Unreadable earlier replies are skipped. Raises ValueError if a candidate is unreadable.
    """
    earlier = [
        (t.action, t.camera_before) for t in context.state.turns if isinstance(t.action, Action)
    ]
    actions, trail = [action for action, _ in earlier], [camera for _, camera in earlier]
    current_camera = context.observation.camera
    rows = []
    for candidate in candidates:
        if not isinstance(candidate.action, Action):
            raise ValueError(f"candidate {candidate.number} is unreadable")
        actions_with_candidate = [*actions, candidate.action]
        poses = [*trail, current_camera, candidate.camera]
        rows.append(encode_history(actions_with_candidate, poses, length, current_camera))
    return stack(rows)
