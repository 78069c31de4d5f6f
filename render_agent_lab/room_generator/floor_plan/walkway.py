"""Walkable floor as a grid of cells, with a connectivity check."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array, OrientedBox
from render_agent.tasks.boxes.room_ground_truth import Box2, Room

CELL = 0.05  # metres
CLEARANCE = 0.2  # metres the camera keeps from everything
COMFORT = 0.27  # metres of clearance with which every room must remain reachable
HEAD = 1.9  # metres; anything that hangs higher does not block

Mask = NDArray[np.bool_]


class Walkway:
    """Grid cells of free floor, maintained at two clearances while items are placed."""

    def __init__(self, rooms: Sequence[Room], ways: Sequence[Box2]) -> None:
        """Start with empty rooms and the doorways between them (x low, y low, x high, y high)."""
        corners = np.concatenate([room.corners for room in rooms])
        low, high = corners.min(0) - 0.1, corners.max(0) + 0.1
        shape = np.ceil((high - low) / CELL).astype(int)
        rows, columns = np.mgrid[0 : shape[0], 0 : shape[1]]
        self.centres: Array = low + (np.stack([rows, columns], -1) + 0.5) * CELL
        floor = self._floor(rooms, ways)
        self.rooms: list[Mask] = [room.holds(self._flat).reshape(floor.shape) for room in rooms]
        self.free = {margin: _erode(floor, margin) for margin in (CLEARANCE, COMFORT)}

    @property
    def _flat(self) -> Array:
        return self.centres.reshape(-1, 2)

    def _floor(self, rooms: Sequence[Room], ways: Sequence[Box2]) -> Mask:
        inside = np.zeros(len(self._flat), bool)
        for room in rooms:
            inside |= room.holds(self._flat)
        x, y = self._flat.T
        for a, b, c, d in ways:
            inside |= (x > a) & (x < c) & (y > b) & (y < d)
        return inside.reshape(self.centres.shape[:2])

    def without(self, box: OrientedBox) -> dict[float, Mask]:
        """Return the free cells that remain once an item occupies `box`."""
        near = footprint_distance(box, self._flat).reshape(self.centres.shape[:2])
        return {margin: free & (near >= margin) for margin, free in self.free.items()}

    def passable(self, free: dict[float, Mask]) -> bool:
        """Return True if all free floor is connected and every room is reachable in comfort."""
        if count_components(free[CLEARANCE]) != 1:
            return False
        labels, _ = _label(free[COMFORT])
        largest = np.bincount(labels[labels > 0]).argmax() if labels.any() else 0
        main = (labels == largest) & (largest > 0)
        return all(bool((main & room).sum() * CELL**2 > 0.6) for room in self.rooms)


def footprint_distance(box: OrientedBox, points: Array) -> Array:
    """Return the distances of points (n, 2) to the footprint of an upright box, (n,) metres."""
    offset = (points - box.centre[:2]) @ box.axes[:2, :2].T
    beyond = np.maximum(np.abs(offset) - box.size[:2] / 2, 0)
    return np.hypot(beyond[:, 0], beyond[:, 1])


def is_obstacle(box: OrientedBox, kind: str, supported: bool) -> bool:
    """Return True if an object blocks walking through its footprint."""
    return box.bounds[0, 2] < HEAD and not supported and kind not in ("rug", "curtain")


def count_components(free: Mask) -> int:
    """Return the number of connected components of the free cells (4-connectivity)."""
    return _label(free)[1]


def _label(free: Mask) -> tuple[NDArray[np.int32], int]:
    from scipy import ndimage

    labels, count = ndimage.label(free)
    return labels, int(count)


def _erode(floor: Mask, margin: float) -> Mask:
    from scipy import ndimage

    padded = np.pad(floor, 1)
    distance = ndimage.distance_transform_edt(padded)[1:-1, 1:-1] * CELL
    eroded: Mask = distance - CELL / 2 >= margin
    return eroded
