"""The protocol of renderers: a scene, a camera and a picture size become a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import RenderError
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.scene import Scene

BACKGROUND = (216, 219, 224)
"""The colour of a pixel in which nothing was scanned."""

NEAR_METRES = 0.05
"""Nothing nearer to the camera than this, in metres along the optical axis, is drawn."""


@dataclass(frozen=True, eq=False)
class Frame:
    """What a renderer drew.

    colours: (H, W, 3) uint8, the unlit vertex colours, BACKGROUND where nothing is. depth: (H, W)
    float32, metres along the optical axis (below the cut for a MapCamera), inf where nothing is.
    primitive: (H, W) int32, index of the face (mesh) or point (cloud) under the pixel, -1 where
    nothing is; None from a renderer that does not know it.
    """

    colours: NDArray[np.uint8]
    depth: NDArray[np.float32]
    primitive: NDArray[np.int32] | None = None


def refuse_splat(scene: Scene) -> None:
    """Raise RenderError where a scene is a splat, which only the default renderer draws as one."""
    if scene.gaussians is not None:
        raise RenderError(
            f"{scene.id} is a splat, which this renderer cannot draw; use the renderer rasteriser."
        )


def check_size(width: int, height: int) -> None:
    """Raise RenderError where a picture of this size, in pixels, has no pixels."""
    if width < 1 or height < 1:
        raise RenderError(f"A picture of {width}x{height} pixels cannot be drawn.")


def sound_faces(scene: Scene) -> NDArray[np.int32]:
    """Return the faces of a mesh, (m, 3) int32, all within its points.

    Raises RenderError where a face names a vertex that the scene does not have, and for a cloud.
    """
    if scene.faces is None:
        raise RenderError(
            f"{scene.id} is a point cloud, which this renderer cannot draw; "
            "use the renderer rasteriser."
        )
    faces = np.ascontiguousarray(scene.faces, np.int32)
    if len(faces) and (faces.min() < 0 or faces.max() >= len(scene.points)):
        raise RenderError(
            f"{scene.id} has faces that name vertices which it does not have; "
            "export the scan again."
        )
    return faces


class Renderer(Protocol):
    """Draws scenes; made once a process, used by one thread at a time.

    Pictures depend on scene, camera and size alone: not on what was drawn before, nor on how many
    threads draw.
    """

    name: str

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees. RenderError where it cannot be drawn."""
        ...

    def close(self) -> None:
        """Free its memory; it draws no more."""
        ...


def colourless(renderer: Renderer) -> Renderer:
    """Return a renderer that shares all with this one and may leave the colours of frames empty; itself where it cannot."""
    made: Renderer = getattr(renderer, "colourless", lambda: renderer)()
    return made
