"""Ray casting by Open3D (Embree): slow, for meshes only, exact: the reference for tests of the others."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.camera import Camera, FloatArray, MapCamera
from render_agent.render.base import BACKGROUND, NEAR_METRES, Frame, check_size
from render_agent.render.rasteriser.faces import sound_faces
from render_agent.scene.model import Scene


class RayCaster:
    """Draws meshes by one ray a pixel (see Renderer)."""

    name = "raycast"

    def __init__(self) -> None:
        import open3d

        self._open3d: Any = open3d
        self._trees: WeakKeyDictionary[Scene, Any] = WeakKeyDictionary()

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees, `width` × `height` pixels.

        Raises RenderError for a point cloud, and for faces that name vertices which do not exist
        (Open3D would end the process).
        """
        check_size(width, height)
        tree = self._trees.get(scene)
        if tree is None:
            tree = self._trees[scene] = self._tree(scene)
        rays, near = _rays(camera, width, height)
        hits = tree.cast_rays(self._open3d.core.Tensor(rays))
        depth = hits["t_hit"].numpy() + np.float32(near)
        seen = np.isfinite(depth)
        primitive = np.full(depth.shape, -1, np.int32)
        primitive[seen] = hits["primitive_ids"].numpy()[seen]
        colours = np.empty((height, width, 3), np.uint8)
        colours[:] = BACKGROUND
        colours[seen] = _colours(scene, primitive[seen], hits["primitive_uvs"].numpy()[seen])
        return Frame(colours, depth, primitive)

    def close(self) -> None:
        """Forget the search trees."""
        self._trees.clear()

    def _tree(self, scene: Scene) -> Any:
        faces = sound_faces(scene)
        tree = self._open3d.t.geometry.RaycastingScene()
        if len(faces):
            tensor = self._open3d.core.Tensor
            tree.add_triangles(
                tensor(np.ascontiguousarray(scene.points, np.float32)),
                tensor(np.ascontiguousarray(faces, np.uint32)),
            )
        return tree


def _rays(camera: Camera | MapCamera, width: int, height: int) -> tuple[NDArray[np.float32], float]:
    """Return a ray for each pixel, (H, W, 6): origin and direction; and the depth of the origins.

    Directions are one metre of depth long, so that a ray's parameter is depth.
    """
    u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    if isinstance(camera, MapCamera):
        x = camera.centre[0] + (u - width / 2) * camera.metres_per_pixel
        y = camera.centre[1] - (v - height / 2) * camera.metres_per_pixel
        down = np.broadcast_to([0.0, 0.0, -1.0], (height, width, 3))
        origins = np.stack([x, y, np.full_like(x, camera.height)], axis=-1)
        return np.concatenate([origins, down], axis=-1).astype(np.float32), 0.0
    focal = camera.focal(height)
    local = np.stack([(u - width / 2) / focal, (v - height / 2) / focal, np.ones_like(u)], axis=-1)
    directions = local @ camera.pose[:3, :3].T
    origins = np.asarray(camera.position) + directions * NEAR_METRES
    return np.concatenate([origins, directions], axis=-1).astype(np.float32), NEAR_METRES


def _colours(scene: Scene, faces: NDArray[np.int32], uvs: FloatArray) -> NDArray[np.uint8]:
    """Return the vertex colours interpolated at (n, 2) barycentric coordinates on (n,) faces."""
    if scene.faces is None or not len(faces):
        return np.empty((0, 3), np.uint8)
    corners = scene.colours[scene.faces[faces]].astype(np.float32)
    weights = np.column_stack([1 - uvs.sum(axis=1), uvs])
    blended = np.einsum("nc,nck->nk", weights, corners)
    return np.asarray(np.floor(np.clip(blended, 0, 255) + 0.5), np.uint8)
