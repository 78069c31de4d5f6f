"""Computes the surface seen by cameras at one place: draws depth once in all directions, then tests it for each camera."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Renderer, without_colours
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.scene import Scene
from render_agent.visibility.coverage import mark_shown

SIDE_PIXELS = 64  # width of each of the four images around a place, which are 90 degrees wide
YAWS_DEGREES = (0.0, 90.0, 180.0, -90.0)
MAX_ELEVATION_DEGREES = 80.0  # surface steeper above or below the horizon is ignored


def visible_points(
    scene: Scene,
    renderer: Renderer,
    cameras: Sequence[Camera],  # cameras at one place with the same field of view, (k,)
    aspect: float,
    points: FloatArray,  # points of the surface, (n, 3) metres
    reach: float = math.inf,  # maximum distance in metres
) -> NDArray[np.bool_]:
    """Return which cameras see which surface points, (k, n)."""
    from render_agent.visibility.counting import mark_in_frustums

    reference = cameras[0]
    tilt = max(abs(camera.pitch) for camera in cameras)
    elevation = math.radians(min(tilt + reference.vertical_fov / 2, MAX_ELEVATION_DEGREES))
    steepness = math.sqrt(2) * math.tan(elevation)  # this elevation is also reached in the corners
    size = SIDE_PIXELS, math.ceil(SIDE_PIXELS * steepness)
    field = math.degrees(2 * math.atan(size[1] / size[0]))
    in_panorama = np.zeros(len(points), bool)
    for yaw in YAWS_DEGREES:
        side = Camera(reference.position, yaw, 0.0, field)
        depth = without_colours(renderer).draw(scene, side, *size).depth
        mark_shown(in_panorama, points, depth, side, reach)
    tangent = math.tan(math.radians(reference.vertical_fov) / 2)
    poses = np.array([camera.pose for camera in cameras])
    visible = np.zeros((len(cameras), len(points)), bool)
    mark_in_frustums(visible, in_panorama, points, poses, tangent * aspect, tangent)
    return visible
