"""Shortest paths of a camera through free space, in metres."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.free_space.free_space import FreeSpace, Position

FloatArray = NDArray[np.float64]

MIN_STEP_METRES = 0.005  # moves of a camera that are smaller have no effect
NUM_ENTRIES = 16  # lattice places near a position from which a path may start


class ShortestPaths:
    """Shortest paths of a camera to one goal. Thread-safe.

    A path consists of straight lines between places. Along each of them, a camera that moves level and then up or down
    meets no obstacle. Paths around obstacles are up to a few percent longer than the shortest possible ones.
    """

    def __init__(self, space: FreeSpace, goal: Position) -> None:
        self.space = space
        self.goal = np.array(goal, np.float64)

    def length(self, start: Position) -> float | None:
        """Return the length of the path from a place, (3,) metres; None if there is none."""
        path = self.waypoints(start)
        return None if path is None else float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())

    def waypoints(self, start: Position) -> FloatArray | None:
        """Return the places of the path, (n, 3) metres, from `start` to the goal; None if there is no path."""
        start = np.array(start, np.float64)
        if np.linalg.norm(self.goal - start) < MIN_STEP_METRES:
            return start[None]
        if self._is_free(start, self.goal):
            return np.array([start, self.goal])
        if not len(self.space.lattice.places):
            return None
        distances, next_places = self._field
        entries = self._entries(start)
        costs = (
            np.linalg.norm(self.space.lattice.places[entries] - start, axis=1) + distances[entries]
        )
        if not len(costs) or not np.isfinite(costs).any():
            return None
        place = int(entries[int(costs.argmin())])
        places = []
        while place >= 0:
            places.append(self.space.lattice.places[place])
            place = int(next_places[place])
        path = np.array([start, *places, self.goal])
        is_step = np.linalg.norm(np.diff(path, axis=0), axis=1) > MIN_STEP_METRES
        return self._shorten(path[np.append(True, is_step)])

    @cached_property
    def _field(self) -> tuple[FloatArray, NDArray[np.int32]]:
        """Distance of each lattice place from the goal, inf if unconnected, and the next place on the way there."""
        from scipy.sparse.csgraph import dijkstra

        entries = self._entries(self.goal)
        if not len(entries):
            shape = len(self.space.lattice.places)
            return np.full(shape, np.inf), np.full(shape, -1, np.int32)
        found: tuple[Any, Any] = dijkstra(
            self.space.lattice.steps,
            directed=False,
            indices=int(entries[0]),
            return_predecessors=True,
        )
        return found[0], found[1]

    def _entries(self, place: FloatArray) -> NDArray[np.intp]:
        """Return those of the nearest lattice places that a camera can move to from `place`."""
        offsets = np.linalg.norm(self.space.lattice.places - place, axis=1)
        count = min(NUM_ENTRIES, len(offsets))
        nearest = np.argpartition(offsets, count - 1)[:count]
        nearest = nearest[np.argsort(offsets[nearest], kind="stable")]
        is_free = [self._is_free(place, self.space.lattice.places[index]) for index in nearest]
        return nearest[is_free]

    def _shorten(self, path: FloatArray) -> FloatArray:
        """Leave out places that a camera need not pass, (m, 3)."""
        kept = [0]
        while kept[-1] < len(path) - 1:
            # Bisection, because farther places along a path are rarely free if nearer ones are not.
            free, blocked = kept[-1] + 1, len(path)
            while blocked - free > 1:
                middle = len(path) - 1 if blocked == len(path) else (free + blocked) // 2
                if self._is_free(path[kept[-1]], path[middle]):
                    free = middle
                else:
                    blocked = middle
            kept.append(free)
        shortened: FloatArray = path[kept]
        return shortened

    def _is_free(self, start: FloatArray, end: FloatArray) -> bool:
        """Return True if a camera can move level and then up or down from `start` to `end`."""
        level = np.array([end[0], end[1], start[2]])
        for place, goal in ((start, level), (level, end)):
            if self.space.advance(place, goal - place)[1] is not None:
                return False
        return True
