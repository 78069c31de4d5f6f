"""The path of the camera through a dialogue: metres, degrees, what stopped it, where it came back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Turn
from render_agent.report.diagnosis.model import TurnDiagnosis
from render_agent.scans.camera import Camera, wrapped

NEAR_METRES = 0.3
"""So near to an earlier position the camera is back there."""

SAME_HEADING_DEGREES = 15.0
"""Headings that differ by less show the same."""

LEAST_TURN_DEGREES = 20.0
"""A smaller turn is none that could be taken back."""


def steps(turns: Sequence[Turn]) -> list[TurnDiagnosis]:
    """Return the diagnosis of each turn as far as the path of the camera tells it."""
    cameras = [turn.stood for turn in turns]
    return [
        TurnDiagnosis(
            number,
            path=_length(turn.stood, turn.camera),
            turned=_angle(turn.stood, turn.camera),
            blocked=turn.outcome is not None and turn.outcome.is_short,
            repaired=isinstance(turn.action, Malformed),
            returned=_came_back(cameras[: number + 1], turn.camera)
            or _turned_back(cameras[: number + 1], turn.camera),
        )
        for number, turn in enumerate(turns)
    ]


def _length(start: Camera, end: Camera) -> float:
    """Return the metres of a path that goes level first, then up or down."""
    x, y, z = (b - a for a, b in zip(start.position, end.position, strict=True))
    return math.hypot(x, y) + abs(z)


def _angle(start: Camera, end: Camera) -> float:
    """Return the degrees between two directions of view."""
    cosine = float(start.forward @ end.forward)
    return math.degrees(math.acos(min(max(cosine, -1.0), 1.0)))


def _came_back(before: Sequence[Camera], end: Camera) -> bool:
    """Return whether a move ended near an earlier position that it did not begin near to."""
    return any(
        math.dist(camera.position, end.position)
        <= NEAR_METRES
        < math.dist(camera.position, before[-1].position)
        for camera in before[:-1]
    )


def _turned_back(before: Sequence[Camera], end: Camera) -> bool:
    """Return whether a turn took back the one before it, at the same place."""
    last = wrapped(end.yaw - before[-1].yaw)
    if abs(last) < LEAST_TURN_DEGREES or math.dist(before[-1].position, end.position) > NEAR_METRES:
        return False
    for earlier, later in zip(before[-2::-1], before[:0:-1], strict=True):
        if math.dist(earlier.position, end.position) > NEAR_METRES:
            return False
        turn = wrapped(later.yaw - earlier.yaw)
        if abs(turn) >= LEAST_TURN_DEGREES:
            opposite = (turn > 0) != (last > 0)
            return opposite and abs(wrapped(end.yaw - earlier.yaw)) <= SAME_HEADING_DEGREES
    return False
