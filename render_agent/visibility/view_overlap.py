"""The overlap of the surface that two views show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.render.projection import pixel_points
from render_agent.render.renderer import without_colours
from render_agent.render.viewer import Viewer
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.scene import Scene
from render_agent.visibility.coverage import mark_shown

ROWS = 96  # height in pixels of the images that are compared


@dataclass(frozen=True, eq=False)
class VisibleSurface:
    """The surface that a camera shows."""

    camera: Camera
    depth: NDArray[np.float32]  # (H, W) metres, inf where nothing was scanned
    points: FloatArray  # (n, 3) metres, one per pixel with surface

    @classmethod
    def of(cls, scene: Scene, camera: Camera, viewer: Viewer) -> VisibleSurface:
        """Draw what a camera shows. Raises RenderError if it cannot be drawn."""
        size = round(ROWS * viewer.size[0] / viewer.size[1]), ROWS
        depth = without_colours(viewer.renderer).draw(scene, camera, *size).depth
        return cls(camera, depth, pixel_points(depth, camera))

    def overlap(self, other: VisibleSurface) -> float:
        """Return the intersection over union of two visible surfaces, 0 to 1.

        It follows from the shares of pixels of each view whose surface the other view shows too.
        """
        shares = self._share_shown_by(other), other._share_shown_by(self)
        if not all(shares):
            return 0.0
        return 1 / (1 / shares[0] + 1 / shares[1] - 1)

    def _share_shown_by(self, other: VisibleSurface) -> float:
        shown = np.zeros(len(self.points), bool)
        mark_shown(shown, self.points, other.depth, other.camera)
        return float(shown.mean()) if len(shown) else 0.0
