"""The camera: where it stands, where it looks, and which pixel shows which point.

One convention, stated here and used everywhere:

* World: right-handed, metres, z up.
* Yaw: degrees, 0 looks along +x, counter-clockwise seen from above (90 looks along +y).
* Pitch: degrees, positive looks up. There is no roll.
* Camera frame (OpenCV): x to the right of the picture, y down, z forward along the optical axis.
* Pixels: column u to the right, row v down; the centre of the top left pixel is (0.5, 0.5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from render_agent.util.safe_parse import Either, Number

Vector = tuple[Number, Number, Number]
FloatArray = NDArray[np.float64]

MAX_PITCH = 60.0
"""How far, in degrees, the camera may look up or down."""


def wrapped(degrees: float) -> float:
    """Return the same angle in [-180, 180) degrees."""
    return (degrees + 180.0) % 360.0 - 180.0


def vertical_from_horizontal(horizontal: float, width: int, height: int) -> float:
    """Return the vertical field of view, in degrees, of square pixels seen `horizontal` degrees wide."""
    half = math.tan(math.radians(horizontal) / 2) * height / width
    return math.degrees(2 * math.atan(half))


@dataclass(frozen=True, slots=True)
class Camera:
    """A perspective camera in the world (see the module for the convention).

    position: metres, world frame. yaw, pitch, vertical_fov: degrees.

    >>> Camera((0, 0, 1.6)).turned(left=45).looking_at((0, 2, 1.6)).yaw
    90.0
    """

    position: Vector
    yaw: Number = 0.0
    pitch: Annotated[float, Meta(ge=-90, le=90)] = 0.0
    vertical_fov: Annotated[float, Meta(ge=0.1, le=179.9)] = 59.84

    @property
    def forward(self) -> FloatArray:
        """The optical axis, (3,), unit length, world frame."""
        yaw, pitch = math.radians(self.yaw), math.radians(self.pitch)
        return np.array(
            [math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), math.sin(pitch)]
        )

    @property
    def pose(self) -> FloatArray:
        """The camera-to-world matrix, (4, 4); its columns are right, down, forward and position."""
        yaw, pitch = math.radians(self.yaw), math.radians(self.pitch)
        sin, cos, rise, level = math.sin(yaw), math.cos(yaw), math.sin(pitch), math.cos(pitch)
        x, y, z = self.position
        # written out: it is needed for every picture, and np.cross alone takes longer than all of it
        return np.array(
            [
                [sin, rise * cos, level * cos, x],
                [-cos, rise * sin, level * sin, y],
                [0.0, -level * cos * cos - level * sin * sin, rise, z],
                [0.0, 0.0, 0.0, 1.0],
            ]
        )

    def focal(self, height: int) -> float:
        """Return the focal length in pixels of a picture `height` pixels high (pixels are square)."""
        return height / 2 / math.tan(math.radians(self.vertical_fov) / 2)

    def intrinsics(self, width: int, height: int) -> FloatArray:
        """Return the (3, 3) matrix that takes camera coordinates to homogeneous pixels."""
        focal = self.focal(height)
        return np.array([[focal, 0, width / 2], [0, focal, height / 2], [0, 0, 1]])

    def horizontal_fov(self, width: int, height: int) -> float:
        """Return the horizontal field of view, in degrees, of a picture of this size."""
        return vertical_from_horizontal(self.vertical_fov, height, width)

    def seen(self, points: NDArray[Any]) -> FloatArray:
        """Return world `points`, (n, 3) metres, in the camera frame, (n, 3) metres."""
        offset = np.asarray(points, float) - np.asarray(self.position)
        local: FloatArray = offset @ self.pose[:3, :3]
        return local

    def project(
        self, points: NDArray[Any], width: int, height: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return where world points fall in the picture.

        points: (n, 3) metres, world frame. Returns pixels (n, 2) as (u, v), and depths (n,) in
        metres along the optical axis; a point with depth <= 0 lies behind and has no pixel (nan).
        """
        local = self.seen(points)
        depth = local[:, 2]
        focal = self.focal(height)
        with np.errstate(over="ignore", invalid="ignore"):  # a point all but beside the camera
            pixels = local[:, :2] * (focal / np.where(depth > 0, depth, np.nan))[:, None]
        return pixels + np.array([width / 2, height / 2]), depth

    def turned(self, left: float = 0.0, up: float = 0.0) -> Camera:
        """Return the camera turned `left` degrees (counter-clockwise) and `up` degrees, clamped."""
        pitch = min(max(self.pitch + up, -MAX_PITCH), MAX_PITCH)
        return replace(self, yaw=wrapped(self.yaw + left), pitch=pitch)

    def offset(self, forward: float, left: float, up: float) -> FloatArray:
        """Return a move in metres, (3,) world frame; forward and left are horizontal, whatever the pitch."""
        yaw = math.radians(self.yaw)
        return np.array(
            [
                forward * math.cos(yaw) - left * math.sin(yaw),
                forward * math.sin(yaw) + left * math.cos(yaw),
                up,
            ]
        )

    def at(self, position: NDArray[Any] | Vector) -> Camera:
        """Return the same camera standing at `position`, metres, world frame."""
        x, y, z = (float(value) for value in position)
        return replace(self, position=(x, y, z))

    def looking_at(self, point: NDArray[Any] | Vector) -> Camera:
        """Return the camera turned towards `point`, metres, world frame; pitch is clamped.

        A point straight above, below or at the camera keeps the yaw.
        """
        x, y, z = (float(p) - c for p, c in zip(point, self.position, strict=True))
        level = math.hypot(x, y)
        yaw = math.degrees(math.atan2(y, x)) if level > 1e-6 else self.yaw
        pitch = math.degrees(math.atan2(z, level)) if level > 1e-6 or z else self.pitch
        return replace(self, yaw=wrapped(yaw), pitch=min(max(pitch, -MAX_PITCH), MAX_PITCH))

    def mirrored(self, at: float | None) -> Camera:
        """Return its mirror image about the plane x = `at`, metres; itself where that is None.

        It sees in the mirror image of a scene what this one sees in the scene, left for right.
        """
        if at is None:
            return self
        x, y, z = self.position
        return replace(self, position=(2 * at - x, y, z), yaw=wrapped(180.0 - self.yaw))


@dataclass(frozen=True, slots=True)
class MapCamera:
    """An orthographic camera that looks straight down: +x to the right of the picture, +y up.

    centre: (x, y) metres, world frame, shown in the middle of the picture. height: metres, world
    frame; everything above is cut away. metres_per_pixel: the scale, the same on both axes.
    """

    centre: tuple[Number, Number]
    height: Number
    metres_per_pixel: Annotated[float, Meta(ge=1e-9, le=1e15)]

    def project(
        self, points: NDArray[Any], width: int, height: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return where world points fall in the picture.

        points: (n, 3) metres, world frame. Returns pixels (n, 2) as (u, v), and depths (n,) in
        metres below the cut; a point with depth < 0 is cut away.
        """
        points = np.asarray(points, float)
        u = (points[:, 0] - self.centre[0]) / self.metres_per_pixel + width / 2
        v = height / 2 - (points[:, 1] - self.centre[1]) / self.metres_per_pixel
        return np.column_stack([u, v]), self.height - points[:, 2]


AnyCamera = Either[MapCamera, Camera]
"""What a view was taken with."""
