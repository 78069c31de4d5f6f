"""The default renderer: a CPU z-buffer for meshes, clouds and splats, without OpenGL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from threading import Lock
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
    visible_boxes,
)
from render_agent.render.rasteriser.gaussians.gpu import GpuGaussians, gpu_renderer
from render_agent.render.rasteriser.gaussians.renderer import GaussianRasteriser
from render_agent.render.rasteriser.kernels import is_cached
from render_agent.render.rasteriser.point_splats import CloudLevels, cloud_levels
from render_agent.render.renderer import BACKGROUND, Frame, Renderer, check_size
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene
from render_agent.util.display import stage

ROWS_PER_BAND = 64  # rows that one thread draws at a time; small enough to stay in the CPU cache
LONE_ROWS_PER_BAND = 256  # the same for a mesh that is drawn by a single thread

Band = tuple[int, int]


# kind of scan -> name of a kernel that is only in the cache if such a scan was drawn in colour
KINDS = {"mesh": "colour_faces", "cloud": "colour_points", "splat": "draw_band"}


def prepare(first_scene: Callable[[], Scene]) -> None:
    """Compile the kernels for a scene with a progress message, if they are not cached.

    Call it before the run, because compilation in a drawing thread would delay Ctrl-C.
    """
    missing_kinds = [kind for kind, kernel_name in KINDS.items() if not is_cached(kernel_name)]
    if not missing_kinds:
        return
    scene = first_scene()
    kind = "cloud" if scene.is_cloud else "mesh"
    kind = kind if scene.gaussians is None else "splat"
    if kind in missing_kinds:
        with stage("compiling the renderer's kernels (first use only)", announce=True):
            compile_kernels(kind)


class Rasteriser(Renderer):
    """Draws meshes, point clouds and splats with compiled kernels; see `Renderer`. Thread-safe.

    A scene's blocks are built when it is first drawn, and freed with the scene. Splats are drawn on the GPU if gsplat
    is installed and works. `colourless` draws the same frames without colours in half the time.
    """

    name = "rasteriser"

    def __init__(
        self,
        # number of drawing threads; None uses all CPUs. Pixels do not depend on it.
        threads: int | None = None,
    ) -> None:
        self.threads = threads or os.cpu_count() or 1
        self._pool = ThreadPoolExecutor(self.threads, "render")
        self._splats: list[GaussianRasteriser | GpuGaussians] = []  # created with the first splat
        self._blocks: WeakKeyDictionary[Scene, MeshBlocks | CloudLevels] = WeakKeyDictionary()
        self._building = Lock()
        self._coloured = True

    def colourless(self) -> Rasteriser:
        """Return a renderer that shares this one's state and omits the colours of a mesh's frames."""
        renderer = copy(self)
        renderer._coloured = False
        return renderer

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        check_size(width, height)
        if scene.gaussians is not None:
            with self._building:  # the splat renderer reuses its buffers
                if not self._splats:
                    self._splats.append(gpu_renderer() or GaussianRasteriser(self._run_in_parts))
                return self._splats[0].draw(scene, camera, width, height)
        view = projection(camera, width, height)
        with self._building:
            blocks = self._blocks.get(scene)
            if blocks is None:
                blocks = self._blocks[scene] = (
                    cloud_levels(scene) if scene.is_cloud else mesh_blocks(scene)
                )
        if isinstance(blocks, MeshBlocks):
            return self._mesh(blocks, view, width, height)
        return self._cloud(blocks, view, focal_scale(camera, height), width, height)

    prepare = staticmethod(prepare)

    def close(self) -> None:
        """Stop the threads and drop the blocks."""
        self._pool.shutdown()
        self._blocks.clear()
        for renderer in self._splats:
            renderer.close()

    def _mesh(self, mesh: MeshBlocks, view: Projection, width: int, height: int) -> Frame:
        visible = visible_boxes(mesh.boxes, view, width, height)
        keys, nearest, colours = _buffers(width, height)
        with_colours = self._coloured

        def band(rows: Band) -> None:
            zbuffer.draw_faces(
                mesh.vertices, mesh.faces, mesh.order, mesh.first_vertex, FACES_PER_BLOCK,
                visible.blocks, visible.rectangles, visible.nearest,
                view.matrix, view.perspective, view.near, mesh.pages, *rows, keys, nearest,
            )  # fmt: skip
            if with_colours:
                face_colours.colour_faces(
                    mesh.vertices, mesh.colours, mesh.faces, view.matrix, mesh.pages, _BACKGROUND,
                    *rows, nearest, colours,
                )  # fmt: skip
            zbuffer.name_faces(mesh.order, view.perspective, *rows, keys, nearest)

        # With one thread, use fewer bands, because faces in two bands are projected twice.
        rows = ROWS_PER_BAND if self.threads > 1 else LONE_ROWS_PER_BAND
        self._run_in_parts(band, height, rows)
        return Frame(colours if with_colours else _NO_COLOURS, keys, nearest)

    def _cloud(
        self, cloud: CloudLevels, view: Projection, scale: float, width: int, height: int
    ) -> Frame:
        visible = visible_boxes(cloud.boxes, view, width, height)
        keys, nearest, colours = _buffers(width, height)
        other_keys, other_nearest, _ = _buffers(width, height)
        median = float(np.median(cloud.radii)) if len(cloud.radii) else 0.0
        step, typical = 4 * median, point_splats.TYPICAL_RADII * median

        def draw(rows: Band) -> None:
            point_splats.draw_points(
                cloud.points, cloud.normals, cloud.starts, cloud.radii, typical, POINTS_PER_BLOCK,
                visible.blocks, visible.rectangles, visible.nearest,
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
            self._run_in_parts(task, height, ROWS_PER_BAND)
        return Frame(colours, keys, nearest)

    def _run_in_parts(self, task: Callable[[Band], None], count: int, part_size: int) -> None:
        """Run `task` on ranges of `count` rows or blocks, at most `part_size` each, on the renderer's threads."""
        parts = [(first, min(first + part_size, count)) for first in range(0, count, part_size)]
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
    """Return uninitialised depths (H, W), primitives (H, W) and colours (H, W, 3)."""
    size = (height, width)
    return np.empty(size, np.float32), np.empty(size, np.int32), np.empty((*size, 3), np.uint8)


def compile_kernels(*kinds: str) -> None:
    """Compile the kernels for these kinds of scan (by default, all) by drawing tiny scenes, or load them from the
    cache.
    """
    corners = np.array([[1, -1, 0], [1, 1, 0], [1, 0, 1]], np.float32)
    bounds = np.array([corners.min(axis=0), corners.max(axis=0)], np.float64)
    plain = Scene("cloud", corners, np.full((3, 3), 128, np.uint8), None, 0.0, 1.0, bounds)
    nine_points = np.tile(corners, (3, 1))  # enough to measure a point spacing
    size, turn = np.full((3, 3), 0.1, np.float32), np.full((3, 4), 0.5, np.float32)
    scenes = {
        "mesh": replace(plain, faces=np.array([[0, 1, 2]], np.int32)),
        "cloud": replace(plain, points=nine_points, colours=np.full((9, 3), 128, np.uint8)),
        "splat": replace(plain, gaussians=Gaussians(size, turn, size[0], size[:, None], np.eye(3))),
    }
    renderer = Rasteriser(threads=1)
    for kind in kinds or KINDS:
        renderer.draw(scenes[kind], Camera((0.0, 0.0, 0.5)), 8, 8)
    renderer.close()
