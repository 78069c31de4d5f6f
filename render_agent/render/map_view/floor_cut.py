"""Where a scan is cut so that one sees into the storey from above."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from render_agent.scene.model import Scene

HEAD_HEIGHT_METRES = 2.0
"""Everything higher than this above the floor, in metres, is cut away."""

UNDER_CEILING_METRES = 0.35
"""So far below the ceiling, in metres, the cut stays, for lamps and uneven ceilings."""

ROOM_HEIGHT_METRES = 1.8
"""A ceiling is at least so far above its floor, in metres; less is the top of an open scan."""

ONE_STOREY_METRES = 4.0
"""A scan that is no higher than this, in metres, has one storey."""

SLICE_METRES, CELL_METRES = 0.1, 0.1
"""Metres: how finely levels are told apart, and the raster in which a level's area is counted."""

MAX_SAMPLES = 1_000_000
"""Of more faces or points than this, evenly chosen ones are counted."""

LEVEL_SHARE = 0.25
"""A level has at least this share of the area of the largest one."""


class Storeys:
    """The heights of a scene's floors and ceilings, found once a scene."""

    def __init__(self) -> None:
        self._levels: WeakKeyDictionary[Scene, tuple[float, ...]] = WeakKeyDictionary()

    def cut(self, scene: Scene, height: float | None) -> float:
        """Return where to cut the storey in which `height` lies (None: the lowest), metres, world frame."""
        levels = self.levels(scene)
        below = [level for level in levels if height is not None and level <= height - 0.2]
        floor = max(below, default=scene.floor)
        ceilings = [
            level for level in (*levels, scene.ceiling) if level >= floor + ROOM_HEIGHT_METRES
        ]
        return float(
            min(floor + HEAD_HEIGHT_METRES, min(ceilings, default=np.inf) - UNDER_CEILING_METRES)
        )

    def levels(self, scene: Scene) -> tuple[float, ...]:
        """Return the heights of the large level surfaces, metres, lowest first; one for one storey."""
        if scene not in self._levels:
            tall = scene.ceiling - scene.floor > ONE_STOREY_METRES
            self._levels[scene] = _levels(scene) if tall else (scene.floor,)
        return self._levels[scene]


def _levels(scene: Scene) -> tuple[float, ...]:
    heights, areas = _cloud_areas(scene) if scene.faces is None else _mesh_areas(scene)
    slices = max(int((scene.ceiling + 0.5 - scene.floor) / SLICE_METRES), 3)
    edges = scene.floor - 0.5 * SLICE_METRES + SLICE_METRES * np.arange(slices + 1)
    area, _ = np.histogram(heights, edges, weights=areas)
    smooth = np.convolve(area, np.ones(3), "same")
    levels = [scene.floor]
    for index in np.flatnonzero(smooth >= LEVEL_SHARE * smooth.max()):
        around = smooth[max(index - 1, 0) : index + 2]
        level = float(edges[index] + SLICE_METRES / 2)
        if smooth[index] == around.max() and level > levels[-1] + 2 * SLICE_METRES:
            levels.append(level)
    return tuple(levels)


def _mesh_areas(scene: Scene) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the height (n,) and area (n,) of every face that lies level."""
    assert scene.faces is not None
    faces = scene.faces[:: len(scene.faces) // MAX_SAMPLES + 1]
    a, b, c = (scene.points[faces[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    sizes = np.linalg.norm(normals, axis=1)
    level = np.abs(normals[:, 2]) > 0.9 * sizes
    return (a + b + c)[level, 2] / 3, sizes[level] / 2


def _cloud_areas(scene: Scene) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the height (n,) of every filled cell of every slice, and its area (n,)."""
    points = scene.points[:: len(scene.points) // MAX_SAMPLES + 1]
    low = points.min(axis=0)
    cells = np.floor((points - low) / (CELL_METRES, CELL_METRES, SLICE_METRES)).astype(np.int64)
    spans = cells.max(axis=0) + 1
    filled = np.unique((cells[:, 2] * spans[1] + cells[:, 1]) * spans[0] + cells[:, 0])
    heights = low[2] + (filled // (spans[0] * spans[1]) + 0.5) * SLICE_METRES
    return heights, np.full(len(heights), CELL_METRES * CELL_METRES)
