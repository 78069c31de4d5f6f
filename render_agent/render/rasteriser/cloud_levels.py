"""A cloud at several levels of detail, so that a point that fills a pixel stands for all that lie in it.

Level 0 has the points in block order (see blocks); each level above has one for every four of the one
below: that of the four which lies nearest to their middle, in the mean colour of all points below it. On
a surface neighbours along a Morton curve lie together, so that points lie twice as far apart a level.
Each block is drawn at the level whose points lie about a pixel apart: from afar a single point's colour
would be noise where a hundred share its pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.geometry.camera import FloatArray
from render_agent.render.rasteriser.blocks import POINTS_PER_BLOCK, CloudBlocks, cloud_blocks
from render_agent.scene.model import Scene

FEWER = 4
"""Points of one level that one point of the next stands for."""

LEVELS = 5
"""With those of level 0; of a block's 512 points the last level has two."""

REACH_RADII = 2.0
"""The curve jumps from one wall to the next: what lies further away than so many splats has no part in a
point's colour."""

AT_A_TIME = 1 << 20


@dataclass(frozen=True, eq=False)
class CloudLevels:
    """All levels of a cloud, one behind the other.

    blocks: the cloud's blocks; a block's points on a level are FEWER times fewer than on that below it.
    points: (3, n) float32, metres, colours: (n, 3) uint8, order: (n,) int32, the scene's index of each
    point, of all levels. starts: (LEVELS + 1,) int64, where each level begins.
    """

    blocks: CloudBlocks
    points: NDArray[np.float32]
    colours: NDArray[np.uint8]
    order: NDArray[np.int32]
    starts: NDArray[np.int64]


def cloud_levels(scene: Scene) -> CloudLevels:
    """Return the levels of a cloud."""
    blocks = cloud_blocks(scene)
    indices = np.arange(len(blocks.order))
    shades = blocks.colours.astype(np.float32)
    chosen, colours = [indices], [blocks.colours]
    for level in range(LEVELS - 1):
        reach = REACH_RADII * 2**level * blocks.radii
        indices, shades = _next(blocks.points, indices, shades, reach)
        chosen.append(indices)
        colours.append(np.rint(shades).astype(np.uint8))
    picked = np.concatenate(chosen)
    starts = np.cumsum([0, *(len(level) for level in chosen)])
    return CloudLevels(
        blocks,
        np.ascontiguousarray(blocks.points[:, picked]),
        np.concatenate(colours),
        blocks.order[picked],
        starts.astype(np.int64),
    )


def _next(
    points: NDArray[np.float32],
    indices: NDArray[np.int64],
    shades: NDArray[np.float32],
    reach: FloatArray,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the points of the next level, (k,) into `points` (3, n), and their colours, (k, 3).

    reach: (b,) metres, by block: what lies further from a point than this is no part of its surface.
    """
    count = -(-len(indices) // FEWER)
    found, means = np.empty(count, np.int64), np.empty((count, 3), np.float32)
    for first in range(0, count, AT_A_TIME):
        part = np.arange(first * FEWER, min(first + AT_A_TIME, count) * FEWER)
        # the last four may be fewer: the last of them counts again
        fours = np.minimum(part, len(indices) - 1).reshape(-1, FEWER)
        places = points[:, indices[fours]]
        away = ((places - places.mean(axis=2, keepdims=True)) ** 2).sum(axis=0)
        nearest = away.argmin(axis=1)
        rows = slice(first, first + len(fours))
        found[rows] = indices[fours[np.arange(len(fours)), nearest]]
        chosen = found[rows]
        gaps = ((places - points[:, chosen, None]) ** 2).sum(axis=0)
        near = gaps <= (reach[chosen // POINTS_PER_BLOCK] ** 2)[:, None]
        total = (shades[fours] * near[:, :, None]).sum(axis=1)
        means[rows] = total / near.sum(axis=1)[:, None]
    return found, means


assert POINTS_PER_BLOCK % FEWER ** (LEVELS - 1) == 0
