"""Reference renderer: ray casting by Open3D (Embree). Exact and slow; meshes only."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.render.make_renderer import make_renderer
from render_agent.render.rasteriser.mipmaps import mip_levels
from render_agent.render.renderer import (
    BACKGROUND,
    NEAR_METRES,
    Frame,
    Renderer,
    check_size,
    valid_faces,
)
from render_agent.scans.camera import Camera, FloatArray, MapCamera
from render_agent.scans.scene import Scene
from render_agent.scans.srgb import to_linear, to_srgb
from render_agent.scans.texture import Material, Wrap, sample_bilinear

Levels = list[NDArray[np.uint8]]

RENDERERS = ("rasteriser", "pyrender", "raycast")


def renderer_by_name(name: str) -> Renderer:
    """Return the ray caster or one of the program's renderers."""
    return RayCaster() if name == "raycast" else make_renderer(name)


# Largest number of transparent texels that a ray passes through.
MAX_HOLES = 64

# Metres behind a transparent texel at which the ray continues.
BEHIND_METRES = 1e-4


class RayCaster:
    """Renders meshes with one ray per pixel (see Renderer)."""

    name = "raycast"

    def __init__(self) -> None:
        import open3d

        self._open3d: Any = open3d
        self._trees: WeakKeyDictionary[Scene, Any] = WeakKeyDictionary()
        self._levels: WeakKeyDictionary[Material, Levels] = WeakKeyDictionary()

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Render a scene."""
        check_size(width, height)
        tree = self._trees.get(scene)
        if tree is None:
            tree = self._trees[scene] = self._tree(scene)
        u, v = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        rays, near = _rays(camera, u, v, width, height)
        depth = np.full((height, width), np.float32(np.inf))
        primitive = np.full(depth.shape, -1, np.int32)
        colours = np.empty((height, width, 3), np.uint8)
        colours[:] = BACKGROUND
        pending, passed = np.arange(width * height), np.zeros(width * height, np.float32)
        for _ in range(MAX_HOLES):
            if not len(pending):
                break
            start = rays.reshape(-1, 6)[pending].astype(np.float32)
            start[:, :3] += start[:, 3:] * passed[:, None]
            hits = tree.cast_rays(self._open3d.core.Tensor(start))
            along = hits["t_hit"].numpy()
            met = np.isfinite(along)
            pending, passed = pending[met], (passed + along)[met]
            faces = hits["primitive_ids"].numpy()[met].astype(np.int32)
            shown, solid = self._shown(
                scene, faces, hits["primitive_uvs"].numpy()[met],
                camera, (u.ravel()[pending], v.ravel()[pending]), (width, height),
            )  # fmt: skip
            seen = pending[solid]
            depth.flat[seen] = passed[solid] + np.float32(near)
            primitive.flat[seen] = faces[solid]
            colours.reshape(-1, 3)[seen] = shown[solid]
            pending, passed = pending[~solid], passed[~solid] + np.float32(BEHIND_METRES)
        return Frame(colours, depth, primitive)

    def close(self) -> None:
        """Release the search trees."""
        self._trees.clear()
        self._levels.clear()

    def _shown(
        self,
        scene: Scene,
        faces: NDArray[np.int32],  # hit faces, (n,)
        uvs: NDArray[np.float32],  # barycentric coordinates of the hits, (n, 2)
        camera: Camera | MapCamera,
        pixels: tuple[FloatArray, FloatArray],  # u and v of each ray's pixel, (n,) each
        size: tuple[int, int],
    ) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """Return the colours of hits, (n, 3), and a mask of the opaque ones, (n,)."""
        colours, solid = np.empty((len(faces), 3), np.uint8), np.ones(len(faces), bool)
        if scene.faces is None or not len(faces):
            return colours, solid
        corners = scene.faces[faces]
        colours[:] = _round_to_bytes(_interpolate(scene.colours[corners], uvs))
        texture = scene.texture
        if texture is None:
            return colours, solid
        for number, material in enumerate(texture.materials):
            mine = np.flatnonzero(texture.face_materials[faces] == number)
            if material.image is None or not len(mine):
                continue
            places = texture.uv[corners[mine]]
            at, detail = _interpolate(places, uvs[mine]), np.zeros(len(mine))
            height, width = material.image.shape[:2]
            for across, down in ((0.5, 0.0), (0.0, 0.5)):
                ends = []
                for sign in (-1, 1):
                    u, v = pixels[0][mine] + sign * across, pixels[1][mine] + sign * down
                    rays, _ = _rays(camera, u, v, *size)
                    ends.append(_interpolate(places, _intersect(rays, scene.points[corners[mine]])))
                with np.errstate(invalid="ignore", over="ignore"):
                    steps = (ends[1] - ends[0]) * (width, height)
                    detail = np.fmax(detail, (steps**2).sum(axis=1))
            if material not in self._levels:
                self._levels[material] = mip_levels(material)
            levels = self._levels[material]
            texels = _trilinear(
                levels, material.wrap, at, 0.5 * np.log2(np.clip(detail, 1.0, 1e30))
            )
            if material.alpha_cutoff is not None:
                solid[mine] = texels[:, 3] >= 255 * material.alpha_cutoff
            if texture.vertex_tints is None:
                colours[mine] = _round_to_bytes(texels[:, :3])
            else:
                tints = _interpolate(texture.vertex_tints[corners[mine]], uvs[mine])
                colours[mine] = to_srgb(to_linear(texels[:, :3] / 255) * to_linear(tints / 255))
        return colours, solid

    def _tree(self, scene: Scene) -> Any:
        faces = valid_faces(scene)
        tree = self._open3d.t.geometry.RaycastingScene()
        if len(faces):
            tensor = self._open3d.core.Tensor
            tree.add_triangles(
                tensor(np.ascontiguousarray(scene.points, np.float32)),
                tensor(np.ascontiguousarray(faces, np.uint32)),
            )
        return tree


def _rays(
    camera: Camera | MapCamera, u: FloatArray, v: FloatArray, width: int, height: int
) -> tuple[FloatArray, float]:
    """Return rays through pixels (u, v), (…, 6) origins and directions, and the depth of the origins.

    Directions span one metre of depth, so that a ray's parameter is depth.
    """
    if isinstance(camera, MapCamera):
        x = camera.centre[0] + (u - width / 2) * camera.metres_per_pixel
        y = camera.centre[1] - (v - height / 2) * camera.metres_per_pixel
        down = np.broadcast_to([0.0, 0.0, -1.0], (*u.shape, 3))
        origins = np.stack([x, y, np.full_like(x, camera.height)], axis=-1)
        return np.concatenate([origins, down], axis=-1), 0.0
    focal = camera.focal(height)
    local = np.stack([(u - width / 2) / focal, (v - height / 2) / focal, np.ones_like(u)], axis=-1)
    directions = local @ camera.pose[:3, :3].T
    origins = np.asarray(camera.position) + directions * NEAR_METRES
    return np.concatenate([origins, directions], axis=-1), NEAR_METRES


def _interpolate(corners: NDArray[Any], uvs: NDArray[Any]) -> FloatArray:
    """Interpolate corner values, (n, 3, k), at barycentric coordinates, (n, 2); returns (n, k)."""
    weights = np.column_stack([1 - uvs.sum(axis=1), uvs])
    blended: FloatArray = np.einsum("nc,nck->nk", weights, corners.astype(np.float64))
    return blended


def _round_to_bytes(levels: FloatArray) -> NDArray[np.uint8]:
    return np.asarray(np.floor(np.clip(levels, 0, 255) + 0.5), np.uint8)


def _intersect(rays: FloatArray, corners: NDArray[np.float32]) -> FloatArray:
    """Return the barycentric coordinates, (n, 2), at which rays, (n, 6), intersect the planes of faces, (n, 3, 3)."""
    a, b, c = (corners[:, i].astype(np.float64) for i in range(3))
    origins, directions = rays[:, :3], rays[:, 3:]
    across = np.cross(directions, c - a)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1 / ((b - a) * across).sum(axis=1)
        first = ((origins - a) * across).sum(axis=1) * scale
        second = (directions * np.cross(origins - a, b - a)).sum(axis=1) * scale
    return np.column_stack([first, second])


def _trilinear(
    levels: Levels, wrap: tuple[Wrap, Wrap], places: FloatArray, detail: FloatArray
) -> FloatArray:
    """Sample texels, (n, 4), at positions (n, 2), between the mip levels given by `detail`, (n,)."""
    texels = np.empty((len(places), 4))
    detail = np.clip(detail, 0, len(levels) - 1)
    whole = np.minimum(detail.astype(np.int64), max(len(levels) - 2, 0))
    for level in np.unique(whole):
        here = whole == level
        finer = sample_bilinear(levels[level], places[here], wrap)
        coarser = sample_bilinear(levels[min(level + 1, len(levels) - 1)], places[here], wrap)
        texels[here] = finer + (detail[here] - level)[:, None] * (coarser - finer)
    return texels
