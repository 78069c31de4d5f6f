"""Camera path of a dialogue: distance, rotation, blocked moves and backtracks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Turn
from render_agent.report.diagnosis.model import TurnDiagnosis
from render_agent.scans.camera import Camera, wrap_degrees

NEAR_METRES = 0.3  # positions closer than this count as the same place
SAME_HEADING_DEGREES = 15.0  # headings closer than this show the same view
MIN_TURN_DEGREES = 20.0  # smaller rotations are too small to be undone


def diagnose_path(turns: Sequence[Turn]) -> list[TurnDiagnosis]:
    """Return the diagnosis of each turn, with the fields that depend only on the camera path."""
    cameras = [turn.camera_before for turn in turns]
    return [
        TurnDiagnosis(
            number,
            path=_length(turn.camera_before, turn.camera),
            turned=_angle(turn.camera_before, turn.camera),
            blocked=turn.outcome is not None and turn.outcome.is_short,
            repaired=isinstance(turn.action, Malformed),
            returned=_came_back(cameras[: number + 1], turn.camera)
            or _turned_back(cameras[: number + 1], turn.camera),
        )
        for number, turn in enumerate(turns)
    ]


def _length(start: Camera, end: Camera) -> float:
    """Return the length in metres of a path that is first horizontal, then vertical."""
    x, y, z = (b - a for a, b in zip(start.position, end.position, strict=True))
    return math.hypot(x, y) + abs(z)


def _angle(start: Camera, end: Camera) -> float:
    """Return the angle in degrees between two viewing directions."""
    cosine = float(start.forward @ end.forward)
    return math.degrees(math.acos(min(max(cosine, -1.0), 1.0)))


def _came_back(before: Sequence[Camera], end: Camera) -> bool:
    """Return True if a move ended near an earlier position but did not start near it."""
    return any(
        math.dist(camera.position, end.position)
        <= NEAR_METRES
        < math.dist(camera.position, before[-1].position)
        for camera in before[:-1]
    )


def _turned_back(before: Sequence[Camera], end: Camera) -> bool:
    """Return True if a rotation undid the previous rotation at the same place."""
    rotation = wrap_degrees(end.yaw - before[-1].yaw)
    if (
        abs(rotation) < MIN_TURN_DEGREES
        or math.dist(before[-1].position, end.position) > NEAR_METRES
    ):
        return False
    for earlier, later in zip(before[-2::-1], before[:0:-1], strict=True):
        if math.dist(earlier.position, end.position) > NEAR_METRES:
            return False
        previous_rotation = wrap_degrees(later.yaw - earlier.yaw)
        if abs(previous_rotation) >= MIN_TURN_DEGREES:
            is_opposite = (previous_rotation > 0) != (rotation > 0)
            return is_opposite and abs(wrap_degrees(end.yaw - earlier.yaw)) <= SAME_HEADING_DEGREES
    return False
