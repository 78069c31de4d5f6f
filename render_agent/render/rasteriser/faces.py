"""The faces of a mesh, checked before compiled code or a graphics card follows them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import RenderError
from render_agent.scene.model import Scene


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
