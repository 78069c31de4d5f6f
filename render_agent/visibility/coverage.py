"""Computes the share of a room's visible surface that was seen.

The surface is sampled with points of equal area. A point is visible if it can be seen from within REACH_METRES, from
free places spread over the floor and at two heights. Surface that cannot be seen from the room, such as the inside of a
cabinet or the outside of a wall, does not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Frame, Renderer, without_colours
from render_agent.scans.camera import Camera, FloatArray, Vector
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.scans.free_space.surface import first_per_cell, inside_box
from render_agent.scans.scene import Scene
from render_agent.scans.solid import surface_points

MAX_POINTS = 3000  # surface samples; coverage is accurate to about one percent
REACH_METRES = 6.0  # surface farther away does not count as seen
VIEWPOINTS = 12  # free places, spread by farthest-point sampling, that define the visible surface
HEIGHTS_METRES = (1.6, 0.9)  # alternating heights of these places above the floor
STEP_METRES = 0.4  # spacing of candidate places
SIDE_PIXELS = 96  # side of the six square images at each place
# Depth tolerance of visible points: constant and per metre.
SLACK_METRES, SLACK_PER_METRE = 0.05, 0.01
CELL_METRES = 0.05  # one point of a cloud per cell of this size represents its surface

DIRECTIONS = ((0.0, 0.0), (90.0, 0.0), (180.0, 0.0), (-90.0, 0.0), (0.0, 90.0), (0.0, -90.0))


@dataclass(frozen=True, eq=False)
class Surface:
    """The visible surface of a room as equally weighted points, (n, 3) metres, scene frame."""

    points: FloatArray

    @classmethod
    def of(cls, scene: Scene, space: FreeSpace, renderer: Renderer) -> Surface:
        """Compute the visible surface of a scene; raise RenderError if it cannot be drawn."""
        everywhere = cls(sample_surface(scene))
        visible = np.zeros(len(everywhere.points), bool)
        renderer = without_colours(renderer)
        for position in free_places(space):
            for yaw, pitch in DIRECTIONS:
                camera = Camera(position, yaw, pitch, 90.0)
                if not everywhere._may_add(visible, camera):  # common for the last viewpoints
                    continue
                depth = renderer.draw(scene, camera, SIDE_PIXELS, SIDE_PIXELS).depth
                mark_shown(visible, everywhere.points, depth, camera, REACH_METRES)
        return cls(everywhere.points[visible])

    def seen(self, frame: Frame, camera: Camera) -> NDArray[np.bool_]:
        """Return which points an image shows within REACH_METRES, (n,) bool."""
        visible = np.zeros(len(self.points), bool)
        mark_shown(visible, self.points, frame.depth, camera, REACH_METRES)
        return visible

    def _may_add(self, visible: NDArray[np.bool_], camera: Camera) -> bool:
        """Return True if an image of SIDE_PIXELS could show a point within reach that is not marked yet."""
        from render_agent.visibility.counting import may_add

        focal = camera.focal(SIDE_PIXELS)
        return bool(may_add(visible, self.points, camera.pose, SIDE_PIXELS, focal, REACH_METRES))


def mark_shown(
    is_shown: NDArray[np.bool_],  # (n,), modified in place
    points: FloatArray,  # (n, 3) metres
    depth: NDArray[np.float32],  # (H, W) metres, as in a frame
    camera: Camera,
    reach: float = math.inf,  # maximum distance in metres
) -> None:
    """Mark the points that an image shows; other entries are unchanged."""
    from render_agent.visibility import counting

    focal, slack = camera.focal(len(depth)), np.float32(SLACK_METRES)
    per_metre = np.float32(1 + SLACK_PER_METRE)
    counting.mark_shown(is_shown, points, camera.pose, depth, focal, reach, slack, per_metre)


def sample_surface(
    scene: Scene,
    count: int = MAX_POINTS,
    # dense samples of a cloud's surface, (s, 3) metres, if they already exist
    samples: NDArray[np.floating[Any]] | None = None,
) -> FloatArray:
    """Sample points on the surface within a scene's bounds, (n, 3) metres. Deterministic.

    Each point represents the same area of a mesh, or one occupied cell of CELL_METRES of a cloud.
    """
    rng = np.random.default_rng(0)
    if scene.faces is None:
        cloud = surface_points(scene, CELL_METRES) if samples is None else samples
        points = np.asarray(cloud)[first_per_cell(cloud, CELL_METRES)].astype(np.float64)
        points = points[inside_box(points, scene.bounds)]
        sample = rng.permutation(len(points))[:count]
        inside_points: FloatArray = points[np.sort(sample)]
        return inside_points
    from render_agent.visibility.counting import face_areas

    ends = np.cumsum(face_areas(scene.points, scene.faces))
    if not len(ends) or not ends[-1]:
        return np.empty((0, 3))
    # Stratified sampling: one sample in each of `count` equal parts of the area.
    positions = (np.arange(count) + rng.random(count)) / count * ends[-1]
    face_indices = np.minimum(np.searchsorted(ends, positions), len(ends) - 1)
    u, v = np.sqrt(rng.random(count)), rng.random(count)
    weights = np.stack([1 - u, u * (1 - v), u * v], axis=1)
    points = np.einsum(
        "nc,ncx->nx", weights, scene.points[scene.faces[face_indices]].astype(np.float64)
    )
    slack = np.array([[-1e-6], [1e-6]])
    inside_samples: FloatArray = points[inside_box(points, scene.bounds + slack)]
    return inside_samples


def free_places(space: FreeSpace, count: int = VIEWPOINTS) -> list[Vector]:
    """Return free places on the floor, in metres, each as far as possible from the previous ones."""
    low, high = space.bounds
    x, y = (np.arange(low[axis] + STEP_METRES / 2, high[axis], STEP_METRES) for axis in (0, 1))
    level = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    floors = np.column_stack([level, np.full(len(level), space.floor)])
    level = level[space.tree.query(floors, distance_upper_bound=STEP_METRES)[0] < STEP_METRES]
    start = space.start_position()
    positions = [tuple(map(float, start))]
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
        distances = np.min(
            [((places - position) ** 2).sum(axis=1) for position in positions], axis=0
        )
        positions.append(tuple(map(float, places[int(distances.argmax())])))
    return [(x, y, z) for x, y, z in positions]
