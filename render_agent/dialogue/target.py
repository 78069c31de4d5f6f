"""Targets of questions whose answer is a pose: poses as text, and how far a camera is from a target."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.util.numbers import is_number
from render_agent.util.safe_parse import Finite, NotNegative, UnitInterval

# x, y, z in metres, in the frame of the scan file after alignment; yaw and pitch in degrees.
Pose = tuple[Finite, Finite, Finite, Finite, Finite]

TARGET = "target"  # kind of the view that shows the target


class TargetError(Struct, frozen=True, omit_defaults=True):
    """How far a camera is from the target of its question."""

    pose: Pose
    position: NotNegative
    """Straight distance in metres."""
    heading: NotNegative  # degrees
    pitch: NotNegative  # degrees
    path: NotNegative | None = None
    """Length of the shortest free path in metres; None if there is none."""
    overlap: UnitInterval = 0.0
    """Intersection over union of the surface that the camera and the target show."""
    view: View | None = None
    """The camera's view at the end of the dialogue."""

    def is_within(self, metres: float, degrees: float) -> bool:
        """Return True if position, heading and pitch are at most this far from the target."""
        return self.position <= metres and max(self.heading, self.pitch) <= degrees


def format_pose(pose: Sequence[float]) -> str:
    """Return a pose as text: five numbers, separated by spaces."""
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in pose)


def parse_pose(text: str) -> Pose | None:
    """Return the pose in a text; None if it is not five finite numbers."""
    words = text.replace(",", " ").split()
    values = [float(word) for word in words if is_number(word)]
    if len(words) != 5 or len(values) != 5 or not all(map(math.isfinite, values)):
        return None
    x, y, z, yaw, pitch = values
    return x, y, z, yaw, pitch


def pose_of(camera: Camera) -> Pose:
    """Return the pose of a camera, rounded to 0.1 mm and 0.0001 degrees."""
    x, y, z, yaw, pitch = (
        round(value, 4) for value in (*camera.position, camera.yaw, camera.pitch)
    )
    return x, y, z, yaw, pitch


def pose_error(pose: Pose, target: Pose) -> TargetError:
    """Return the errors of a pose that follow from the poses alone."""
    return TargetError(
        pose,
        round(math.dist(pose[:3], target[:3]), 4),
        round(abs(wrap_degrees(pose[3] - target[3])), 4),
        round(abs(pose[4] - target[4]), 4),
    )
