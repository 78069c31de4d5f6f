"""The height at which a map cuts a scan, and the wall lines in the section."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from render_agent.render.map_view.overlay import SMOOTH, unit
from render_agent.scans.camera import FloatArray, MapCamera
from render_agent.scans.free_space.surface import cell_keys
from render_agent.scans.scene import Scene
from render_agent.scans.solid import surface_points

HEAD_HEIGHT_METRES = 2.0  # height of the cut above the floor
# Minimum distance between cut and ceiling, to allow for lamps and uneven ceilings.
UNDER_CEILING_METRES = 0.35
# Minimum height of a ceiling above its floor; anything lower is the top of an open scan.
ROOM_HEIGHT_METRES = 1.8
ONE_STOREY_METRES = 4.0  # scans up to this height have one storey
SLICE_METRES, CELL_METRES = 0.1, 0.1  # bin height of the level histogram, and cell size for areas
MAX_SAMPLES = 1_000_000  # larger meshes and clouds are subsampled evenly
LEVEL_SHARE = 0.25  # minimum area of a storey's level, relative to the largest


class Storeys:
    """Heights of a scene's floors and ceilings, computed once per scene."""

    def __init__(self) -> None:
        self._levels: WeakKeyDictionary[Scene, tuple[float, ...]] = WeakKeyDictionary()

    def cut(
        self,
        scene: Scene,
        height: float | None,  # height in the storey; None for the lowest storey
    ) -> tuple[float, float]:
        """Return the height of the cut and the ceiling for the storey at `height`, in metres, world frame."""
        levels = self.levels(scene)
        below = [level for level in levels if height is not None and level <= height - 0.2]
        floor = max(below, default=scene.floor)
        ceilings = [
            level for level in (*levels, scene.ceiling) if level >= floor + ROOM_HEIGHT_METRES
        ]
        ceiling = min(ceilings, default=np.inf)
        cut = min(floor + HEAD_HEIGHT_METRES, ceiling - UNDER_CEILING_METRES)
        return float(cut), float(min(ceiling, scene.bounds[1, 2]))

    def levels(self, scene: Scene) -> tuple[float, ...]:
        """Return the heights of large level surfaces in metres, lowest first; a single one for one storey."""
        if scene not in self._levels:
            tall = scene.bounds[1, 2] - scene.floor > ONE_STOREY_METRES
            self._levels[scene] = _levels(scene) if tall else (scene.floor,)
        return self._levels[scene]


def _levels(scene: Scene) -> tuple[float, ...]:
    heights, areas = _cloud_areas(scene) if scene.faces is None else _mesh_areas(scene)
    slices = max(int((scene.bounds[1, 2] + 0.5 - scene.floor) / SLICE_METRES), 3)
    edges = scene.floor - 0.5 * SLICE_METRES + SLICE_METRES * np.arange(slices + 1)
    area, _ = np.histogram(heights, edges, weights=areas)
    smooth = np.convolve(area, np.ones(3), "same")
    levels = [scene.floor]
    for index in np.flatnonzero(smooth >= LEVEL_SHARE * smooth.max()):
        window = smooth[max(index - 1, 0) : index + 2]
        level = float(edges[index] + SLICE_METRES / 2)
        if smooth[index] == window.max() and level > levels[-1] + 2 * SLICE_METRES:
            levels.append(level)
    return tuple(levels)


def _mesh_areas(scene: Scene) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the height and area of every level face, (n,) each."""
    assert scene.faces is not None
    faces = scene.faces[:: len(scene.faces) // MAX_SAMPLES + 1]
    a, b, c = (scene.points[faces[:, corner]] for corner in range(3))
    normals = np.cross(b - a, c - a)
    sizes = np.linalg.norm(normals, axis=1)
    level = np.abs(normals[:, 2]) > 0.9 * sizes
    return (a + b + c)[level, 2] / 3, sizes[level] / 2


def _cloud_areas(scene: Scene) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return the height and area of every occupied cell of every slice, (n,) each."""
    points = surface_points(scene, CELL_METRES)
    points = points[:: len(points) // MAX_SAMPLES + 1]
    low = points.min(axis=0)
    cells = np.floor((points - low) / (CELL_METRES, CELL_METRES, SLICE_METRES)).astype(np.int64)
    spans = cells.max(axis=0) + 1
    occupied = np.unique((cells[:, 2] * spans[1] + cells[:, 1]) * spans[0] + cells[:, 0])
    heights = low[2] + (occupied // (spans[0] * spans[1]) + 0.5) * SLICE_METRES
    return heights, np.full(len(heights), CELL_METRES * CELL_METRES)


WALL_COLOUR = (52, 52, 60)
WALL_WIDTH_PIXELS = 2.4  # in a 640×480 image

# A cloud point within SLAB_METRES of the cut belongs to the section if its column, COLUMN_METRES wide, has points on
# both sides of the cut within CROSSING_METRES.
SLAB_METRES = 0.04
CROSSING_METRES, COLUMN_METRES = 0.3, 0.1


def section_lines(
    scene: Scene,
    camera: MapCamera,
    size: tuple[int, int],  # width and height of that image in pixels
) -> NDArray[np.bool_]:
    """Return the pixels where the cut, at the camera's height, crosses surfaces, as lines, (H, W) bool."""
    image = Image.new("1", size)
    pen = ImageDraw.Draw(image)
    wide = max(round(WALL_WIDTH_PIXELS * unit(size[0] // SMOOTH, size[1] // SMOOTH) * SMOOTH), 1)
    ends = (
        _cloud_section(scene, camera) if scene.faces is None else mesh_section(scene, camera.height)
    )
    pixels, _ = camera.project(ends.reshape(-1, 3), *size)
    for line in pixels.reshape(-1, ends.shape[1] * 2).tolist():
        if len(line) == 2:
            pen.circle(line, wide / 2, fill=1)
        else:
            pen.line(line, fill=1, width=wide)
    return np.array(image)


def mesh_section(scene: Scene, height: float) -> FloatArray:
    """Return the segments where a mesh crosses a height, (k, 2, 3) metres, world frame."""
    assert scene.faces is not None
    above = scene.points[:, 2] > height
    faces = scene.faces
    count = above[faces[:, 0]].astype(np.int8)
    for corner in (1, 2):
        count += above[faces[:, corner]]
    crossing = faces[(count == 1) | (count == 2)]
    # Both crossed edges meet at the corner that is alone on its side of the cut.
    is_apex = above[crossing] == (above[crossing].sum(axis=1) == 1)[:, None]
    first = is_apex.argmax(axis=1)
    rows = np.arange(len(crossing))
    apex, *corners = (
        scene.points[crossing[rows, (first + step) % 3]].astype(np.float64) for step in range(3)
    )
    ends = []
    for base in corners:
        share = (height - apex[:, 2]) / (base[:, 2] - apex[:, 2])
        ends.append(apex + share[:, None] * (base - apex))
    return np.stack(ends, axis=1)


def _cloud_section(scene: Scene, camera: MapCamera) -> FloatArray:
    """Return one point of a cloud's section per pixel, (k, 1, 3) metres.

    A surface crossed by the cut has points on both sides of it; a horizontal surface near the cut does not.
    """
    points = surface_points(scene, SLAB_METRES)
    points = points[np.abs(points[:, 2] - camera.height) < CROSSING_METRES].astype(np.float64)
    if not len(points):
        return np.empty((0, 1, 3))
    columns = cell_keys(points * (1, 1, 0), COLUMN_METRES)
    below = points[:, 2] < camera.height
    crossing_columns = np.intersect1d(columns[below], columns[~below])
    near = np.abs(points[:, 2] - camera.height) < SLAB_METRES
    near &= np.isin(columns, crossing_columns)
    cells = np.floor(points[near, :2] / camera.metres_per_pixel).astype(np.int64)
    _, first = np.unique(cells, axis=0, return_index=True)
    one_each: FloatArray = points[near][first][:, None]
    return one_each
