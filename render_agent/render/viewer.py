"""Draws the views that a model sees: the camera's view, the map, and all four directions in one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.render.around import draw_around
from render_agent.render.map_view.map_view import TopView
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.scene import Scene


@dataclass(frozen=True, eq=False)
class RenderedView:
    """A rendered view without number and file name."""

    image: NDArray[np.uint8]
    depth: NDArray[np.float32] | None
    camera: Camera | MapCamera
    kind: str


class Viewer:
    """Draws views of all kinds with one renderer at one size. Use it in one thread at a time."""

    def __init__(
        self,
        renderer: Renderer,  # draws the frames
        size: tuple[int, int],  # width and height of the views in pixels
        horizontal_fov: float,  # field of view of the camera's view in degrees
    ) -> None:
        self.renderer = renderer
        self.size = size
        self.vertical_fov = vertical_from_horizontal(horizontal_fov, *size)
        self._top = TopView(renderer, size)

    def draw(
        self,
        kind: str,
        scene: Scene,
        camera: Camera,
        trail: Sequence[Camera] = (),  # earlier cameras, oldest first
    ) -> RenderedView:
        if kind == "top":
            return self.top(scene, camera, trail)
        return {"ego": self.ego, "around": self.around}[kind](scene, camera)

    def stop(self) -> None:
        """Stop a view that is being drawn, if the renderer can. Thread-safe."""
        self.renderer.stop()

    def close(self) -> None:
        self.renderer.close()

    def ego(self, scene: Scene, camera: Camera) -> RenderedView:
        """Draw the camera's view without overlays. Raises RenderError if it cannot be drawn."""
        frame = self.renderer.draw(scene, camera, *self.size)
        return RenderedView(frame.colours, frame.depth, camera, "ego")

    def top(
        self,
        scene: Scene,
        camera: Camera | None,  # current camera; None draws the lowest storey without a camera
        trail: Sequence[Camera] = (),  # earlier cameras, oldest first; may end with `camera`
    ) -> RenderedView:
        """Draw the map with the camera and its trail."""
        image, map_camera = self._top.draw(scene, camera, trail)
        return RenderedView(image, None, map_camera, "top")

    def map_camera(self, scene: Scene, camera: Camera | None) -> MapCamera:
        """Return the map camera for the storey that contains `camera`; the lowest if None."""
        return self._top.camera_of(scene, camera)

    def around(self, scene: Scene, camera: Camera) -> RenderedView:
        """Draw the views ahead, right, left and behind. Raises RenderError if they cannot be drawn."""
        image, ahead = draw_around(self.renderer, scene, camera, self.size)
        return RenderedView(image, None, ahead, "around")
