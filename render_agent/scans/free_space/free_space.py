"""Free space: where in a scene a camera may stand, and how far it may go.

Distances are measured to samples of the surface in a search tree, for meshes and clouds alike; a
distance of 0.2 m is right to within 2 cm, mostly to within millimetres (see `samples`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.free_space.standing import (
    CLEARANCE_METRES,
    SLACK_METRES,
    free_place,
    standing_place,
    standing_places,
)
from render_agent.scans.free_space.surface import surface_samples
from render_agent.scans.scene import Scene

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

Obstacle = Literal["wall", "furniture", "floor", "ceiling", "bounds"]
Position = NDArray[Any] | tuple[float, float, float]
FloatArray = NDArray[np.float64]

STEP_METRES = 0.01
"""Metres between the places on a way at which it is looked for obstacles."""

ROUNDING_METRES = 1e-9
"""Metres that two sums of the same steps may differ by."""

STEPS_BACK = 3
"""Steps that a stopped camera goes back at most to gain the slack."""

TALL_METRES = (1.7, 2.3)
"""Metres above the floor: what reaches up there is a wall, what does not is furniture."""

LEVEL_METRES = 0.3
"""Metres: surface this near to the height of the floor or ceiling belongs to it."""


@dataclass(frozen=True, eq=False)
class FreeSpace:
    """The free space of a scene, safe to share between threads; `of` builds it.

    tree: samples of the surface, metres, world frame. bounds: (2, 3) metres, the box in which a
    camera stays. floor, ceiling, top: heights in metres, `top` that of the scan. mirrored_at: as the
    scene has it; places that are looked for are the mirror images of those in the scene as it was.
    """

    tree: cKDTree
    bounds: FloatArray
    floor: float
    ceiling: float
    top: float
    mirrored_at: float | None = None
    _starts: dict[float, FloatArray] = field(init=False, default_factory=dict)

    @classmethod
    def of(cls, scene: Scene) -> FreeSpace:
        """Return the free space of `scene`: its bounds, but not close to its floor and ceiling."""
        from scipy.spatial import cKDTree

        samples = _samples(scene)
        tree = cKDTree(samples, balanced_tree=False, compact_nodes=False)
        bounds = np.array(scene.bounds, np.float64)
        bounds[:, 2] = (
            max(bounds[0, 2], scene.floor) + CLEARANCE_METRES + SLACK_METRES,
            min(bounds[1, 2], scene.ceiling) - CLEARANCE_METRES - SLACK_METRES,
        )
        if bounds[0, 2] > bounds[1, 2]:
            bounds[:, 2] = bounds[:, 2].mean()
        top = float(scene.bounds[1, 2])
        return cls(tree, bounds, scene.floor, scene.ceiling, top, scene.mirrored_at)

    @property
    def bytes(self) -> int:
        """The memory that the samples and their tree take."""
        return int(self.tree.n) * 48

    def clearance(self, position: Position) -> float:
        """Return how far the nearest surface is from `position`, (3,) metres; inf without surface."""
        return float(self._clearances(np.asarray(position, np.float64)[None])[0])

    def advance(
        self, start: Position, offset: Position, radius: float = CLEARANCE_METRES
    ) -> tuple[FloatArray, Obstacle | None]:
        """Return where a way from `start` along `offset`, (3,) metres each, ends, and what ends it.

        The way ends before it comes nearer than `radius` metres to a surface, or nearer than it is
        where that is less already, and at the bounds. A way that nothing ends leads to exactly
        start + offset, with None.
        """
        start, offset = np.array(start, np.float64), np.array(offset, np.float64)
        length = float(np.linalg.norm(offset))
        if length == 0:
            return start, None
        share, axis = self._share_within_bounds(start, offset)
        steps = max(1, int(np.ceil(share * length / STEP_METRES)))
        places = start + np.linspace(0.0, share, steps + 1)[:, None] * offset
        room = self._clearances(places, radius + 2 * SLACK_METRES)
        required = np.minimum(radius, np.maximum.accumulate(room))[:-1]
        nearer = np.flatnonzero(room[1:] < required - ROUNDING_METRES)
        if len(nearer):
            last = int(nearer[0])
            end = places[_with_slack(room, last, radius)]
            return end, self._obstacle(end, places[last + 1])
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
        """Return `position`, (3,) metres, or the nearest place that is free where it is not.

        Free is what lies within the bounds and at least `radius` metres from all surface.
        """
        wanted = np.array(position, np.float64)
        inside = (wanted >= self.bounds[0]).all() and (wanted <= self.bounds[1]).all()
        if inside and self.clearance(wanted) >= radius:
            return wanted
        free = free_place(self._unmirrored_clearances, self.bounds, self._mirrored(wanted), radius)
        return self.start_position() if free is None else self._mirrored(free)

    def start_position(self, height: float = 1.6) -> FloatArray:
        """Return a free place, (3,) metres, `height` metres above the floor near the room's middle.

        Of the places over scanned floor, the middle of the largest area that hangs together.
        """
        if height not in self._starts:
            samples = self._mirrored(np.asarray(self.tree.data))
            place = standing_place(
                samples, self._unmirrored_clearances, self.bounds, self.floor, height
            )
            self._starts[height] = self._mirrored(place)
        return self._starts[height].copy()

    def standing_places(self, height: float = 1.6) -> FloatArray:
        """Return the free places, (n, 3) metres, `height` metres above scanned floor, on a lattice."""
        samples = self._mirrored(np.asarray(self.tree.data))
        places = standing_places(
            samples, self._unmirrored_clearances, self.bounds, self.floor, height
        )
        return self._mirrored(places)

    def _clearances(self, places: FloatArray, farthest: float = np.inf) -> FloatArray:
        """Return the distances, (n,) metres, to the nearest surface; inf beyond `farthest`."""
        distances: FloatArray = self.tree.query(places, distance_upper_bound=farthest)[0]
        return distances

    def _mirrored(self, places: FloatArray) -> FloatArray:
        """Return places, (…, 3) metres, in the scene as it was, or back; the same where it still is."""
        if self.mirrored_at is None:
            return places
        return places * (-1.0, 1.0, 1.0) + (2 * self.mirrored_at, 0.0, 0.0)

    def _unmirrored_clearances(self, places: FloatArray, farthest: float = np.inf) -> FloatArray:
        """Return the distances, (n,) metres, from places of the scene before it was mirrored."""
        return self._clearances(self._mirrored(places), farthest)

    def _share_within_bounds(self, start: FloatArray, offset: FloatArray) -> tuple[float, int]:
        """Return the share of `offset` that stays within the bounds, and the axis that limits it."""
        ahead = np.where(offset > 0, self.bounds[1] - start, start - self.bounds[0])
        wanted, left = np.abs(offset), np.maximum(ahead, 0.0)
        shares = np.ones(3)
        beyond = wanted > left + ROUNDING_METRES
        shares[beyond] = left[beyond] / wanted[beyond]
        axis = int(shares.argmin())
        return float(shares[axis]), axis

    def _obstacle(self, end: FloatArray, beyond: FloatArray) -> Obstacle:
        """Return what keeps a camera at `end` from going on to `beyond`."""
        nearest = np.asarray(self.tree.data)[self.tree.query(beyond)[1]]
        towards = nearest - end
        if abs(towards[2]) > np.hypot(towards[0], towards[1]):
            if nearest[2] < self.floor + LEVEL_METRES / 2 and towards[2] < 0:
                return "floor"
            is_top = nearest[2] > self.ceiling - LEVEL_METRES and towards[2] > 0
            return "ceiling" if is_top else "furniture"
        high = min(self.floor + TALL_METRES[1], self.ceiling - LEVEL_METRES)
        low = min(self.floor + TALL_METRES[0], high)
        column = np.column_stack([np.tile(nearest[:2], (5, 1)), np.linspace(low, high, 5)])
        return "wall" if np.median(self._clearances(column)) < LEVEL_METRES / 2 else "furniture"


def _samples(scene: Scene) -> NDArray[np.float32]:
    """Return samples of the surface; those of a mirrored scene are the mirror images of its own before."""
    if scene.mirrored_at is None:
        return surface_samples(scene)
    samples = surface_samples(scene.mirrored())
    samples[:, 0] = 2 * scene.mirrored_at - samples[:, 0].astype(np.float64)
    return samples


def _with_slack(room: FloatArray, last: int, radius: float) -> int:
    """Return at which step to stop, `last` or a little before, so that the camera is not stuck there.

    room: clearances in metres of the steps; those up to `last` are allowed.
    """
    first = max(0, last - STEPS_BACK)
    near = room[first : last + 1]
    wide = np.flatnonzero(near >= radius + SLACK_METRES)
    return first + int(wide[-1] if len(wide) else near.argmax())
