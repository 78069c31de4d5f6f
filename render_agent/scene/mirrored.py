"""A scene mirrored left for right: a room like any other, in which left and right have changed places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from render_agent.scene.model import Scene


def mirrored(scene: Scene) -> Scene:
    """Return the mirror image of a scene about the upright plane x = the middle of its bounds.

    Its bounds, floor, ceiling and origin stay what they are; `mirrored_at` is where the plane lies.
    The mirror image of a mirror image is the scene itself, but for the rounding of float32.
    """
    low, high = (float(corner[0]) for corner in scene.bounds)
    middle = (low + high) / 2 if scene.mirrored_at is None else scene.mirrored_at
    points = scene.points.copy()
    points[:, 0] = 2 * middle - points[:, 0].astype(np.float64)
    # A mirrored face is seen from the same side only where its corners are named the other way round.
    faces = None if scene.faces is None else np.ascontiguousarray(scene.faces[:, [0, 2, 1]])
    at = middle if scene.mirrored_at is None else None
    gaussians = None if scene.gaussians is None else scene.gaussians.mirrored()
    return replace(scene, points=points, faces=faces, mirrored_at=at, gaussians=gaussians)
