"""The default renderer: a z-buffer on the processor, for meshes and clouds, without OpenGL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.render.projection import Projection, focal_scale, projection
from render_agent.render.rasteriser import face_colours, point_splats, zbuffer
from render_agent.render.rasteriser.blocks import (
    FACES_PER_BLOCK,
    POINTS_PER_BLOCK,
    MeshBlocks,
    mesh_blocks,
    visible,
)
from render_agent.render.rasteriser.gaussians.gpu import GpuGaussians, gpu_renderer
from render_agent.render.rasteriser.gaussians.renderer import GaussianRasteriser
from render_agent.render.rasteriser.kernels import is_kept
from render_agent.render.rasteriser.point_splats import CloudLevels, cloud_levels
from render_agent.render.renderer import BACKGROUND, Frame, check_size
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene
from render_agent.util.display import stage

ROWS_PER_BAND = 64
"""Rows of a band: what one thread draws at a time; small enough to stay in the processor's cache."""

LONE_ROWS_PER_BAND = 256
"""Rows of a band of a mesh where one thread draws alone."""

Band = tuple[int, int]


KINDS = {"mesh": "colour_faces", "cloud": "colour_points", "splat": "draw_band"}
"""Kinds of scan, each drawn by kernels of its own, with the kernel that is compiled last."""


def prepare(first_scene: Callable[[], Scene]) -> None:
    """Compile the kernels that draw a scene, where none are kept, and say so; a drawing thread would hold up Ctrl-C.

    first_scene: gives the scene; called only where kernels of some kind are not kept.
    """
    missing = [kind for kind, last in KINDS.items() if not is_kept(last)]
    if not missing:
        return
    scene = first_scene()
    kind = "cloud" if scene.is_cloud else "mesh"
    kind = kind if scene.gaussians is None else "splat"
    if kind in missing:
        with stage("compiling the renderer's kernels, once", announced=True):
            compile_kernels(kind)


class Rasteriser:
    """Draws meshes, point clouds and splats with compiled kernels (see Renderer).

    threads: how many draw at once, as many as the machine has processors unless given; the pixels
    are the same for any number. Splats are drawn on the GPU where gsplat is installed and there is one.
    The blocks of a scene are built when it is first drawn and live as
    long as the scene. `colourless` draws the same without colours, which takes half as long.
    """

    name = "rasteriser"

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self.threads, "render")
        self._splats: list[GaussianRasteriser | GpuGaussians] = []  # one, once a splat is drawn
        self._blocks: WeakKeyDictionary[Scene, MeshBlocks | CloudLevels] = WeakKeyDictionary()
        self._coloured = True

    def colourless(self) -> Rasteriser:
        """Return one that shares all with this one, and leaves the colours of a mesh's frames empty."""
        other = copy(self)
        other._coloured = False
        return other

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Return the picture of `scene` that `camera` sees, `width` × `height` pixels.

        Raises RenderError where the picture has no pixels.
        """
        check_size(width, height)
        if scene.gaussians is not None:
            if not self._splats:
                self._splats.append(gpu_renderer() or GaussianRasteriser(self._in_parts))
            return self._splats[0].draw(scene, camera, width, height)
        projected = projection(camera, width, height)
        blocks = self._blocks.get(scene)
        if blocks is None:
            blocks = self._blocks[scene] = (
                cloud_levels(scene) if scene.is_cloud else mesh_blocks(scene)
            )
        if isinstance(blocks, MeshBlocks):
            return self._mesh(blocks, projected, width, height)
        return self._cloud(blocks, projected, focal_scale(camera, height), width, height)

    prepare = staticmethod(prepare)

    def close(self) -> None:
        """End the threads and forget the blocks."""
        self._pool.shutdown()
        self._blocks.clear()
        for renderer in self._splats:
            renderer.close()

    def _mesh(self, mesh: MeshBlocks, view: Projection, width: int, height: int) -> Frame:
        seen = visible(mesh.boxes, view, width, height)
        keys, nearest, colours = _buffers(width, height)
        coloured = self._coloured

        def band(rows: Band) -> None:
            zbuffer.draw_faces(
                mesh.vertices, mesh.faces, mesh.order, mesh.first_vertex, FACES_PER_BLOCK,
                seen.blocks, seen.rectangles, seen.nearest,
                view.matrix, view.perspective, view.near, mesh.pages, *rows, keys, nearest,
            )  # fmt: skip
            if not coloured:
                zbuffer.name_faces(mesh.order, view.perspective, *rows, keys, nearest)
                return
            face_colours.colour_faces(
                mesh.vertices, mesh.colours, mesh.faces, mesh.order,
                view.matrix, view.perspective, mesh.pages, _BACKGROUND, *rows, keys, nearest, colours,
            )  # fmt: skip

        # bands are for several threads: a face that lies in two of them is projected twice
        rows = ROWS_PER_BAND if self.threads > 1 else LONE_ROWS_PER_BAND
        self._in_parts(band, height, rows)
        return Frame(colours if coloured else _NO_COLOURS, keys, nearest)

    def _cloud(
        self, cloud: CloudLevels, view: Projection, scale: float, width: int, height: int
    ) -> Frame:
        seen = visible(cloud.blocks.boxes, view, width, height)
        keys, nearest, colours = _buffers(width, height)
        other_keys, other_nearest, _ = _buffers(width, height)
        radii = cloud.blocks.radii
        step = 4 * float(np.median(radii)) if len(radii) else 0.0

        def draw(rows: Band) -> None:
            point_splats.draw_points(
                cloud.points, cloud.starts, cloud.blocks.radii, POINTS_PER_BLOCK,
                seen.blocks, seen.rectangles, seen.nearest,
                view.matrix, view.perspective, view.near, scale, *rows, keys, nearest,
            )  # fmt: skip

        def fill(rows: Band) -> None:
            point_splats.fill_gaps(
                keys, nearest, view.perspective, step, *rows, other_keys, other_nearest
            )

        def fill_again_and_colour(rows: Band) -> None:
            point_splats.fill_gaps(
                other_keys, other_nearest, view.perspective, step, *rows, keys, nearest
            )
            point_splats.colour_points(
                cloud.points, cloud.colours, cloud.order,
                view.matrix, _BACKGROUND, *rows, keys, nearest, colours,
            )  # fmt: skip

        for task in (draw, fill, fill_again_and_colour):
            self._in_parts(task, height, ROWS_PER_BAND)
        return Frame(colours, keys, nearest)

    def _in_parts(self, task: Callable[[Band], None], count: int, most: int) -> None:
        """Run `task` on parts of `count` rows or blocks, `most` in each, on the renderer's threads."""
        parts = [(first, min(first + most, count)) for first in range(0, count, most)]
        if len(parts) == 1 or self.threads == 1:
            for part in parts:
                task(part)
        else:
            list(self._pool.map(task, parts))


_BACKGROUND = np.array(BACKGROUND, np.uint8)
_NO_COLOURS = np.empty((0, 0, 3), np.uint8)


def _buffers(
    width: int, height: int
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.uint8]]:
    """Return room for depths (H, W), primitives (H, W) and colours (H, W, 3)."""
    size = (height, width)
    return np.empty(size, np.float32), np.empty(size, np.int32), np.empty((*size, 3), np.uint8)


def compile_kernels(*kinds: str) -> None:
    """Compile the kernels of these kinds of scan, of all unless given (or load them compiled), by drawing tiny ones."""
    corners = np.array([[1, -1, 0], [1, 1, 0], [1, 0, 1]], np.float32)
    bounds = np.array([corners.min(axis=0), corners.max(axis=0)], np.float64)
    plain = Scene("cloud", corners, np.full((3, 3), 128, np.uint8), None, 0.0, 1.0, bounds)
    size, turn = np.full((3, 3), 0.1, np.float32), np.full((3, 4), 0.5, np.float32)
    scenes = {
        "mesh": replace(plain, faces=np.array([[0, 1, 2]], np.int32)),
        "cloud": plain,
        "splat": replace(plain, gaussians=Gaussians(size, turn, size[0], size[:, None], np.eye(3))),
    }
    renderer = Rasteriser(threads=1)
    for kind in kinds or KINDS:
        renderer.draw(scenes[kind], Camera((0.0, 0.0, 0.5)), 8, 8)
    renderer.close()
