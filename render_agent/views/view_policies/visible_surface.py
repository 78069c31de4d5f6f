"""What can be seen from places: their surroundings, found once for all headings.

From every place four small square frames look all around; which of the surface in them a camera
with some heading shows follows from its frustum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Renderer
from render_agent.render.start_pose import FAR_METRES, surface
from render_agent.render.visibility.object_visibility import pixel_angles
from render_agent.scans.camera import Camera, FloatArray, Vector
from render_agent.scans.scene import Scene

FRAME_PIXELS = 48
"""Pixels on a side of a frame, which sees 90 degrees."""

PATCH_METRES = 0.15
"""Metres: surface is counted in cubes of this size, so that near walls do not outweigh far rooms."""

CEILING_METRES = 0.15
"""Metres: surface this near to the scene's ceiling is not counted, as nothing is asked about it."""

STOREY_METRES = 1.8
"""Metres: surface this far above the ceiling belongs to another storey and is counted."""

INNER_SHARE = 0.95
"""Of half a picture: what lies farther out is not counted as shown."""

QUARTER_YAWS_DEGREES = (0.0, 90.0, 180.0, -90.0)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surface seen around one place, in metres, world frame.

    points: (n, 3) metres. angles: (n,) steradians, the solid angle of each.
    """

    position: Vector
    points: FloatArray
    angles: FloatArray


def look_around(
    scene: Scene,
    renderer: Renderer,
    position: Vector,
    yaws: Sequence[float] = QUARTER_YAWS_DEGREES,
    pitch: float = 0.0,
) -> Surroundings:
    """Return what can be seen from a position in some directions, 90 degrees each.

    RenderError where the scene cannot be drawn.
    """
    points, angles = [], []
    each = pixel_angles(FRAME_PIXELS, FRAME_PIXELS, 90.0)
    for yaw in yaws:
        camera = Camera(position, yaw, pitch, 90.0)
        depth = renderer.draw(scene, camera, FRAME_PIXELS, FRAME_PIXELS).depth
        points.append(surface(depth, camera))
        angles.append(each[(depth < FAR_METRES).ravel()])
    return Surroundings(position, np.concatenate(points), np.concatenate(angles))


@dataclass(frozen=True, eq=False)
class Frustums:
    """What cameras of one field of view hold, wherever they stand; their edges are left out.

    axes: (3, k, 3), the right, the down and the forward axis of each. across, upwards: tangents.
    """

    axes: NDArray[np.float32]
    across: float
    upwards: float

    @classmethod
    def of(cls, cameras: Sequence[Camera], size: tuple[int, int]) -> Frustums:
        """Return the frustums of cameras, at least one, whose pictures have `size`, width and height."""
        axes = np.array([camera.pose[:3, :3].T for camera in cameras], np.float32)
        upwards = math.tan(math.radians(cameras[0].vertical_fov) / 2) * INNER_SHARE
        return cls(axes.swapaxes(0, 1), upwards * size[0] / size[1], upwards)

    def hold(self, offsets: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which frustum holds which point, (k, n); offsets: (n, 3) metres from the cameras."""
        right, down, depth = self.axes @ offsets.astype(np.float32).T
        held: NDArray[np.bool_] = np.abs(right) < self.across * depth
        held &= np.abs(down) < self.upwards * depth
        return held


def patches(around: Sequence[Surroundings], ceiling: float) -> tuple[list[NDArray[np.intp]], int]:
    """Return the number of the patch that each point of each place lies in, and how many there are.

    ceiling: metres; the points at it are in the last patch, which is not among those counted.
    """
    points = np.concatenate([each.points for each in around])
    cubes = np.floor(points / PATCH_METRES).astype(np.int64)
    if not len(cubes):
        return [np.empty(0, np.intp) for _ in around], 0
    cubes -= cubes.min(axis=0)
    extent = cubes.max(axis=0) + 1
    keys = (cubes[:, 0] * extent[1] + cubes[:, 1]) * extent[2] + cubes[:, 2]
    at_ceiling = (points[:, 2] > ceiling - CEILING_METRES) & (
        points[:, 2] < ceiling + STOREY_METRES
    )
    keys[at_ceiling] = extent.prod()
    known, numbers = np.unique(keys, return_inverse=True)
    count = len(known) - int(known[-1] == extent.prod())
    ends = np.cumsum([len(each.points) for each in around])[:-1]
    return np.split(numbers.ravel(), ends), count
