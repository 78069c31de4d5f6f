"""Horizontal directions as VSI-Bench's questions name them: left, right, back, front-left …

One stands at one point and faces another; angles are degrees counter-clockwise from there, so that positive ones lie to
the left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from render_agent.geometry.boxes import Array

BACK_DEGREES = 135.0
"""From this angle on a target is at the back, as the medium question says."""


def bearing(position: Array, facing: Array, target: Array) -> float:
    """Return the angle from the way one faces to a target, degrees in -180 … 180, left positive.

    position, facing, target: (2,) or (3,) points in metres.
    """
    ahead, there = (facing - position)[:2], (target - position)[:2]
    cross = ahead[0] * there[1] - ahead[1] * there[0]
    return math.degrees(math.atan2(float(cross), float(ahead @ there)))


def side(angle: float) -> str:
    """Return left or right for an angle in degrees, left positive."""
    return "left" if angle > 0 else "right"


def side_or_back(angle: float) -> str:
    """Return left, right or back for an angle in degrees, left positive."""
    return "back" if abs(angle) >= BACK_DEGREES else side(angle)


def quadrant(angle: float) -> str:
    """Return front-left, front-right, back-left or back-right for an angle in degrees, left positive."""
    return f"{'front' if abs(angle) < 90 else 'back'}-{side(angle)}"


DIRECTION_NAMES: Mapping[str, Callable[[float], str]] = {
    "object_rel_direction_easy": side,
    "object_rel_direction_medium": side_or_back,
    "object_rel_direction_hard": quadrant,
}
"""By type of question, what it calls an angle."""
