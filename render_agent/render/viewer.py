"""What the model sees: the camera's view, the map, and all four directions at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.render.around import draw_around
from render_agent.render.map_view.map_view import TopView
from render_agent.render.renderer import Renderer
from render_agent.render.subprocess_renderer import SubprocessRenderer
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.scene import Scene


@dataclass(frozen=True, eq=False)
class Picture:
    """A view as it was drawn, before it has a number and a file.

    picture: (H, W, 3) uint8. depth: (H, W) float32, metres along the optical axis, inf where nothing
    is; None where what is shown is more than one camera's view. camera: what it was taken with (for
    `around`, the direction ahead). kind: ego, top or around.
    """

    picture: NDArray[np.uint8]
    depth: NDArray[np.float32] | None
    camera: Camera | MapCamera
    kind: str


class Viewer:
    """Draws every kind of view with one renderer at one size; like it, used by one thread at a time.

    size: width and height in pixels. horizontal_fov: of the camera's view, degrees.
    """

    def __init__(self, renderer: Renderer, size: tuple[int, int], horizontal_fov: float) -> None:
        self.renderer = renderer
        self.size = size
        self.vertical_fov = vertical_from_horizontal(horizontal_fov, *size)
        self._top = TopView(renderer, size)

    def draw(
        self, kind: str, scene: Scene, camera: Camera, trail: Sequence[Camera] = ()
    ) -> Picture:
        """Return the view of that kind: ego, top or around. RenderError where it cannot be drawn.

        trail: where the camera stood, oldest first.
        """
        if kind == "top":
            return self.top(scene, camera, trail)
        return self.around(scene, camera) if kind == "around" else self.ego(scene, camera)

    def stop(self) -> None:
        """End a renderer that has a process of its own, at once; may be called from any thread."""
        if isinstance(self.renderer, SubprocessRenderer):
            self.renderer.stop()

    def close(self) -> None:
        """Give back what the renderer holds."""
        self.renderer.close()

    def ego(self, scene: Scene, camera: Camera) -> Picture:
        """Return what the camera sees, with nothing drawn over it. RenderError where it cannot be drawn."""
        frame = self.renderer.draw(scene, camera, *self.size)
        return Picture(frame.colours, frame.depth, camera, "ego")

    def top(self, scene: Scene, camera: Camera | None, trail: Sequence[Camera] = ()) -> Picture:
        """Return the map with the camera and its trail. RenderError where it cannot be drawn.

        trail: where the camera stood, oldest first; it may end with `camera`.
        """
        picture, shown = self._top.draw(scene, camera, trail)
        return Picture(picture, None, shown, "top")

    def map_camera(self, scene: Scene, camera: Camera | None) -> MapCamera:
        """Return the camera of the map of the storey in which `camera` stands (None: the lowest)."""
        return self._top.camera_of(scene, camera)

    def around(self, scene: Scene, camera: Camera) -> Picture:
        """Return the views ahead, right, left and behind. RenderError where they cannot be drawn."""
        picture, ahead = draw_around(self.renderer, scene, camera, self.size)
        return Picture(picture, None, ahead, "around")
