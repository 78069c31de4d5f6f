"""Floor of a home as seen on a map: its rooms and the shortest walkable paths between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth
from render_agent_lab.room_generator.floor_plan.walkway import (
    CELL,
    CLEARANCE,
    COMFORT,
    Walkway,
    footprint_distance,
    is_obstacle,
)

NODE_CELLS = 2  # walkway cells per graph node: 0.1 m

TIGHT_COST = 3.0  # cost factor of a path with clearance but less than comfortable space

NEIGHBOURS = tuple((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))

Point = tuple[float, float]  # metres on the floor plan
Node = tuple[int, int]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Paths:
    """The shortest paths from one position."""

    metres: NDArray[np.float64]
    """(rows, columns) cost-weighted length to each node; inf if unreachable."""
    before: NDArray[np.int32]
    """(rows, columns) flat index of the previous node on the path; negative at the start."""


class WalkableFloor:
    """Walkable floor of a home, in the frame of the loaded scene."""

    def __init__(
        self,
        truth: RoomGroundTruth,  # ground truth of the home, in the frame of its file
        scene: Scene,
    ) -> None:
        self.truth = truth
        self._origin: NDArray[np.float64] = np.array(scene.origin[:2])
        self._mirrored_at = scene.mirrored_at
        self._paths: dict[Point, Paths] = {}

    def room_of(self, place: Point) -> int | None:
        """Return the index of the room that contains a position; None in doorways and outside."""
        point = self._in_file(np.array([place]))
        for index, room in enumerate(self.truth.rooms):
            if room.holds(point)[0]:
                return index
        return None

    def paths_from(self, start: Point) -> Paths:
        """Return the shortest paths from a position, or from the nearest free one."""
        if start not in self._paths:
            self._paths[start] = self._find_paths(start)
        return self._paths[start]

    def centre_node(self, number: int, paths: Paths) -> Node | None:
        """Return the reachable node nearest to the centre of a room."""
        corners = self.truth.rooms[number].corners
        distances = np.hypot(*np.moveaxis(self._nodes - corners.mean(0), -1, 0))
        is_reachable = np.isfinite(paths.metres) & self._in_rooms[number]
        return _argmin(np.where(is_reachable, distances, np.inf))

    def farthest_node(self, places: Sequence[Point], paths: Paths) -> tuple[Node, float] | None:
        """Return the reachable node farthest from all given positions, and that distance in metres."""
        nodes = self._nodes
        points = self._in_file(np.array(places))
        distances = np.linalg.norm(nodes[..., None, :] - points, axis=-1).min(axis=-1)
        cell = _argmin(np.where(np.isfinite(paths.metres), -distances, np.inf))
        return None if cell is None else (cell, float(distances[cell]))

    def path_to(self, paths: Paths, goal: Node) -> list[Point]:
        """Return the positions on the path to a node, start first."""
        path = [goal]
        while (before := int(paths.before[path[-1]])) >= 0:
            path.append(self._node(before))
        points = self._from_file(np.array([self._nodes[node] for node in path[::-1]]))
        return [(float(x), float(y)) for x, y in points]

    @cached_property
    def _walkway(self) -> Walkway:
        return Walkway(self.truth.rooms, self.truth.ways)

    @cached_property
    def _nodes(self) -> NDArray[np.float64]:
        """Node positions, (rows, columns, 2) metres."""
        return self._walkway.centres[::NODE_CELLS, ::NODE_CELLS]

    @cached_property
    def _costs(self) -> NDArray[np.float64]:
        """Cost factor of a step to each node, (rows, columns); inf if it is not free."""
        points = self._nodes.reshape(-1, 2)
        off = np.full(len(points), np.inf)
        for entry in self.truth.objects:
            if is_obstacle(entry.box, entry.kind, entry.support is not None):
                np.minimum(off, footprint_distance(entry.box, points), out=off)
        costs = np.full(self._nodes.shape[:2], np.inf)
        for margin, cost in ((CLEARANCE, TIGHT_COST), (COMFORT, 1.0)):
            free = self._walkway.free[margin][::NODE_CELLS, ::NODE_CELLS]
            costs[free & (off.reshape(costs.shape) >= margin)] = cost
        return costs

    def _find_paths(self, start: Point) -> Paths:
        from scipy.sparse.csgraph import dijkstra

        distances = np.linalg.norm(self._nodes - self._in_file(np.array([start]))[0], axis=-1)
        start_node = _argmin(np.where(np.isfinite(self._costs), distances, np.inf))
        shape = self._costs.shape
        if start_node is None:
            return Paths(np.full(shape, np.inf), np.full(shape, -1, np.int32))
        index = int(np.ravel_multi_index(start_node, shape))
        metres, before = dijkstra(self._steps, indices=index, return_predecessors=True)
        return Paths(metres.reshape(shape), before.reshape(shape))

    @cached_property
    def _steps(self) -> Any:
        """Sparse cost matrix of steps between neighbouring nodes: metres times the cost factor of the node entered."""
        from scipy.sparse import csr_matrix

        free = np.argwhere(np.isfinite(self._costs))
        shape = self._costs.shape
        starts, ends, metres = [], [], []
        for step in NEIGHBOURS:
            entered = free - step  # nodes from which this step enters a free node
            inside = ((entered >= 0) & (entered < shape)).all(axis=1)
            starts.append(np.ravel_multi_index(tuple(entered[inside].T), shape))
            ends.append(np.ravel_multi_index(tuple(free[inside].T), shape))
            metres.append(
                self._costs[tuple(free[inside].T)] * NODE_CELLS * CELL * math.hypot(*step)
            )
        edges = np.concatenate(metres), (np.concatenate(starts), np.concatenate(ends))
        return csr_matrix(edges, shape=(self._costs.size, self._costs.size))

    def _node(self, index: int) -> Node:
        row, column = np.unravel_index(index, self._costs.shape)
        return int(row), int(column)

    @cached_property
    def _in_rooms(self) -> list[Mask]:
        return [mask[::NODE_CELLS, ::NODE_CELLS] for mask in self._walkway.rooms]

    def _in_file(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert scene positions (n, 2) to the frame of the file."""
        return self._mirror(points) + self._origin

    def _from_file(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._mirror(points - self._origin)

    def _mirror(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._mirrored_at is None:
            return points
        result: NDArray[np.float64] = points * (-1.0, 1.0) + (2 * self._mirrored_at, 0.0)
        return result


def _argmin(values: NDArray[np.float64]) -> Node | None:
    """Return the index of the least value, None if all are infinite."""
    row, column = np.unravel_index(int(values.argmin()), values.shape)
    return (int(row), int(column)) if np.isfinite(values[row, column]) else None
