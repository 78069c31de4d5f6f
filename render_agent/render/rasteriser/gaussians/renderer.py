"""Draws splats on the CPU: projects the visible Gaussians, sorts them by depth, and blends them in bands of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.render.projection import Projection, projection
from render_agent.render.rasteriser.blocks import visible_boxes
from render_agent.render.rasteriser.gaussians.blending import draw_band
from render_agent.render.rasteriser.gaussians.ewa import MIN_ALPHA, RECORD, covariances, project
from render_agent.render.rasteriser.morton import grid_of, point_codes, sorted_order
from render_agent.render.renderer import BACKGROUND, Frame
from render_agent.scans.camera import Camera, FloatArray, MapCamera
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene

GAUSSIANS_PER_BLOCK = 256

BLOCKS_PER_TASK = 64  # blocks projected at a time
ROWS_PER_BAND = 32  # rows that one thread draws at a time; a multiple of the tile size
# Margin that is also projected, because the low-pass filter widens Gaussians by up to this much.
MARGIN_PIXELS = 4

InBands = Callable[[Callable[[tuple[int, int]], None], int, int], None]
"""Runs a task on ranges of items, of limited size, on a renderer's threads: (task, number of items, maximum size)."""


@dataclass(frozen=True, eq=False)
class GaussianBlocks:
    """The Gaussians of a scene in blocks of GAUSSIANS_PER_BLOCK (the last may have fewer)."""

    points: NDArray[np.float32]  # (n, 3) float32, metres, world frame
    covariances: NDArray[np.float32]  # (n, 6) float32, square metres
    opacities: NDArray[np.float32]  # (n,) float32
    order: NDArray[np.int32]  # (n,) int32, the scene's index of each
    boxes: FloatArray
    """(b, 6) float64, bounding boxes of the visible extent of each block's Gaussians, metres."""


def gaussian_blocks(scene: Scene, gaussians: Gaussians) -> GaussianBlocks:
    low, scale = grid_of(scene.bounds)
    order = sorted_order(point_codes(np.ascontiguousarray(scene.points, np.float32), low, scale))
    points, opacities = scene.points[order], gaussians.opacities[order]
    covs = covariances(gaussians.scales, gaussians.rotations, order)
    starts = np.arange(0, len(order), GAUSSIANS_PER_BLOCK)
    with np.errstate(divide="ignore"):
        reach = np.sqrt(2 * np.maximum(np.log(opacities / MIN_ALPHA), 0))
    extent = reach[:, None] * np.sqrt(covs[:, [0, 3, 5]])
    lowest = np.minimum.reduceat(points - extent, starts)
    highest = np.maximum.reduceat(points + extent, starts)
    boxes = np.hstack([lowest, highest]).astype(np.float64)
    return GaussianBlocks(points, covs, opacities, order, boxes)


class GaussianRasteriser:
    """Draws splats with compiled kernels on a renderer's threads. Pixels do not depend on the number of threads.

    A scene's blocks are built when it is first drawn, and freed with the scene.
    """

    def __init__(self, in_parts: InBands) -> None:
        self._in_parts = in_parts
        self._blocks: WeakKeyDictionary[Scene, GaussianBlocks] = WeakKeyDictionary()
        self._records = np.empty((0, RECORD), np.float32)
        self._bounds = np.empty((0, 4), np.int32)
        self._sources = np.empty(0, np.int32)
        self._keys = np.empty(0, np.uint64)

    def close(self) -> None:
        self._blocks.clear()

    def draw(self, scene: Scene, camera: Camera | MapCamera, width: int, height: int) -> Frame:
        """Draw a splat as seen by the camera.

        A pixel's depth is the depth at which half of its light is absorbed; its primitive is the Gaussian at that
        depth.
        """
        assert scene.gaussians is not None
        blocks = self._blocks.get(scene)
        if blocks is None:
            blocks = self._blocks[scene] = gaussian_blocks(scene, scene.gaussians)
        view = projection(camera, width, height)
        slots = self._project(blocks, scene.gaussians, camera, view, width, height)
        bounds, sources = self._bounds[slots], self._sources[slots]
        colours = np.empty((height, width, 3), np.uint8)
        depths = np.empty((height, width), np.float32)
        primitives = np.empty((height, width), np.int32)
        background = np.array(BACKGROUND, np.float32) / np.float32(255)

        def band(rows: tuple[int, int]) -> None:
            draw_band(
                self._records, slots, bounds, sources, np.float32(view.near), view.perspective, background,
                *rows, depths, primitives, colours,
            )  # fmt: skip

        self._in_parts(band, height, ROWS_PER_BAND)
        return Frame(colours, depths, primitives)

    def _project(
        self,
        blocks: GaussianBlocks,
        gaussians: Gaussians,
        camera: Camera | MapCamera,
        view: Projection,
        width: int,
        height: int,
    ) -> NDArray[np.int64]:
        """Project the visible blocks. Return the slots of the Gaussians in the image, (n,), front to back."""
        visible_blocks = np.sort(_visible(blocks.boxes, view, width, height))
        capacity = len(visible_blocks) * GAUSSIANS_PER_BLOCK
        if capacity > len(self._keys):
            self._records = np.empty((capacity, RECORD), np.float32)
            self._bounds = np.empty((capacity, 4), np.int32)
            self._sources = np.empty(capacity, np.int32)
            self._keys = np.empty(capacity, np.uint64)
        eye = np.zeros(3) if isinstance(camera, MapCamera) else np.array(camera.position, float)
        counts: dict[int, int] = {}

        def task(part: tuple[int, int]) -> None:
            counts[part[0]] = project(
                blocks.points, blocks.covariances, blocks.opacities, gaussians.harmonics, blocks.order,
                GAUSSIANS_PER_BLOCK, visible_blocks, *part, view.matrix, view.perspective, view.near, eye,
                gaussians.harmonics_axes, float(width), float(height),
                self._records, self._bounds, self._sources, self._keys,
            )  # fmt: skip

        self._in_parts(task, len(visible_blocks), BLOCKS_PER_TASK)
        occupied_slots = [
            self._keys[first * GAUSSIANS_PER_BLOCK :][:count]
            for first, count in sorted(counts.items())
        ]
        keys = np.concatenate([self._keys[:0], *occupied_slots])
        keys.sort()
        slots: NDArray[np.int64] = (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
        return slots


def _visible(boxes: FloatArray, view: Projection, width: int, height: int) -> NDArray[np.int64]:
    """Return the blocks that may be visible in the image or its margin, (k,)."""
    matrix = view.matrix.copy()
    matrix[:2] += MARGIN_PIXELS * matrix[2]
    wider = Projection(matrix, view.perspective, view.near)
    return visible_boxes(boxes, wider, width + 2 * MARGIN_PIXELS, height + 2 * MARGIN_PIXELS).blocks
