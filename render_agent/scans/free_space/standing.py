"""Finds free places: in the middle of a room, or nearest to an occupied place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.camera import FloatArray, Vector

Clearances = Callable[[FloatArray, float], FloatArray]
"""Maps places, (n, 3) metres, and a maximum to distances from the nearest surface, (n,) metres; inf beyond the maximum.
"""

CLEARANCE_METRES = 0.2  # distance that a camera keeps from walls and furniture
SLACK_METRES = 0.01  # extra clearance of chosen places, so that the camera is not stuck there
LATTICE_METRES = 0.1  # spacing of candidate places
MAX_PLACES = 160_000  # the lattice is coarser in scans that would need more candidates
FLOOR_METRES = 0.15  # surface within this height of the floor is floor
GENEROUS_METRES = 0.6  # more clearance than this does not make a place better

# Search lattices around an occupied place, fine to coarse: step and reach in metres.
NEAR = ((0.05, 0.35), (0.1, 1.0), (0.3, 4.2))


@dataclass(frozen=True, eq=False)
class StandingPlaces:
    """Finds free places in a room; all in metres."""

    samples: FloatArray  # surface points, (s, 3)
    clearances: Clearances
    bounds: FloatArray  # (2, 3)
    floor: float  # height of the floor

    def nearest(self, target: FloatArray, radius: float) -> FloatArray | None:
        """Return the nearest place to `target` with this clearance; None if there is none within a few metres."""
        low, high = self.bounds
        for step, reach in NEAR:
            around = np.arange(-round(reach / step), round(reach / step) + 1) * step
            offsets = np.stack(np.meshgrid(around, around, around, indexing="ij"), axis=-1)
            places = np.clip(target, low, high) + offsets.reshape(-1, 3)
            places = places[((places >= low) & (places <= high)).all(axis=1)]
            places = places[np.argsort(((places - target) ** 2).sum(axis=1), kind="stable")]
            clearances = self.clearances(places, radius + 2 * SLACK_METRES)
            free = np.flatnonzero(clearances >= radius + SLACK_METRES)
            if len(free):
                place: FloatArray = places[free[0]]
                return place
        return None

    def area(self, height: float) -> FloatArray:
        """Return the places of the room's open area, (n, 3). The first is near the middle and not in a narrow spot.

        The open area is the largest connected area of free places over scanned floor. Places over furniture, such as a
        bed, are only used if there are no others. If no place at this height is free, the place with the most clearance
        is returned.
        """
        places, clearance, free = self.level(height, GENEROUS_METRES)
        if not free.any():
            return self._most_clear()
        area = _largest_area(free)
        middle = _middle_of(area, places, clearance)
        bare = free & ~_over_furniture(self.samples, places, self.floor)
        if not bare[middle] and bare.any():
            area = _largest_area(bare)
            middle = _middle_of(area, places, clearance)
        bare &= area
        area_places = bare if bare.any() else area
        return np.concatenate([places[middle][None], places[area_places]])

    def at_height(self, height: float) -> FloatArray:
        """Return all free lattice places over scanned floor, (n, 3); see `area`.

        They are LATTICE_METRES apart, or more in very large scans. If none is free, the place with the most clearance is
        returned.
        """
        places, _, free = self.level(height)
        return places[free] if free.any() else self._most_clear()

    def level(
        self, height: float, reach: float = CLEARANCE_METRES + 2 * SLACK_METRES
    ) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
        """Return a horizontal lattice of places, (x, y, 3), their clearances, (x, y), and which are free, (x, y).

        Clearances are measured up to `reach`. Places over scanned floor are preferred: if any of them is free, other
        places do not count as free.
        """
        level = float(np.clip(self.floor + height, self.bounds[0, 2], self.bounds[1, 2]))
        x, y = _lattice(self.bounds)
        places = np.stack(np.meshgrid(x, y, [level], indexing="ij"), axis=-1)[:, :, 0]
        clearance = self.clearances(places.reshape(-1, 3), reach).reshape(len(x), len(y))
        free: NDArray[np.bool_] = clearance >= CLEARANCE_METRES + SLACK_METRES
        if free.any():
            over_floor = _over_floor(self.samples, x, y, self.floor)
            free = free & over_floor if (free & over_floor).any() else free
        return places, clearance, free

    def _most_clear(self) -> FloatArray:
        axes = [np.linspace(low, high, 30) for low, high in self.bounds.T]
        places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        clearest: FloatArray = places[[int(self.clearances(places, np.inf).argmax())]]
        return clearest


def _middle_of(
    area: NDArray[np.bool_], places: FloatArray, clearance: FloatArray
) -> tuple[np.intp, ...]:
    """Return the indices of a place near the middle of an area, not in a narrow spot."""
    penalties = np.linalg.norm(places - places[area].mean(axis=0), axis=2)
    penalties -= np.minimum(clearance, GENEROUS_METRES)
    return np.unravel_index(np.where(area, penalties, np.inf).argmin(), area.shape)


def farthest_point_sample(
    places: FloatArray, first: FloatArray | Vector, most: int
) -> list[Vector]:
    """Return at most `most` places, (n, 3) metres, by farthest-point sampling from `first`, which is not included."""
    away = np.linalg.norm(places - np.array(first), axis=1)
    positions: list[Vector] = []
    while len(positions) < min(most, len(places)):
        index = int(away.argmax())
        if away[index] <= 0:
            break
        x, y, z = (float(value) for value in places[index])
        positions.append((x, y, z))
        away = np.minimum(away, np.linalg.norm(places - places[index], axis=1))
    return positions


def _lattice(bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the x and y coordinates of the candidate places in metres."""
    size = bounds[1] - bounds[0]
    step = max(
        LATTICE_METRES, float(np.sqrt(size[0] * size[1] / MAX_PLACES)), float(size.max()) / 4000
    )
    x, y = (
        bounds[0, axis] + step * (np.arange(max(1, int(size[axis] / step))) + 0.5)
        for axis in (0, 1)
    )
    return x, y


def _over_floor(
    samples: FloatArray, x: FloatArray, y: FloatArray, floor: float
) -> NDArray[np.bool_]:
    """Return which places have scanned floor below, (len(x), len(y)) bool, with small gaps closed."""
    from scipy.ndimage import binary_closing

    level = samples[np.abs(samples[:, 2] - floor) <= FLOOR_METRES]
    # Padded, because closing would erode the floor at the border.
    occupied = np.pad(_counts(level, x, y) > 0, 4)
    closed_cells: NDArray[np.bool_] = binary_closing(occupied, iterations=3)
    return closed_cells[4:-4, 4:-4]


def _over_furniture(samples: FloatArray, places: FloatArray, floor: float) -> NDArray[np.bool_]:
    """Return which places of a horizontal lattice, (x, y, 3), have surface between them and the floor, (x, y) bool."""
    x, y, level = places[:, 0, 0], places[0, :, 1], places[0, 0, 2]
    furniture = samples[(samples[:, 2] > floor + FLOOR_METRES) & (samples[:, 2] < level)]
    return _counts(furniture, x, y) > 0


def _counts(samples: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the number of samples in the cell around each lattice place, (len(x), len(y))."""
    edges = [
        np.append(centres - step / 2, centres[-1] + step / 2)
        for centres in (x, y)
        for step in (centres[1] - centres[0] if len(centres) > 1 else LATTICE_METRES,)
    ]
    counts: FloatArray = np.histogram2d(samples[:, 0], samples[:, 1], edges)[0]
    return counts


def _largest_area(places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    from scipy.ndimage import label

    areas: NDArray[Any] = label(places)[0]
    largest = int(np.bincount(areas.ravel())[1:].argmax()) + 1
    largest_area: NDArray[np.bool_] = areas == largest
    return largest_area
