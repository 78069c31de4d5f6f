"""Plants, pictures, textiles, doors and windows. Metres, front towards -y."""

from __future__ import annotations

import math

import numpy as np

from render_agent.scans.boxes import Array
from render_agent_lab.room_generator.furniture.piece import (
    BLACK,
    CHROME,
    CLOTHS,
    METALS,
    WHITES,
    Piece,
)
from render_agent_lab.room_generator.paint import by_height, cloth, leaves, picture, plain
from render_agent_lab.room_generator.shapes import (
    Mesh,
    Paint,
    box,
    ellipsoid,
    lattice_surface,
    panel,
    subdivide,
)


def plant(piece: Piece) -> None:
    _add_pot(piece, piece.between(0.6, 1.4), piece.between(0.2, 0.32))


def small_plant(piece: Piece) -> None:
    _add_pot(piece, piece.between(0.3, 0.42), piece.between(0.11, 0.15))


def _add_pot(piece: Piece, height: float, pot: float) -> None:
    clay = plain(piece.one_of(((0.68, 0.38, 0.26), *WHITES, (0.3, 0.32, 0.35))), 0.05, piece.seed)
    radius = pot * piece.between(0.5, 0.6)
    piece.revolved(
        [(0.01, 0), (radius * 0.72, 0), (radius * 0.74, 0.01), (radius, pot), (radius - 0.02, pot)],
        clay,
    )
    piece.revolved([(radius - 0.02, pot - 0.03), (0.01, pot - 0.02)], plain((0.2, 0.14, 0.1)))
    piece.rod((0, 0, pot - 0.02), (0.02, 0.01, height * 0.75), 0.018, plain((0.4, 0.3, 0.18)))
    green = (piece.between(0.15, 0.3), piece.between(0.4, 0.55), piece.between(0.15, 0.25))
    spread = min(0.3, height * 0.28)
    for tuft in range(9):
        angle, level = tuft * 2.4, piece.between(0.0, 1.0)
        reach = spread * (0.35 + 0.65 * math.sin(math.pi * (0.25 + 0.6 * level)))
        x, y = reach * math.cos(angle), reach * math.sin(angle)
        z = pot + (height - pot) * (0.15 + 0.65 * level)
        piece.rod((0, 0, max(pot, z - 0.12)), (x, y, z), 0.006, leaves(green, piece.seed))
        size = piece.between(0.22, 0.34) * min(0.38, height - pot)
        leaf = ellipsoid(
            (x, y, z), (size, size, size * 0.6), min(piece.step, 0.045), leaves(green, piece.seed)
        )
        piece.add(leaf)


def framed_picture(piece: Piece) -> None:
    width, height = piece.between(0.35, 0.95), piece.between(0.35, 0.75)
    frame = piece.timber(0) if piece.chance(0.6) else plain(BLACK)
    x, edge = width / 2, 0.03
    for low, high in (
        ((-x, -0.02, 0), (x, 0.01, edge)),
        ((-x, -0.02, height - edge), (x, 0.01, height)),
        ((-x, -0.02, edge), (-x + edge, 0.01, height - edge)),
        ((x - edge, -0.02, edge), (x, 0.01, height - edge)),
    ):
        piece.box(low, high, frame)
    mount = 0.05 if piece.chance(0.5) else 0.0
    low, high = (-x + edge, -0.008, edge), (x - edge, 0.0, height - edge)
    piece.box(low, high, plain((0.95, 0.94, 0.9)), 3)
    corner = np.array([-x + edge + mount, edge + mount])
    print_ = picture(piece.rng, corner, np.array([x - edge - mount, height - edge - mount]))
    wide, tall = -2 * corner[0], height - edge - mount - corner[1]
    origin = (corner[0], -0.0095, corner[1])
    piece.add(panel(origin, (wide, 0, 0), (0, 0, tall), 0.024, print_))


def mirror(piece: Piece) -> None:
    width, height = piece.between(0.45, 0.7), piece.between(0.6, 1.1)
    frame = piece.timber(2) if piece.chance(0.5) else plain(CHROME)
    piece.box((-width / 2, -0.015, 0), (width / 2, 0.01, height), frame)
    glass = by_height(
        [(0, (0.55, 0.6, 0.63)), (height * 0.5, (0.78, 0.83, 0.86)), (height, (0.68, 0.74, 0.78))]
    )
    piece.box((-width / 2 + 0.03, -0.019, 0.03), (width / 2 - 0.03, -0.015, height - 0.03), glass)


def clock(piece: Piece) -> None:
    radius = piece.between(0.13, 0.19)
    case = plain(piece.one_of((BLACK, *METALS, (0.6, 0.2, 0.15))))
    piece.add(_disc(0.0, radius, 0.03, case))
    piece.add(_disc(-0.031, radius * 0.9, 0.003, plain((0.97, 0.96, 0.92))))
    dark = plain((0.08, 0.08, 0.08))
    for hour in range(12):
        angle = hour * math.pi / 6
        x, z = radius * 0.78 * math.cos(angle), radius * 0.78 * math.sin(angle)
        piece.centred((x, -0.036, z), (0.012, 0.004, 0.012), dark)
    for length, turn in ((0.45, 1.1), (0.7, 2.9)):
        end = (radius * length * math.cos(turn), -0.037, radius * length * math.sin(turn))
        piece.rod((0, -0.037, 0), end, 0.005, dark)


def _disc(front: float, radius: float, thick: float, paint: Paint) -> Mesh:
    """Return a disc with its axis along y: back at `front`, face `thick` metres in front of it."""
    angle = np.linspace(0, 2 * math.pi, 25)
    rings = [
        (radius, front),
        (radius, front - thick),
        (radius * 0.5, front - thick),
        (0.001, front - thick),
    ]
    points = [[(r * math.cos(a), y, r * math.sin(a)) for a in angle] for r, y in rings]
    return lattice_surface(np.array(points), paint)


def rug(piece: Piece) -> None:
    width, depth = piece.between(1.6, 2.3), piece.between(1.1, 1.6)
    ground, band = np.array(piece.one_of(CLOTHS)), np.array(piece.one_of(CLOTHS + WHITES))
    pitch = piece.between(0.2, 0.35)
    weave = cloth((1, 1, 1), piece.seed)

    def paint(points: Array) -> Array:
        x, y = points[:, 0], points[:, 1]
        inside = np.minimum(width / 2 - np.abs(x), depth / 2 - np.abs(y))
        rhombs = (np.abs((x / pitch) % 1 - 0.5) + np.abs((y / pitch) % 1 - 0.5)) < 0.3
        edge = (inside > 0.06) & (inside < 0.16)
        mark = (edge | (rhombs & (inside > 0.2)))[:, None]
        return np.where(mark, band, ground) * weave(points)

    piece.add(box((-width / 2, -depth / 2, 0), (width / 2, depth / 2, 0.01), piece.step, paint, 5))


def curtain(piece: Piece, height: float = 2.2) -> None:
    """A pleated curtain, `height` metres long, with a hem and a header."""
    width, colour = piece.between(0.35, 0.5), piece.one_of(CLOTHS + WHITES)
    folds, across = piece.between(5, 7), subdivide(0, 1, 0.05)
    up = subdivide(0, height, max(piece.step * 1.5, 0.08))
    wave = 0.035 * np.sin(across * folds * 2 * math.pi)
    weave = cloth(colour, piece.seed)

    def paint(points: Array) -> Array:
        return weave(points) * (0.9 - 4 * points[:, 1:2])

    for turn in (1, -1):
        points = np.empty((len(up), len(across), 3))
        points[..., 0] = (across[::turn] - 0.5)[None] * width
        points[..., 1] = wave[::turn][None] + (0.002 if turn < 0 else 0)
        points[..., 2] = up[:, None]
        piece.add(lattice_surface(points, paint))
    piece.box(
        (-width / 2, -0.045, height), (width / 2, 0.045, height + 0.04), plain(piece.one_of(METALS))
    )


def whiteboard(piece: Piece) -> None:
    width, height = piece.between(1.2, 1.8), piece.between(0.9, 1.2)
    metal = plain(METALS[0])
    piece.box((-width / 2, -0.015, 0), (width / 2, 0.01, height), metal, 4)
    ink = np.array(piece.one_of(((0.1, 0.2, 0.7), (0.75, 0.1, 0.1), (0.1, 0.1, 0.1))))
    rows = piece.rng.uniform(0.2, 0.85, 4)

    def paint(points: Array) -> Array:
        x, z = points[:, 0] / width, points[:, 2] / height
        line = np.zeros(len(points), bool)
        for row in rows:
            line |= (np.abs(z - row - 0.02 * np.sin(40 * x + 9 * row)) < 0.012) & (
                np.abs(x + 0.1) < row / 3
            )
        return np.where(line[:, None], ink, np.array([0.96, 0.96, 0.96]))

    origin = (-width / 2 + 0.025, -0.0165, 0.025)
    piece.add(panel(origin, (width - 0.05, 0, 0), (0, 0, height - 0.05), 0.035, paint))
    piece.box((-0.3, -0.08, -0.02), (0.3, -0.015, 0), metal)


def fireplace(piece: Piece) -> None:
    width, height = piece.between(1.1, 1.4), piece.between(0.95, 1.15)
    stone = plain(
        piece.one_of(((0.82, 0.8, 0.76), (0.55, 0.52, 0.5), (0.62, 0.36, 0.29))), 0.18, piece.seed
    )
    x = width / 2
    for side in (-1, 1):
        piece.centred((side * (x - 0.13), 0, height / 2), (0.26, 0.36, height), stone)
    piece.box((-x + 0.26, -0.18, height - 0.28), (x - 0.26, 0.18, height), stone)
    piece.box((-x - 0.06, -0.24, height), (x + 0.06, 0.18, height + 0.06), stone)
    piece.box(
        (-x + 0.26, 0.1, 0),
        (x - 0.26, 0.18, height - 0.28),
        plain((0.08, 0.07, 0.06), 0.3, piece.seed),
    )
    piece.box((-x - 0.04, -0.4, 0), (x + 0.04, -0.18, 0.05), stone)
    bark = piece.timber(0, (0.35, 0.22, 0.14))
    for y, z in ((-0.06, 0.06), (0.04, 0.06), (-0.01, 0.15)):
        piece.rod((-0.2, y, z), (0.2, y, z), 0.05, bark)
    piece.top = height + 0.06


def door_leaf(piece: Piece, width: float = 0.86, height: float = 2.03) -> None:
    paint = piece.finish()
    x = width / 2
    piece.box((-x, -0.02, 0.008), (x, 0.02, height), paint, 2)
    dark = plain((0.35, 0.3, 0.26))
    for low, high in ((0.2, 0.9), (1.05, height - 0.18)):
        for side in (-1, 1):
            piece.box(
                (-x + 0.13, side * 0.023 - 0.003, low),
                (x - 0.13, side * 0.023 + 0.003, high),
                paint,
                2,
            )
    for side in (-1, 1):
        piece.centred((x - 0.07, side * 0.024, 1.02), (0.04, 0.008, 0.2), dark)
        piece.rod(
            (x - 0.07, side * 0.06, 1.05), (x - 0.19, side * 0.06, 1.05), 0.011, plain(CHROME)
        )
        piece.rod(
            (x - 0.07, side * 0.02, 1.05), (x - 0.07, side * 0.06, 1.05), 0.011, plain(CHROME)
        )


def window(piece: Piece, width: float = 1.2, height: float = 1.2) -> None:
    white = plain(piece.one_of((WHITES[0], WHITES[0], (0.5, 0.36, 0.24))), 0.02, piece.seed)
    x, bar, seed = width / 2, 0.06, piece.seed
    bars = [
        ((-x, 0), (x, bar)),
        ((-x, height - bar), (x, height)),
        ((-x, bar), (-x + bar, height - bar)),
    ]
    bars.append(((x - bar, bar), (x, height - bar)))
    if width > 0.8:
        bars.append(((-bar / 2, bar), (bar / 2, height - bar)))
    for (left, low), (right, high) in bars:
        piece.box((left, -0.03, low), (right, 0.03, high), white)
    view = by_height(
        [
            (0, (0.42, 0.5, 0.36)),
            (height * 0.3, (0.5, 0.6, 0.45)),
            (height * 0.45, (0.78, 0.86, 0.93)),
            (height, (0.62, 0.79, 0.97)),
        ]
    )
    trees = leaves((1, 1, 1), seed)

    def paint(points: Array) -> Array:
        low = points[:, 2] < height * (0.38 + 0.06 * np.sin(points[:, 0] * 5 + seed % 7))
        return np.where(low[:, None], view(points) * (0.45 + 0.6 * trees(points)), view(points))

    piece.add(box((-x + bar, -0.008, bar), (x - bar, 0.008, height - bar), 0.09, paint, 9))
    handle = 0.0 if width > 0.8 else x - bar / 2
    piece.centred((handle, -0.045, height * 0.5), (0.025, 0.03, 0.1), plain(CHROME))
