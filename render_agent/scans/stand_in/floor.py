"""The floor of a room that is known by its area and its boxes alone: square cells under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

CELL_METRES = 0.2
"""The side of the square cells that a floor is made of, about."""


@dataclass(frozen=True, eq=False)
class Floor:
    """A floor of square cells, turned by `yaw` radians about the world's z axis.

    cells: (n, 2) integers, each once. side: metres. A cell's lowest corner lies at cell × side in the
    turned frame; `turn`, (2, 2), holds that frame's axes in its rows.
    """

    cells: NDArray[np.int64]
    side: float
    turn: FloatArray

    @property
    def area(self) -> float:
        """Square metres."""
        return len(self.cells) * self.side**2

    def squares(self) -> FloatArray:
        """Return the corners of the cells, counter-clockwise: (n, 4, 2) metres, world frame."""
        around = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        corners: FloatArray = (self.cells[:, None] + around) * self.side @ self.turn
        return corners

    def border(self) -> FloatArray:
        """Return the sides of cells beyond which there is no floor: (k, 2, 2) ends, metres, world."""
        places = (self.cells - self.cells.min(axis=0) + 1).T
        here = np.zeros(places.max(axis=1) + 2, bool)
        here[tuple(places)] = True
        beyond = [(0, -1), (1, 0), (0, 1), (-1, 0)]  # by the corner that the side begins at
        ends = np.array([~here[places[0] + right, places[1] + up] for right, up in beyond]).T
        number, first = np.nonzero(ends)
        squares = self.squares()
        return np.stack([squares[number, first], squares[number, (first + 1) % 4]], axis=1)


def floor_under(corners: FloatArray, directions: FloatArray, area: float) -> Floor:
    """Return a floor of exactly `area` square metres under some boxes.

    corners: (b, 8, 3) metres, world frame. directions: (d, 2), horizontal edges of the boxes, metres:
    the floor is parallel to most of them. A rectangle around the boxes where the area is enough for
    one, else of that rectangle what is nearest to them.
    """
    turn = _turn(directions)
    count = max(1, round(area / CELL_METRES**2))
    side = float(np.sqrt(area / count))
    turned = corners[:, :, :2] @ turn.T
    low, high = turned.min(axis=1), turned.max(axis=1)
    inner = low.min(axis=0), high.max(axis=0)
    # So wide that the rectangle of all cells has more than the area, however thin its middle is.
    margin = np.sqrt(area) / 2 + 2 * side
    first = np.floor((inner[0] - margin) / side).astype(np.int64)
    last = np.ceil((inner[1] + margin) / side).astype(np.int64)
    cells = np.stack(
        np.meshgrid(*(np.arange(a, b) for a, b in zip(first, last, strict=True)), indexing="ij"),
        axis=-1,
    ).reshape(-1, 2)
    middles = (cells + 0.5) * side
    outside = _away(middles, inner[0][None], inner[1][None])
    # Within half a cell the rectangle's edge is rounded to whole cells.
    outside = np.where(outside <= side / 2, 0.0, outside)
    order = np.lexsort((cells[:, 0], cells[:, 1], _away(middles, low, high).round(6), outside))
    return Floor(cells[np.sort(order[:count])], side, turn)


def _turn(directions: FloatArray) -> FloatArray:
    """Return the axes, (2, 2) rows, to which most of the given edges are parallel or at right angles."""
    turns = directions[:, 0] + 1j * directions[:, 1]
    lengths = np.abs(turns)
    used = lengths > 1e-9
    # To the fourth power, edges that differ by right angles point the same way.
    mean = ((turns[used] / lengths[used]) ** 4 * lengths[used]).sum() if used.any() else 1.0
    yaw = float(np.angle(mean)) / 4 if abs(mean) > 1e-9 else 0.0
    return np.array([[np.cos(yaw), np.sin(yaw)], [-np.sin(yaw), np.cos(yaw)]])


def _away(places: FloatArray, low: FloatArray, high: FloatArray) -> NDArray[Any]:
    """Return how far places (n, 2) lie outside the nearest rectangle (r, 2) to (r, 2): (n,) metres.

    The larger of the two distances along the axes counts, so that what is equally far from a
    rectangle is a rectangle.
    """
    nearest = np.full(len(places), np.inf)
    for lowest, highest in zip(low, high, strict=True):
        along = np.maximum(lowest - places, places - highest).T
        nearest = np.minimum(nearest, np.maximum(np.maximum(*along), 0.0))
    return nearest
