"""Procedural materials, evaluated per vertex: wood, cloth, plaster, tiles, prints.

Every material function returns a `Paint`. Colours are sRGB in 0 to 1, lengths are metres.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array
from render_agent_lab.room_generator.shapes import Paint

Colour = tuple[float, float, float]


def hash_cells(cells: NDArray[np.int64], seed: int) -> Array:
    """Return a hash in [0, 1) for every integer cell (n, k), identical on every machine."""
    value = np.full(len(cells), seed * 0x9E3779B1 + 0x7F4A7C15, np.uint64)
    for axis in range(cells.shape[1]):
        value ^= cells[:, axis].astype(np.uint64)
        value *= np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(29)
        value *= np.uint64(0x94D049BB133111EB)
        value ^= value >> np.uint64(32)
    return (value >> np.uint64(11)).astype(float) / 2.0**53


def noise(points: Array, size: float | Sequence[float], seed: int) -> Array:
    """Return smooth noise in 0 to 1 at points (n, 3), with features of about `size` metres along each axis."""
    scaled = points / np.asarray(size, float)
    cell = np.floor(scaled).astype(np.int64)
    part = scaled - cell
    part = part * part * (3 - 2 * part)
    total = np.zeros(len(points))
    for corner in range(8):
        step = np.array([corner >> 2 & 1, corner >> 1 & 1, corner & 1])
        weight = np.where(step, part, 1 - part).prod(1)
        total += weight * hash_cells(cell + step, seed)
    return total


def shade(colour: Sequence[float], factor: Array) -> Array:
    """Return `colour` times `factor` (n,), as (n, 3)."""
    return np.asarray(colour, float)[None] * factor[:, None]


def plain(colour: Sequence[float], roughness: float = 0.03, seed: int = 0) -> Paint:
    """One colour with slight variation: lacquer, plastic, metal."""
    return lambda points: shade(colour, 1 + roughness * (2 * noise(points, 0.15, seed) - 1))


def cloth(colour: Sequence[float], seed: int = 0, stripes: float = 0.0) -> Paint:
    """Woven cloth with fine grain and soft folds, and stripes `stripes` metres wide unless 0."""

    def paint(points: Array) -> Array:
        factor = 0.86 + 0.16 * noise(points, 0.03, seed) + 0.12 * noise(points, 0.25, seed + 1)
        if stripes:
            factor = factor * np.where(np.floor(points[:, 0] / stripes) % 2 == 0, 1.0, 0.78)
        return shade(colour, factor)

    return paint


def wood(colour: Sequence[float], along: int = 0, seed: int = 0) -> Paint:
    """Wood with its grain along axis 0, 1 or 2."""
    sizes = [0.045, 0.045, 0.045]
    sizes[along] = 0.7
    wide = [0.16, 0.16, 0.16]
    wide[along] = 1.5

    def paint(points: Array) -> Array:
        grain = noise(points, sizes, seed)
        return shade(colour, 0.8 + 0.2 * grain + 0.12 * noise(points, wide, seed + 1))

    return paint


def planks(colour: Sequence[float], width: float, length: float, along: int, seed: int) -> Paint:
    """A floor of staggered boards, `width` by `length` metres, along axis 0 or 1."""

    def paint(points: Array) -> Array:
        row = np.floor(points[:, 1 - along] / width).astype(np.int64)
        shift = hash_cells(row[:, None], seed) * length
        board = np.floor((points[:, along] + shift) / length).astype(np.int64)
        tone = hash_cells(np.stack([row, board], 1), seed + 1)
        sizes = [0.05, 0.05, 1.0]
        sizes[along] = 0.5
        grain = noise(points, sizes, seed + 2)
        warm = np.array([0.04, 0.0, -0.03])
        painted: Array = shade(colour, 0.78 + 0.26 * tone + 0.12 * grain) + tone[:, None] * warm
        return painted

    return paint


JOINT = 0.024  # metres, width of a joint between tiles


def joints(low: float, high: float, size: float) -> list[float]:
    """Return the coordinates in metres at which a tiled surface needs vertices."""
    edges = np.arange(math.floor(low / size), math.ceil(high / size) + 1) * size
    return sorted(float(edge + off) for edge in edges for off in (-JOINT / 2, 0.0, JOINT / 2))


def tiles(
    colour: Sequence[float] | Array,
    other: Sequence[float] | Array,
    size: float,
    axes: tuple[int, int],
    seed: int,
) -> Paint:
    """Square tiles, `size` metres wide, in a checkerboard; the surface needs vertices at their `joints`."""

    def paint(points: Array) -> Array:
        coordinates = points[:, axes] / size
        cell = np.floor(coordinates).astype(np.int64)
        odd = (cell.sum(1) % 2).astype(float)[:, None]
        tone = 0.94 + 0.1 * hash_cells(cell, seed)
        off_joint = (0.5 - np.abs(coordinates - cell - 0.5)).min(1) * size
        joint = (off_joint < JOINT / 4).astype(float)
        colours = np.asarray(colour, float) * (1 - odd) + np.asarray(other, float) * odd
        painted: Array = colours * (tone * (1 - 0.3 * joint))[:, None]
        return painted

    return paint


def plaster(colour: Sequence[float], seed: int) -> Paint:
    """A painted wall: faint large patches and a little grain."""

    def paint(points: Array) -> Array:
        broad, grain = noise(points, 0.9, seed), noise(points, 0.09, seed + 1)
        return shade(colour, 0.95 + 0.06 * broad + 0.03 * grain)

    return paint


def carpet(colour: Sequence[float], seed: int) -> Paint:
    """Fitted carpet: coarse grain and worn patches."""

    def paint(points: Array) -> Array:
        return shade(
            colour, 0.82 + 0.2 * noise(points, 0.06, seed) + 0.1 * noise(points, 0.6, seed + 1)
        )

    return paint


def leaves(colour: Sequence[float], seed: int) -> Paint:
    """Foliage with light and dark leaves."""
    return lambda points: shade(colour, 0.55 + 0.75 * noise(points, 0.05, seed))


def by_height(stops: Sequence[tuple[float, Colour]]) -> Paint:
    """Colours interpolated by height from ascending (metres, colour) stops."""
    heights = [height for height, _ in stops]
    colours = np.array([colour for _, colour in stops])

    def paint(points: Array) -> Array:
        return np.stack(
            [np.interp(points[:, 2], heights, colours[:, band]) for band in range(3)], 1
        )

    return paint


def picture(rng: np.random.Generator, low: Array, high: Array) -> Paint:
    """A print of hills, an abstract or a sunset, in the rectangle low to high, (2,) x and z metres."""
    kind = int(rng.integers(3))
    colours = rng.uniform(0.1, 0.95, (6, 3))
    spots = rng.uniform(0.1, 0.9, (6, 2))
    sizes = rng.uniform(0.1, 0.32, 6)
    phase = rng.uniform(0, 6)

    def paint(points: Array) -> Array:
        u, v = ((points[:, [0, 2]] - low) / (high - low)).T
        if kind == 0:
            return _hills(u, v, phase, colours)
        sky: Array = colours[0] * (1 - v[:, None]) + colours[1] * v[:, None]
        if kind == 1:
            sky = colours[0][None] * np.where(u < spots[0, 0], 1.0, 0.75)[:, None]
        for spot, size, colour in zip(spots, sizes, colours, strict=True):
            near = np.hypot(u - spot[0], v - spot[1]) < size
            if kind == 1:
                near = np.maximum(np.abs(u - spot[0]), np.abs(v - spot[1])) < size
            sky = np.where(near[:, None], colour, sky)
        return sky

    return paint


def _hills(u: Array, v: Array, phase: float, colours: Array) -> Array:
    sky = np.array([0.95, 0.85, 0.7]) * (1 - v[:, None]) + np.array([0.45, 0.65, 0.9]) * v[:, None]
    for row, level in enumerate((0.62, 0.45, 0.28)):
        ridge = level + 0.1 * np.sin(3 * u * (row + 1) * math.pi / 2 + phase + row)
        green = np.array([0.25, 0.5, 0.3]) * (1.2 - 0.25 * row) * (0.6 + 0.5 * colours[row])
        sky = np.where((v < ridge)[:, None], green, sky)
    return sky
