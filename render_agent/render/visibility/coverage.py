"""How much of a room's surface was seen.

The surface is points all over it, as many to every square metre. The room's visible surface is what
can be seen from free places all over its floor, at two heights, within REACH_METRES; what nobody who walks
there can see (the inside of a cabinet, the outside of a wall) does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Frame, Renderer
from render_agent.scans.camera import Camera, FloatArray, Vector
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.scans.free_space.surface import areas_and_normals, inside_box, one_each
from render_agent.scans.scene import Scene
from render_agent.scans.solid import surface_points

MAX_POINTS = 3000
"""Points of the surface: a coverage is good to within about a percent."""

REACH_METRES = 6.0
"""Metres: farther away nothing counts as seen."""

VIEWPOINTS = 12
"""Free places, as far from each other as can be, from which the room is looked at."""

HEIGHTS_METRES = (1.6, 0.9)
"""Metres above the floor, in turn, of these places."""

STEP_METRES = 0.4
"""Metres between the places that are tried."""

SIDE_PIXELS = 96
"""Pixels of the square pictures in the six directions from a place."""

SLACK_METRES, SLACK_PER_METRE = 0.05, 0.01
"""Metres that a point may lie behind the surface in the picture, and metres more for each of depth."""

CELL_METRES = 0.05
"""Metres: of a cloud's points one in such a cell stands for its surface."""

DIRECTIONS = ((0.0, 0.0), (90.0, 0.0), (180.0, 0.0), (-90.0, 0.0), (0.0, 90.0), (0.0, -90.0))


@dataclass(frozen=True, eq=False)
class Surface:
    """The visible surface of a room as points of equal weight, (n, 3) metres, scene frame."""

    points: FloatArray

    @classmethod
    def of(cls, scene: Scene, space: FreeSpace, renderer: Renderer) -> Surface:
        """Return the visible surface of a scene. RenderError where it cannot be drawn."""
        everywhere = cls(spread(scene))
        visible = np.zeros(len(everywhere.points), bool)
        for position in free_places(space):
            for yaw, pitch in DIRECTIONS:
                camera = Camera(position, yaw, pitch, 90.0)
                if not everywhere._may_add(visible, camera):  # as in most of the last ones
                    continue
                frame = renderer.draw(scene, camera, SIDE_PIXELS, SIDE_PIXELS)
                everywhere._mark_seen(visible, frame, camera)
        return cls(everywhere.points[visible])

    def seen(self, frame: Frame, camera: Camera) -> NDArray[np.bool_]:
        """Return which points, (n,), show in a view of the scene and lie within REACH_METRES."""
        visible = np.zeros(len(self.points), bool)
        self._mark_seen(visible, frame, camera)
        return visible

    def _may_add(self, visible: NDArray[np.bool_], camera: Camera) -> bool:
        """Whether a picture of SIDE_PIXELS may show a point, within reach, that is not yet marked."""
        from render_agent.render.visibility.counting import may_add

        focal = camera.focal(SIDE_PIXELS)
        return bool(may_add(visible, self.points, camera.pose, SIDE_PIXELS, focal, REACH_METRES))

    def _mark_seen(self, visible: NDArray[np.bool_], frame: Frame, camera: Camera) -> None:
        from render_agent.render.visibility.counting import mark_shown

        limits = REACH_METRES, np.float32(SLACK_METRES), np.float32(1 + SLACK_PER_METRE)
        focal = camera.focal(len(frame.depth))
        mark_shown(visible, self.points, camera.pose, frame.depth, focal, *limits)


def spread(scene: Scene, count: int = MAX_POINTS) -> FloatArray:
    """Return points all over the surface within a scene's bounds, at most `count`, (n, 3) metres.

    Each stands for the same area; the same scene always gives the same points.
    """
    chance = np.random.default_rng(0)
    if scene.faces is None:
        cloud = surface_points(scene, CELL_METRES)
        points = cloud[one_each(cloud, CELL_METRES)].astype(np.float64)
        points = points[inside_box(points, scene.bounds)]
        sample = chance.permutation(len(points))[:count]
        inside_points: FloatArray = points[np.sort(sample)]
        return inside_points
    corners = scene.points[scene.faces]
    areas = areas_and_normals(corners)[0].astype(np.float64)
    if not areas.sum():
        return np.empty((0, 3))
    # one draw in each of `count` equal parts of the area, so that they lie evenly
    ends = np.cumsum(areas)
    drawn = (np.arange(count) + chance.random(count)) / count * ends[-1]
    which = np.minimum(np.searchsorted(ends, drawn), len(areas) - 1)
    first, second = np.sqrt(chance.random(count)), chance.random(count)
    weights = np.stack([1 - first, first * (1 - second), first * second], axis=1)
    points = np.einsum("nc,ncx->nx", weights, corners[which].astype(np.float64))
    slack = np.array([[-1e-6], [1e-6]])
    kept: FloatArray = points[inside_box(points, scene.bounds + slack)]
    return kept


def free_places(space: FreeSpace, count: int = VIEWPOINTS) -> list[Vector]:
    """Return free places over the floor, each as far from those before as can be, metres."""
    low, high = space.bounds
    x, y = (np.arange(low[axis] + STEP_METRES / 2, high[axis], STEP_METRES) for axis in (0, 1))
    level = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    floors = np.column_stack([level, np.full(len(level), space.floor)])
    level = level[space.tree.query(floors, distance_upper_bound=STEP_METRES)[0] < STEP_METRES]
    first = space.start_position()
    chosen = [tuple(map(float, first))]
    heights = [float(np.clip(space.floor + height, low[2], high[2])) for height in HEIGHTS_METRES]
    candidates = [
        places[
            space.tree.query(places, distance_upper_bound=CLEARANCE_METRES)[0] >= CLEARANCE_METRES
        ]
        for places in (np.column_stack([level, np.full(len(level), z)]) for z in heights)
    ]
    for number in range(1, count):
        places = candidates[number % len(candidates)]
        if not len(places):
            continue
        away = np.min([((places - position) ** 2).sum(axis=1) for position in chosen], axis=0)
        chosen.append(tuple(map(float, places[int(away.argmax())])))
    return [(x, y, z) for x, y, z in chosen]
