"""Places to stand: in the middle of a room, or next to a place that is not free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Clearances = Callable[[FloatArray, float], FloatArray]
"""Distances (n,) in metres from places (n, 3) to the nearest surface, inf beyond the given one."""

CLEARANCE_METRES = 0.2
"""Metres that a camera keeps from walls and furniture."""

SLACK_METRES = 0.01
"""Metres more than that are looked for, so that a camera is not stuck where it stands."""

LATTICE_METRES = 0.1
"""Metres between the places that are tried for standing."""

MAX_PLACES = 160_000

FLOOR_METRES = 0.15
"""Metres: surface this near to the floor's height is floor."""

GENEROUS_METRES = 0.6
"""Metres: more clearance than this makes a place no better."""

NEAR = ((0.05, 0.35), (0.1, 1.0), (0.3, 4.2))
"""Lattices in which a free place is looked for: their step and how far they reach, in metres."""


def free_place(
    clearances: Clearances, bounds: FloatArray, wanted: FloatArray, radius: float
) -> FloatArray | None:
    """Return the place nearest to `wanted`, (3,) metres, that has `radius` metres of clearance.

    bounds: (2, 3) metres. None where none is found within some metres.
    """
    middle = np.clip(wanted, bounds[0], bounds[1])
    for step, reach in NEAR:
        around = np.arange(-round(reach / step), round(reach / step) + 1) * step
        offsets = np.stack(np.meshgrid(around, around, around, indexing="ij"), axis=-1)
        places = middle + offsets.reshape(-1, 3)
        places = places[((places >= bounds[0]) & (places <= bounds[1])).all(axis=1)]
        places = places[np.argsort(((places - wanted) ** 2).sum(axis=1), kind="stable")]
        free = np.flatnonzero(
            clearances(places, radius + 2 * SLACK_METRES) >= radius + SLACK_METRES
        )
        if len(free):
            nearest: FloatArray = places[free[0]]
            return nearest
    return None


def standing_place(
    samples: FloatArray, clearances: Clearances, bounds: FloatArray, floor: float, height: float
) -> FloatArray:
    """Return a free place, (3,) metres, near the middle of the room.

    samples: (s, 3) metres, points of the surface. bounds: (2, 3) metres. height: metres above the
    floor, less under a low ceiling. Of the free places over scanned floor the largest area that
    hangs together counts, and of that what is near its middle and not narrow; where that is over
    furniture, such as a bed, those that are not count alone. Where no place at that height is free,
    the one with the most clearance.
    """
    places, room, free = _free_level(samples, clearances, bounds, floor, height, GENEROUS_METRES)
    if not free.any():
        return _most_clear(clearances, bounds)
    best = _middle_of(free, places, room)
    furniture = _over_furniture(samples, places, floor)
    if furniture[best] and (free & ~furniture).any():
        best = _middle_of(free & ~furniture, places, room)
    best_place: FloatArray = places[best]
    return best_place


def _middle_of(
    free: NDArray[np.bool_], places: FloatArray, room: FloatArray
) -> tuple[np.intp, ...]:
    """Return which place, by its indices, lies near the middle of the largest free area and is not narrow."""
    area = _largest_area(free)
    away = np.linalg.norm(places - places[area].mean(axis=0), axis=2)
    away -= np.minimum(room, GENEROUS_METRES)
    return np.unravel_index(np.where(area, away, np.inf).argmin(), area.shape)


def standing_places(
    samples: FloatArray, clearances: Clearances, bounds: FloatArray, floor: float, height: float
) -> FloatArray:
    """Return all free places of a lattice over scanned floor, (n, 3) metres; see `standing_place`.

    They lie LATTICE_METRES apart, farther in a very large scan. Where there is none, the one of
    `standing_place`.
    """
    reach = CLEARANCE_METRES + 2 * SLACK_METRES
    places, _, free = _free_level(samples, clearances, bounds, floor, height, reach)
    if not free.any():
        return _most_clear(clearances, bounds)[None]
    free_places: FloatArray = places[free]
    return free_places


def _free_level(
    samples: FloatArray,
    clearances: Clearances,
    bounds: FloatArray,
    floor: float,
    height: float,
    reach: float,
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return the places of a level lattice, (x, y, 3) metres, their clearances, and which are free.

    reach: metres up to which clearances are found. Free are those over scanned floor, where any is.
    """
    level = float(np.clip(floor + height, bounds[0, 2], bounds[1, 2]))
    x, y = _lattice(bounds)
    places = np.stack(np.meshgrid(x, y, [level], indexing="ij"), axis=-1)[:, :, 0]
    room = clearances(places.reshape(-1, 3), reach).reshape(len(x), len(y))
    free: NDArray[np.bool_] = room >= CLEARANCE_METRES + SLACK_METRES
    if free.any():
        over_floor = _over_floor(samples, x, y, floor)
        free = free & over_floor if (free & over_floor).any() else free
    return places, room, free


def _lattice(bounds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the x and the y of the places that are tried, in metres."""
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
    """Return which places, (len(x), len(y)) bool, have scanned floor below, small gaps closed."""
    from scipy.ndimage import binary_closing

    level = samples[np.abs(samples[:, 2] - floor) <= FLOOR_METRES]
    # Padded, as closing would otherwise take away the floor at the border.
    filled = np.pad(_counts(level, x, y) > 0, 4)
    padded: NDArray[np.bool_] = binary_closing(filled, iterations=3)
    return padded[4:-4, 4:-4]


def _over_furniture(samples: FloatArray, places: FloatArray, floor: float) -> NDArray[np.bool_]:
    """Return which places of a level lattice, (x, y, 3), have surface between them and the floor."""
    x, y, level = places[:, 0, 0], places[0, :, 1], places[0, 0, 2]
    between = samples[(samples[:, 2] > floor + FLOOR_METRES) & (samples[:, 2] < level)]
    return _counts(between, x, y) > 0


def _counts(samples: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Return how many samples lie over the cell around each place of a lattice, (len(x), len(y))."""
    edges = [
        np.append(along - step / 2, along[-1] + step / 2)
        for along in (x, y)
        for step in (along[1] - along[0] if len(along) > 1 else LATTICE_METRES,)
    ]
    counts: FloatArray = np.histogram2d(samples[:, 0], samples[:, 1], edges)[0]
    return counts


def _largest_area(places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    from scipy.ndimage import label

    areas: NDArray[Any] = label(places)[0]
    largest = int(np.bincount(areas.ravel())[1:].argmax()) + 1
    largest_area: NDArray[np.bool_] = areas == largest
    return largest_area


def _most_clear(clearances: Clearances, bounds: FloatArray) -> FloatArray:
    axes = [np.linspace(low, high, 30) for low, high in bounds.T]
    places = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    clearest: FloatArray = places[int(clearances(places, np.inf).argmax())]
    return clearest
