"""The renderer protocol: draws a scene for a camera and an image size, and returns a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import RenderError
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.scene import Scene

BACKGROUND = (216, 219, 224)  # RGB of pixels where nothing was scanned
NEAR_METRES = 0.05  # near plane; nothing closer along the optical axis is drawn


@dataclass(frozen=True, eq=False)
class Frame:
    """The output of a renderer."""

    colours: NDArray[np.uint8]
    """(H, W, 3) uint8, unlit surface colours; BACKGROUND where nothing was scanned."""
    depth: NDArray[np.float32]
    """(H, W) float32, metres along the optical axis (below the cut for a `MapCamera`); inf where nothing was
    scanned.
    """
    primitive: NDArray[np.int32] | None = None
    """(H, W) int32, index of the face (mesh) or point (cloud) at each pixel, -1 where nothing was scanned;
    None if the renderer does not provide it.
    """


def reject_splat(scene: Scene) -> None:
    """Raise RenderError if a scene is a splat, which only the default renderer supports."""
    if scene.gaussians is not None:
        raise RenderError(
            f"{scene.id} is a splat, which this renderer does not support; use --renderer rasteriser"
        )


def check_size(width: int, height: int) -> None:
    """Raise RenderError if an image of this size would have no pixels."""
    if width < 1 or height < 1:
        raise RenderError(f"cannot draw an image of {width}x{height} pixels")


def valid_faces(scene: Scene) -> NDArray[np.int32]:
    """Return the faces of a mesh, (m, 3) int32, with valid vertex indices."""
    if scene.faces is None:
        raise RenderError(
            f"{scene.id} is a point cloud, which this renderer does not support; use --renderer"
            " rasteriser"
        )
    faces = np.ascontiguousarray(scene.faces, np.int32)
    if len(faces) and (faces.min() < 0 or faces.max() >= len(scene.points)):
        raise RenderError(
            f"{scene.id} has faces that refer to vertices that do not exist; export the scan again"
        )
    return faces


class Renderer(Protocol):
    """Draws scenes. A renderer is created once per process and used by one thread at a time.

    Frames must depend only on scene, camera and size, not on earlier calls or the number of threads.

    Attributes:
        name: Value of `--renderer`.
    """

    name: str

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Draw the scene as seen by the camera.

        Args:
            scene: Mesh, point cloud or splat in metres, z up.
            camera: Perspective camera, or the orthographic camera of a map.
            width: Image width in pixels.
            height: Image height in pixels.

        Returns:
            Colours, depths and, if available, primitives of the pixels.

        Raises:
            RenderError: The scene cannot be drawn; only the affected question fails.
        """
        ...

    def stop(self) -> None:
        """Stop a running `draw` from another thread, if possible; by default, it is completed."""
        return

    def close(self) -> None:
        """Release all resources. `draw` is not called afterwards."""
        ...


def without_colours(renderer: Renderer) -> Renderer:
    """Return a renderer that shares its state with this one and, if supported, omits the colours of frames."""
    colourless_renderer: Renderer = getattr(renderer, "colourless", lambda: renderer)()
    return colourless_renderer
