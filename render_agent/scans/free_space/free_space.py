"""Free space: where a camera can stand in a scene, and how far it can move.

For meshes and clouds alike, clearances are distances to surface samples in a k-d tree. A clearance of 0.2 m is accurate
to 2 cm, usually to millimetres (see `surface_samples`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.free_space.lattice import Lattice, build_lattice
from render_agent.scans.free_space.standing import (
    CLEARANCE_METRES,
    SLACK_METRES,
    StandingPlaces,
    farthest_point_sample,
)
from render_agent.scans.free_space.surface import surface_samples
from render_agent.scans.scene import Scene

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

Obstacle = Literal["wall", "furniture", "floor", "ceiling", "bounds"]
Position = NDArray[Any] | tuple[float, float, float]
FloatArray = NDArray[np.float64]

STEP_METRES = 0.01  # spacing of the collision checks along a move
ROUNDING_METRES = 1e-9  # tolerance for rounding when the same steps are summed in a different order
STEPS_BACK = 3  # a stopped camera backs up at most this many steps to regain the slack
# range above the floor; surface that fills it is a wall, other surface is furniture
TALL_METRES = (1.7, 2.3)
STOREY_METRES = 1.8  # a scan that extends this far above its ceiling has another storey
LEVEL_METRES = 0.3  # surface within this height of the floor or ceiling belongs to it


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """Free space of a scene. Thread-safe; build it with `of`."""

    tree: cKDTree  # surface samples, metres, world frame
    bounds: FloatArray  # (2, 3) metres, the box in which a camera stays
    floor: float  # height of the floor in metres
    ceiling: float  # height of the ceiling in metres
    top: float  # height of the top of the scan in metres
    mirrored_at: float | None = None
    """As in the scene. Places are found in the unmirrored scene and then mirrored, so that both scenes have
    the same places.
    """
    _areas: dict[float, FloatArray] = field(init=False, default_factory=dict)

    @classmethod
    def of(cls, scene: Scene) -> FreeSpace:
        """Build the free space of `scene`: its bounds, minus a margin at floor and ceiling."""
        from scipy.spatial import cKDTree

        samples = _samples(scene)
        tree = cKDTree(samples, balanced_tree=False, compact_nodes=False)
        bounds = np.array(scene.bounds, np.float64)
        top = float(bounds[1, 2])
        highest = top if top - scene.ceiling >= STOREY_METRES else min(top, scene.ceiling)
        bounds[:, 2] = (
            max(bounds[0, 2], scene.floor) + CLEARANCE_METRES + SLACK_METRES,
            highest - CLEARANCE_METRES - SLACK_METRES,
        )
        if bounds[0, 2] > bounds[1, 2]:
            bounds[:, 2] = bounds[:, 2].mean()
        return cls(tree, bounds, scene.floor, scene.ceiling, top, scene.mirrored_at)

    @property
    def bytes(self) -> int:
        """Approximate memory used by the samples and their tree, in bytes."""
        return int(self.tree.n) * 48

    @cached_property
    def lattice(self) -> Lattice:
        """Connected free places at all heights, for shortest paths."""
        return build_lattice(self.tree, self.bounds)

    @property
    def unmirrored_samples(self) -> FloatArray:
        """Samples of the surface of the unmirrored scene, (s, 3) metres."""
        return self.mirror(np.asarray(self.tree.data))

    @property
    def _standing(self) -> StandingPlaces:
        """Places of the unmirrored scene."""
        samples = self.unmirrored_samples
        return StandingPlaces(samples, self._unmirrored_clearances, self.bounds, self.floor)

    def clearance(self, position: Position) -> float:
        """Return the distance in metres from `position`, (3,), to the nearest surface; inf if there is none."""
        return float(self._clearances(np.asarray(position, np.float64)[None])[0])

    def advance(
        self,
        start: Position,  # (3,) metres, world frame
        offset: Position,  # (3,) metres, the requested move
        radius: float = CLEARANCE_METRES,  # clearance to keep, in metres
    ) -> tuple[FloatArray, Obstacle | None]:
        """Move from `start` along `offset` until an obstacle or the bounds; return the end, (3,) metres, and the
        obstacle, if any.

        The move stops before it comes closer than `radius` to a surface. A move that starts closer may not come any
        closer.
        """
        start, offset = np.array(start, np.float64), np.array(offset, np.float64)
        length = float(np.linalg.norm(offset))
        if length == 0:
            return start, None
        share, axis = self._share_within_bounds(start, offset)
        steps = max(1, int(np.ceil(share * length / STEP_METRES)))
        places = start + np.linspace(0.0, share, steps + 1)[:, None] * offset
        clearances = self._clearances(places, radius + 2 * SLACK_METRES)
        required_clearance = np.minimum(radius, np.maximum.accumulate(clearances))[:-1]
        too_close = np.flatnonzero(clearances[1:] < required_clearance - ROUNDING_METRES)
        if len(too_close):
            last_step = int(too_close[0])
            end = places[_last_step(clearances, last_step, radius)]
            return end, self._obstacle(end, places[last_step + 1])
        if share == 1.0:
            return start + offset, None
        end = places[-1]
        if self.clearance(end) <= radius + 3 * SLACK_METRES:
            return end, self._obstacle(end, end + 2 * SLACK_METRES * offset / length)
        if axis != 2:
            return end, "bounds"
        if offset[2] < 0:
            return end, "floor"
        return end, "ceiling" if self.ceiling < self.top - LEVEL_METRES / 10 else "bounds"

    def nearest_free(self, position: Position, radius: float = CLEARANCE_METRES) -> FloatArray:
        """Return `position`, (3,) metres, or the nearest place in the bounds `radius` metres away from surfaces."""
        target = np.array(position, np.float64)
        inside = (target >= self.bounds[0]).all() and (target <= self.bounds[1]).all()
        if inside and self.clearance(target) >= radius:
            return target
        free = self._standing.nearest(self.mirror(target), radius)
        return self.start_position() if free is None else self.mirror(free)

    def start_position(self, height: float = 1.6) -> FloatArray:
        """Return a free place, (3,) metres, near the middle of the largest connected area over scanned floor."""
        return self.mirror(self._area(height)[0].copy())

    def start_places(self, most: int, height: float = 1.6) -> FloatArray:
        """Return at most `most` places, (n, 3) metres: `start_position` and others in the same open area, far apart."""
        area = self._area(height)
        other_places = farthest_point_sample(area[1:], area[0], most - 1)
        return self.mirror(np.array([area[0], *other_places]))

    def _area(self, height: float) -> FloatArray:
        """Return the places of the open area of the unmirrored scene, (n, 3) metres, starting with `start_position`."""
        if height not in self._areas:
            self._areas[height] = self._standing.area(height)
        return self._areas[height]

    def standing_places(self, height: float = 1.6) -> FloatArray:
        """Return a lattice of free places, (n, 3) metres, `height` metres above scanned floor."""
        return self.mirror(self._standing.at_height(height))

    def walkable_floor(self, heights: Sequence[float]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return a lattice of places, (x, y, 2) metres, and which are free at all heights above scanned floor, (x, y)."""
        levels = [self._standing.level(height) for height in heights]
        places = self.mirror(levels[0][0])[..., :2]
        return places, np.logical_and.reduce([free for _, _, free in levels])

    def _clearances(self, places: FloatArray, max_distance: float = np.inf) -> FloatArray:
        """Return the distances, (n,) metres, to the nearest surface, or inf beyond `max_distance`."""
        distances: FloatArray = self.tree.query(places, distance_upper_bound=max_distance)[0]
        return distances

    def mirror(self, places: FloatArray) -> FloatArray:
        """Convert places, (…, 3) metres, between the scene and its unmirrored original; no-op if it is not mirrored."""
        if self.mirrored_at is None:
            return places
        return places * (-1.0, 1.0, 1.0) + (2 * self.mirrored_at, 0.0, 0.0)

    def _unmirrored_clearances(
        self, places: FloatArray, max_distance: float = np.inf
    ) -> FloatArray:
        """Return the clearances, (n,) metres, of places in the unmirrored scene."""
        return self._clearances(self.mirror(places), max_distance)

    def _share_within_bounds(self, start: FloatArray, offset: FloatArray) -> tuple[float, int]:
        """Return the share of `offset` that stays within the bounds, and the axis that limits it."""
        available = np.where(offset > 0, self.bounds[1] - start, start - self.bounds[0])
        target, available = np.abs(offset), np.maximum(available, 0.0)
        shares = np.ones(3)
        is_outside = target > available + ROUNDING_METRES
        shares[is_outside] = available[is_outside] / target[is_outside]
        axis = int(shares.argmin())
        return float(shares[axis]), axis

    def _obstacle(self, end: FloatArray, beyond: FloatArray) -> Obstacle:
        """Classify the obstacle that stops a camera at `end` from moving on to `beyond`."""
        surface_point = np.asarray(self.tree.data)[self.tree.query(beyond)[1]]
        towards = surface_point - end
        if abs(towards[2]) > np.hypot(towards[0], towards[1]):
            if surface_point[2] < self.floor + LEVEL_METRES / 2 and towards[2] < 0:
                return "floor"
            is_top = surface_point[2] > self.ceiling - LEVEL_METRES and towards[2] > 0
            return "ceiling" if is_top else "furniture"
        high = min(self.floor + TALL_METRES[1], self.ceiling - LEVEL_METRES)
        low = min(self.floor + TALL_METRES[0], high)
        column = np.column_stack([np.tile(surface_point[:2], (5, 1)), np.linspace(low, high, 5)])
        return "wall" if np.median(self._clearances(column)) < LEVEL_METRES / 2 else "furniture"


def _samples(scene: Scene) -> NDArray[np.float32]:
    """Return surface samples; those of a mirrored scene are the mirrored samples of its original."""
    if scene.mirrored_at is None:
        return surface_samples(scene)
    samples = surface_samples(scene.mirrored())
    samples[:, 0] = 2 * scene.mirrored_at - samples[:, 0].astype(np.float64)
    return samples


def _last_step(
    clearances: FloatArray,  # clearance of each step in metres
    last: int,
    radius: float,  # required clearance in metres
) -> int:
    """Return the step to stop at: `last`, or slightly earlier so that the camera does not get stuck."""
    first = max(0, last - STEPS_BACK)
    near = clearances[first : last + 1]
    wide = np.flatnonzero(near >= radius + SLACK_METRES)
    return first + int(wide[-1] if len(wide) else near.argmax())
