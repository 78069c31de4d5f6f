"""Cameras: position, viewing direction, and the projection of points to pixels.

All code uses this convention:

* World: right-handed, metres, z up.
* Yaw: degrees, 0 looks along +x, counter-clockwise seen from above (90 looks along +y).
* Pitch: degrees, positive looks up. There is no roll.
* Camera frame (OpenCV): x to the right in the image, y down, z forward along the optical axis.
* Pixels: column u to the right, row v down; the centre of the top left pixel is (0.5, 0.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from render_agent.errors import UsageError
from render_agent.util.safe_parse import Either, Number

Vector = tuple[Number, Number, Number]
FloatArray = NDArray[np.float64]

MAX_PITCH = 60.0  # limit of looking up and down in degrees


def wrap_degrees(degrees: float) -> float:
    """Return the angle, in degrees, wrapped to [-180, 180)."""
    return (degrees + 180.0) % 360.0 - 180.0


def vertical_from_horizontal(horizontal: float, width: int, height: int) -> float:
    """Return the vertical field of view for a horizontal one, both in degrees, assuming square pixels."""
    half = math.tan(math.radians(horizontal) / 2) * height / width
    return math.degrees(2 * math.atan(half))


@dataclass(frozen=True, slots=True)
class Camera:
    """A perspective camera in the world; the module docstring defines the frames.

    >>> Camera((0, 0, 1.6)).turned(left=45).looking_at((0, 2, 1.6)).yaw
    90.0

    Attributes:
        position: Optical centre, metres, world frame.
        yaw: Degrees.
        pitch: Degrees.
        vertical_fov: Vertical field of view, degrees.

    Raises:
        UsageError: A value is not finite, or an angle is out of range.
    """

    position: Vector
    yaw: Number = 0.0
    pitch: Annotated[float, Meta(ge=-90, le=90)] = 0.0
    vertical_fov: Annotated[float, Meta(ge=0.1, le=179.9)] = 59.84

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, (*self.position, self.yaw))):
            raise UsageError(f"the position and yaw of a camera must be finite numbers: {self}")
        if not -90 <= self.pitch <= 90:
            raise UsageError(f"pitch {self.pitch} is not between -90 and 90 degrees")
        if not 0.1 <= self.vertical_fov <= 179.9:
            raise UsageError(
                f"vertical_fov {self.vertical_fov} is not between 0.1 and 179.9 degrees"
            )

    @property
    def forward(self) -> FloatArray:
        """Optical axis: unit vector, (3,), world frame."""
        yaw, pitch = math.radians(self.yaw), math.radians(self.pitch)
        return np.array(
            [math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), math.sin(pitch)]
        )

    @property
    def pose(self) -> FloatArray:
        """Camera-to-world matrix, (4, 4), whose columns are right, down, forward and position."""
        yaw, pitch = math.radians(self.yaw), math.radians(self.pitch)
        sin, cos, rise, level = math.sin(yaw), math.cos(yaw), math.sin(pitch), math.cos(pitch)
        x, y, z = self.position
        # Written out because it is computed for every image, and np.cross alone would take longer.
        return np.array(
            [
                [sin, rise * cos, level * cos, x],
                [-cos, rise * sin, level * sin, y],
                [0.0, -level * cos * cos - level * sin * sin, rise, z],
                [0.0, 0.0, 0.0, 1.0],
            ]
        )

    def focal(self, height: int) -> float:
        """Return the focal length in pixels for an image `height` pixels high (pixels are square)."""
        return height / 2 / math.tan(math.radians(self.vertical_fov) / 2)

    def intrinsics(self, width: int, height: int) -> FloatArray:
        """Return the (3, 3) matrix from camera coordinates to homogeneous pixels."""
        focal = self.focal(height)
        return np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])

    def horizontal_fov(self, width: int, height: int) -> float:
        """Return the horizontal field of view, in degrees, for an image of this size."""
        return vertical_from_horizontal(self.vertical_fov, height, width)

    def to_camera_frame(self, points: NDArray[Any]) -> FloatArray:
        """Transform points, (n, 3) in metres, from the world frame to the camera frame."""
        offset = np.asarray(points, float) - np.asarray(self.position)
        local: FloatArray = offset @ self.pose[:3, :3]
        return local

    def project(
        self, points: NDArray[Any], width: int, height: int
    ) -> tuple[FloatArray, FloatArray]:
        """Project world points to pixels.

        Args:
            points: (n, 3) metres, world frame.
            width: Image width in pixels.
            height: Image height in pixels.

        Returns:
            Pixels (n, 2) as (u, v), and depths (n,) in metres along the optical axis. Points behind the camera have
            depth <= 0 and pixel nan.
        """
        local = self.to_camera_frame(points)
        depth = local[:, 2]
        focal = self.focal(height)
        with np.errstate(over="ignore", invalid="ignore"):  # depths close to zero overflow
            pixels = local[:, :2] * (focal / np.where(depth > 0, depth, np.nan))[:, None]
        return pixels + np.array([width / 2, height / 2]), depth

    def turned(self, left: float = 0.0, up: float = 0.0) -> Camera:
        """Return the camera turned `left` (counter-clockwise) and `up`, in degrees; the pitch is clamped."""
        pitch = min(max(self.pitch + up, -MAX_PITCH), MAX_PITCH)
        return replace(self, yaw=wrap_degrees(self.yaw + left), pitch=pitch)

    def offset(self, forward: float, left: float, up: float) -> FloatArray:
        """Return a move as a world vector, (3,) metres. Forward and left are horizontal regardless of pitch."""
        yaw = math.radians(self.yaw)
        return np.array(
            [
                forward * math.cos(yaw) - left * math.sin(yaw),
                forward * math.sin(yaw) + left * math.cos(yaw),
                up,
            ]
        )

    def at(self, position: NDArray[Any] | Vector) -> Camera:
        """Return the same camera at `position`, metres, world frame."""
        x, y, z = (float(value) for value in position)
        return replace(self, position=(x, y, z))

    def looking_at(self, point: NDArray[Any] | Vector) -> Camera:
        """Return the camera turned towards `point`, metres, world frame, with its pitch clamped.

        The yaw is unchanged if the point is directly above, below or at the camera.
        """
        x, y, z = (float(p) - c for p, c in zip(point, self.position, strict=True))
        level = math.hypot(x, y)
        yaw = math.degrees(math.atan2(y, x)) if level > 1e-6 else self.yaw
        pitch = math.degrees(math.atan2(z, level)) if level > 1e-6 or z else self.pitch
        return replace(self, yaw=wrap_degrees(yaw), pitch=min(max(pitch, -MAX_PITCH), MAX_PITCH))

    def mirrored(self, at: float | None) -> Camera:
        """Return the camera mirrored at the plane x = `at`, metres; if `at` is None, the same camera.

        Its view of the mirrored scene is the mirror image of this camera's view of the scene.
        """
        if at is None:
            return self
        x, y, z = self.position
        return replace(self, position=(2 * at - x, y, z), yaw=wrap_degrees(180.0 - self.yaw))


@dataclass(frozen=True, slots=True)
class MapCamera:
    """An orthographic camera that looks straight down, with +x to the right of the image and +y up."""

    centre: tuple[Number, Number]  # (x, y) at the image centre, metres, world frame
    height: Number  # height of the cut, metres, world frame; everything above it is cut away
    metres_per_pixel: Annotated[float, Meta(ge=1e-9, le=1e15)]

    def project(
        self,
        points: NDArray[Any],  # (n, 3) metres, world frame
        width: int,  # image width in pixels
        height: int,  # image height in pixels
    ) -> tuple[FloatArray, FloatArray]:
        """Project world points to pixels."""
        points = np.asarray(points, float)
        u = (points[:, 0] - self.centre[0]) / self.metres_per_pixel + width / 2
        v = height / 2 - (points[:, 1] - self.centre[1]) / self.metres_per_pixel
        return np.column_stack([u, v]), self.height - points[:, 2]


AnyCamera = Either[MapCamera, Camera]
"""The camera of a view."""
