"""What can be seen from places: surface in patches, found once for all headings.

From every place four small square frames look all around; which of the surface in them a camera
with some heading shows follows from its frustum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.camera import Camera, FloatArray, Vector
from render_agent.render.seam import Renderer
from render_agent.render.start import surface
from render_agent.scene.model import Scene

SIDE = 48
"""Pixels on a side of a frame, which sees 90 degrees."""

PATCH = 0.15
"""Metres: surface is counted in cubes of this size, so that near walls do not outweigh far rooms."""

CEILING = 0.15
"""Metres: surface this near to the scene's ceiling is not counted, as nothing is asked about it."""

EDGE = 0.95
"""Of half a picture: what lies farther out is not counted as shown."""

QUARTERS = (0.0, 90.0, 180.0, -90.0)


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The surface around one place. points: (n, 3) metres, world frame; patches: (n,) their numbers."""

    position: Vector
    points: FloatArray
    patches: NDArray[np.int64]

    def shown(self, camera: Camera, size: tuple[int, int]) -> NDArray[np.int64]:
        """Return the patches that a camera at this place shows in a picture of `size`, with repeats."""
        return self.patches[inside(camera, self.points, size)]


def inside(camera: Camera, points: FloatArray, size: tuple[int, int]) -> NDArray[np.bool_]:
    """Return which points, (n, 3) metres, lie within the picture of `size`, clear of its edges."""
    local = camera.seen(points)
    upwards = math.tan(math.radians(camera.vertical_fov) / 2) * EDGE
    across = upwards * size[0] / size[1]
    depth = local[:, 2]
    found: NDArray[np.bool_] = (
        (depth > 0) & (abs(local[:, 0]) < across * depth) & (abs(local[:, 1]) < upwards * depth)
    )
    return found


def look_around(
    scene: Scene, renderer: Renderer, positions: Sequence[Vector]
) -> tuple[list[Surroundings], int]:
    """Return what can be seen from each position, (3,) metres, and how many patches there are.

    RenderError where the scene cannot be drawn.
    """
    seen = [_points(scene, renderer, position) for position in positions]
    cubes = np.floor(np.concatenate(seen) / PATCH).astype(np.int64)
    if not len(cubes):
        return [
            Surroundings(p, s, np.empty(0, np.int64)) for p, s in zip(positions, seen, strict=True)
        ], 0
    cubes -= cubes.min(axis=0)
    extent = cubes.max(axis=0) + 1
    keys = (cubes[:, 0] * extent[1] + cubes[:, 1]) * extent[2] + cubes[:, 2]
    known, numbers = np.unique(keys, return_inverse=True)
    ends = np.cumsum([len(points) for points in seen])[:-1]
    parts = np.split(numbers.ravel(), ends)
    found = [Surroundings(*parts) for parts in zip(positions, seen, parts, strict=True)]
    return found, len(known)


def _points(scene: Scene, renderer: Renderer, position: Vector) -> FloatArray:
    """Return the surface seen from a position, (n, 3) metres, without the ceiling."""
    found = []
    for yaw in QUARTERS:
        camera = Camera(position, yaw, 0.0, 90.0)
        found.append(surface(renderer.draw(scene, camera, SIDE, SIDE).depth, camera))
    points = np.concatenate(found)
    return points[points[:, 2] < scene.ceiling - CEILING]
