"""Surface visible from a place, computed once for all headings.

Four small square images cover all directions from each place. The frustum of a camera then determines which part of
that surface it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.projection import pixel_points
from render_agent.render.renderer import Renderer, without_colours
from render_agent.scans.camera import Camera, FloatArray, Vector
from render_agent.scans.scene import Scene
from render_agent.visibility.object_visibility import pixel_angles
from render_agent.visibility.start_pose import FAR_METRES

FRAME_PIXELS = 48  # side of an image with a field of view of 90 degrees

# Side of the cubes in which surface is counted, so that near walls do not outweigh distant rooms.
PATCH_METRES = 0.15
# Surface this close to the ceiling is ignored, because no question is about it.
CEILING_METRES = 0.15
# Surface at least this far above the ceiling belongs to another storey and counts.
STOREY_METRES = 1.8
INNER_SHARE = 0.95  # fraction of the field of view that counts as shown
QUARTER_YAWS_DEGREES = (0.0, 90.0, 180.0, -90.0)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surface visible around one place, in the world frame."""

    position: Vector
    points: FloatArray  # (n, 3) metres
    angles: FloatArray  # solid angle of each point, (n,) steradians


def look_around(
    scene: Scene,
    renderer: Renderer,
    position: Vector,  # the position, in metres
    yaws: Sequence[float] = QUARTER_YAWS_DEGREES,  # headings in degrees; each covers 90 degrees
    pitch: float = 0.0,  # pitch in degrees
) -> Surroundings:
    """Return the surface visible from a position."""
    points, angles = [], []
    solid_angles = pixel_angles(FRAME_PIXELS, FRAME_PIXELS, 90.0)
    for yaw in yaws:
        camera = Camera(position, yaw, pitch, 90.0)
        frame = without_colours(renderer).draw(scene, camera, FRAME_PIXELS, FRAME_PIXELS)
        depth = frame.depth
        points.append(pixel_points(depth, camera, FAR_METRES))
        angles.append(solid_angles[(depth < FAR_METRES).ravel()])
    return Surroundings(position, np.concatenate(points), np.concatenate(angles))


@dataclass(frozen=True, eq=False)
class Frustums:
    """The frustums of cameras with the same field of view, without the edges of the image."""

    axes: NDArray[np.float32]  # right, down and forward axis of each of k cameras, (3, k, 3)
    across: float  # tangent of half the horizontal field of view
    upwards: float  # tangent of half the vertical field of view

    @classmethod
    def of(cls, cameras: Sequence[Camera], size: tuple[int, int]) -> Frustums:
        """Return the frustums of at least one camera with images of `size`, width and height in pixels."""
        axes = np.array([camera.pose[:3, :3].T for camera in cameras], np.float32)
        upwards = math.tan(math.radians(cameras[0].vertical_fov) / 2) * INNER_SHARE
        return cls(axes.swapaxes(0, 1), upwards * size[0] / size[1], upwards)

    def hold(self, offsets: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which frustums contain which points, (k, n); `offsets` are relative to the camera, (n, 3), in
        metres.
        """
        right, down, depth = self.axes @ offsets.astype(np.float32).T
        inside: NDArray[np.bool_] = np.abs(right) < self.across * depth
        inside &= np.abs(down) < self.upwards * depth
        return inside


def patches(
    surroundings: Sequence[Surroundings], ceiling: float
) -> tuple[list[NDArray[np.intp]], int]:
    """Assign surface points to patches."""
    points = np.concatenate([place.points for place in surroundings])
    cubes = np.floor(points / PATCH_METRES).astype(np.int64)
    if not len(cubes):
        return [np.empty(0, np.intp) for _ in surroundings], 0
    cubes -= cubes.min(axis=0)
    extent = cubes.max(axis=0) + 1
    keys = (cubes[:, 0] * extent[1] + cubes[:, 1]) * extent[2] + cubes[:, 2]
    at_ceiling = (points[:, 2] > ceiling - CEILING_METRES) & (
        points[:, 2] < ceiling + STOREY_METRES
    )
    keys[at_ceiling] = extent.prod()
    cubes_used, numbers = np.unique(keys, return_inverse=True)
    count = len(cubes_used) - int(cubes_used[-1] == extent.prod())
    ends = np.cumsum([len(place.points) for place in surroundings])[:-1]
    return np.split(numbers.ravel(), ends), count
