"""Constructs a floor of square cells from a room's area and the boxes on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

CELL_METRES = 0.2  # approximate side of the floor's cells


@dataclass(frozen=True, eq=False)
class Floor:
    """A floor of square cells, rotated about the world's z axis."""

    cells: NDArray[np.int64]
    """(n, 2) integers, unique. A cell's lowest corner is at cell × side in the rotated frame."""
    side: float  # side of a cell in metres
    turn: FloatArray  # (2, 2), the axes of the rotated frame as rows

    @property
    def area(self) -> float:
        """Area in square metres."""
        return len(self.cells) * self.side**2

    def squares(self) -> FloatArray:
        """Return the corners of the cells, counter-clockwise, (n, 4, 2) metres, world frame."""
        offsets = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        corners: FloatArray = (self.cells[:, None] + offsets) * self.side @ self.turn
        return corners

    def border(self) -> FloatArray:
        """Return the cell sides at the border of the floor as segments, (k, 2, 2) metres, world frame."""
        places = (self.cells - self.cells.min(axis=0) + 1).T
        occupied = np.zeros(places.max(axis=1) + 2, bool)
        occupied[tuple(places)] = True
        # the neighbour beyond each side, in the order of the corners at which the sides start
        sides = [(0, -1), (1, 0), (0, 1), (-1, 0)]
        ends = np.array([~occupied[places[0] + right, places[1] + up] for right, up in sides]).T
        number, first = np.nonzero(ends)
        squares = self.squares()
        return np.stack([squares[number, first], squares[number, (first + 1) % 4]], axis=1)


def floor_under(
    corners: FloatArray,  # corners of the boxes, (b, 8, 3) metres, world frame
    # horizontal edges of the boxes, (d, 2) metres; the floor is parallel to most of them
    directions: FloatArray,
    area: float,  # square metres
) -> Floor:
    """Construct a floor of exactly `area` square metres under boxes.

    If the area is large enough, the floor is a rectangle around the boxes; otherwise, the part of that rectangle that
    is nearest to the boxes.
    """
    turn = _turn(directions)
    count = max(1, round(area / CELL_METRES**2))
    side = float(np.sqrt(area / count))
    rotated_corners = corners[:, :, :2] @ turn.T
    low, high = rotated_corners.min(axis=1), rotated_corners.max(axis=1)
    inner = low.min(axis=0), high.max(axis=0)
    # Wide enough for the candidate cells to exceed the area, however elongated the inner rectangle is.
    margin = np.sqrt(area) / 2 + 2 * side
    first = np.floor((inner[0] - margin) / side).astype(np.int64)
    last = np.ceil((inner[1] + margin) / side).astype(np.int64)
    cells = np.stack(
        np.meshgrid(*(np.arange(a, b) for a, b in zip(first, last, strict=True)), indexing="ij"),
        axis=-1,
    ).reshape(-1, 2)
    middles = (cells + 0.5) * side
    outside = _away(middles, inner[0][None], inner[1][None])
    # Distances up to half a cell come from rounding the rectangle to whole cells.
    outside = np.where(outside <= side / 2, 0.0, outside)
    order = np.lexsort((cells[:, 0], cells[:, 1], _away(middles, low, high).round(6), outside))
    return Floor(cells[np.sort(order[:count])], side, turn)


def _turn(directions: FloatArray) -> FloatArray:
    """Return the axes, (2, 2) rows, to which most edges are parallel or perpendicular."""
    turns = directions[:, 0] + 1j * directions[:, 1]
    lengths = np.abs(turns)
    mask = lengths > 1e-9
    # The fourth power maps directions that differ by right angles to the same angle.
    mean = ((turns[mask] / lengths[mask]) ** 4 * lengths[mask]).sum() if mask.any() else 1.0
    yaw = float(np.angle(mean)) / 4 if abs(mean) > 1e-9 else 0.0
    return np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])


def _away(places: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[Any]:
    """Return the distance of places, (n, 2), from the nearest rectangle with corners `low` and `high`, (r, 2): (n,) metres.

    Uses the Chebyshev distance, so that places at equal distance from a rectangle form a rectangle.
    """
    nearest = np.full(len(places), np.inf)
    for low_corner, high_corner in zip(low, high, strict=True):
        distances = np.maximum(low_corner - places, places - high_corner).T
        nearest = np.minimum(nearest, np.maximum(np.maximum(*distances), 0.0))
    return nearest
