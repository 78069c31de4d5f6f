"""Kitchen and bathroom furniture. Each function adds its parts to a piece; metres, front towards -y."""

from __future__ import annotations

import math

import numpy as np

from render_agent_lab.room_generator.furniture.piece import (
    BLACK,
    CHROME,
    CLOTHS,
    METALS,
    WHITES,
    Piece,
)
from render_agent_lab.room_generator.paint import cloth, plain
from render_agent_lab.room_generator.shapes import (
    Paint,
    ellipsoid,
    lattice_surface,
    panel,
    subdivide,
)

DARK_GLASS = (0.1, 0.11, 0.13)


def refrigerator(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.58, 0.7), (0.6, 0.68), (1.55, 1.9))
    shell = plain(piece.one_of((*WHITES, (0.72, 0.73, 0.75))), 0.02, piece.seed)
    steel = plain(CHROME)
    x, y, split = width / 2, depth / 2, height * piece.between(0.32, 0.4)
    piece.box((-x, -y + 0.06, 0.04), (x, y, height), shell)
    piece.box((-x, -y, 0.05), (x, -y + 0.055, split - 0.005), shell)
    piece.box((-x, -y, split + 0.005), (x, -y + 0.055, height), shell)
    for low, high in ((split - 0.35, split - 0.06), (split + 0.06, split + 0.5)):
        piece.box((x - 0.06, -y - 0.035, low), (x - 0.035, -y, high), steel)
    piece.legs(width - 0.04, depth - 0.08, 0.04, 0.04, plain(BLACK))


def stove(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.56, 0.62), (0.58, 0.62), (0.86, 0.92))
    shell = plain(piece.one_of((WHITES[0], (0.7, 0.71, 0.73))), 0.02, piece.seed)
    steel, glass = plain(CHROME), plain(DARK_GLASS)
    x, y = width / 2, depth / 2
    piece.box((-x, -y + 0.03, 0.0), (x, y, height - 0.02), shell)
    piece.box((-x, -y, height - 0.02), (x, y, height), glass)
    piece.box((-x + 0.02, -y + 0.005, 0.15), (x - 0.02, -y + 0.03, height - 0.2), shell)
    piece.box((-x + 0.09, -y, 0.26), (x - 0.09, -y + 0.005, height - 0.34), glass)
    piece.rod(
        (-x + 0.06, -y - 0.03, height - 0.26), (x - 0.06, -y - 0.03, height - 0.26), 0.012, steel
    )
    for knob in range(5):
        piece.ball(((knob - 2) * width / 6, -y + 0.02, height - 0.1), 0.022, plain(BLACK))
    for index, (u, v) in enumerate(((-1, -1), (1, -1), (-1, 1), (1, 1))):
        ring = 0.1 if index in (0, 3) else 0.08
        piece.pillar(u * 0.14, v * 0.14, ring, height, height + 0.008, plain((0.3, 0.3, 0.31)))
    piece.top = None


def counter(piece: Piece, width: float = 1.6) -> None:
    """A run of base units under a worktop, `width` metres long, with doors and drawers."""
    depth, height = 0.6, piece.between(0.88, 0.92)
    front = piece.finish()
    top = piece.one_of(((0.35, 0.35, 0.36), (0.8, 0.77, 0.72), (0.55, 0.4, 0.27)))
    steel = plain(piece.one_of(METALS))
    x, y = width / 2, depth / 2
    piece.box((-x, -y + 0.06, 0), (x, y, 0.1), plain(BLACK))
    piece.box((-x, -y + 0.03, 0.1), (x, y, height - 0.04), front)
    piece.box((-x, -y, height - 0.04), (x, y, height), plain(top, 0.12, piece.seed))
    units = max(1, round(width / 0.55))
    each = width / units
    for unit in range(units):
        left = -x + unit * each
        rows = 3 if unit % 3 == 1 else 1
        for row in range(rows):
            high = (height - 0.16) / rows
            low = 0.11 + row * high
            piece.box(
                (left + 0.006, -y + 0.012, low),
                (left + each - 0.006, -y + 0.03, low + high - 0.01),
                front,
            )
            piece.centred(
                (left + each / 2, -y + 0.004, low + high - 0.05), (0.14, 0.016, 0.014), steel
            )
    piece.top = height


def kitchen_sink(piece: Piece) -> None:
    steel = plain((0.7, 0.72, 0.74), 0.05, piece.seed)
    piece.box((-0.4, -0.2, 0), (0.4, 0.22, 0.012), steel)
    piece.box(
        (-0.36, -0.17, 0.012), (0.02, 0.14, 0.014), plain((0.33, 0.34, 0.35), 0.15, piece.seed)
    )
    for groove in range(6):
        x = 0.08 + groove * 0.05
        piece.box((x, -0.15, 0.012), (x + 0.015, 0.13, 0.018), steel)
    _tap(piece, -0.17, 0.012, 0.26)


def _tap(piece: Piece, x: float, low: float, height: float) -> None:
    y, chrome = 0.18, plain(CHROME)
    piece.rod((x, y, low), (x, y, low + height), 0.014, chrome)
    piece.rod((x, y, low + height - 0.01), (x, y - 0.17, low + height - 0.03), 0.011, chrome)
    piece.rod((x, y - 0.17, low + height - 0.02), (x, y - 0.17, low + height - 0.07), 0.011, chrome)
    piece.rod((x + 0.01, y, low + 0.06), (x + 0.07, y, low + 0.08), 0.008, chrome)


def microwave(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.45, 0.52), (0.34, 0.4), (0.26, 0.3))
    shell = plain(piece.one_of((WHITES[0], METALS[0], (0.15, 0.15, 0.16))), 0.03, piece.seed)
    x, y = width / 2, depth / 2
    piece.box((-x, -y + 0.02, 0.01), (x, y, height), shell)
    piece.box((-x, -y, 0.015), (x - 0.12, -y + 0.02, height - 0.005), plain(DARK_GLASS))
    piece.box((x - 0.118, -y + 0.004, 0.015), (x, -y + 0.02, height - 0.005), shell)
    piece.box((x - 0.14, -y - 0.025, 0.05), (x - 0.122, -y, height - 0.04), plain(CHROME))
    for row in range(3):
        for column in range(2):
            centre = (x - 0.08 + column * 0.045, -y + 0.002, 0.08 + row * 0.045)
            piece.centred(centre, (0.03, 0.006, 0.025), plain((0.5, 0.5, 0.52)))


def kettle(piece: Piece) -> None:
    body = plain(piece.one_of((CHROME, (0.75, 0.2, 0.17), WHITES[0])), 0.05, piece.seed)
    piece.revolved(
        [(0.005, 0), (0.085, 0), (0.09, 0.03), (0.07, 0.19), (0.055, 0.215), (0.005, 0.22)], body
    )
    piece.ball((0, 0, 0.23), 0.015, plain(BLACK))
    piece.rod((-0.07, 0, 0.13), (-0.13, 0, 0.2), 0.017, body)
    for low, high in (
        ((0.07, 0, 0.18), (0.13, 0, 0.18)),
        ((0.13, 0, 0.18), (0.12, 0, 0.05)),
        ((0.12, 0, 0.05), (0.08, 0, 0.05)),
    ):
        piece.rod(low, high, 0.011, plain(BLACK))


def washer(piece: Piece) -> None:
    _machine(piece, piece.between(0.58, 0.61), piece.between(0.52, 0.6), 0.85)


def _machine(piece: Piece, width: float, depth: float, height: float) -> None:
    shell = plain(WHITES[0], 0.02, piece.seed)
    x, y = width / 2, depth / 2
    piece.box((-x, -y + 0.03, 0.02), (x, y, height), shell)
    piece.legs(width - 0.06, depth - 0.1, 0.02, 0.05, plain(BLACK))
    for radius, out, colour in ((0.21, 0.03, CHROME), (0.15, 0.042, DARK_GLASS)):
        disc = ellipsoid(
            (0, -y + 0.03, 0.42), (radius, out + 0.012, radius), piece.step, plain(colour), 0.7
        )
        piece.add(disc)
    piece.box(
        (-x + 0.03, -y + 0.018, height - 0.13),
        (-0.06, -y + 0.03, height - 0.04),
        plain((0.85, 0.85, 0.84)),
    )
    piece.ball((0.05, -y + 0.02, height - 0.085), 0.035, plain((0.75, 0.75, 0.75)))
    piece.box(
        (0.11, -y + 0.024, height - 0.11), (x - 0.04, -y + 0.03, height - 0.06), plain(DARK_GLASS)
    )
    piece.top = height


def dishwasher(piece: Piece) -> None:
    shell = plain(piece.one_of((WHITES[0], (0.7, 0.71, 0.73))), 0.02, piece.seed)
    piece.box((-0.3, -0.25, 0.05), (0.3, 0.3, 0.85), shell)
    piece.box((-0.29, -0.28, 0.12), (0.29, -0.25, 0.72), shell)
    piece.box((-0.29, -0.275, 0.73), (0.29, -0.25, 0.84), plain((0.25, 0.25, 0.27)))
    piece.box((-0.22, -0.31, 0.67), (0.22, -0.28, 0.69), plain(CHROME))
    piece.box((-0.28, -0.2, 0), (0.28, 0.28, 0.05), plain(BLACK))
    piece.top = 0.85


def range_hood(piece: Piece) -> None:
    steel = plain((0.68, 0.69, 0.71), 0.03, piece.seed)
    piece.box((-0.3, -0.25, 0), (0.3, 0.25, 0.06), steel)
    piece.box((-0.2, -0.08, 0.06), (0.2, 0.25, 0.2), steel)
    piece.box((-0.13, 0.0, 0.2), (0.13, 0.25, 0.75), steel)
    piece.box((-0.2, -0.2, -0.008), (0.2, -0.14, 0), plain((1, 1, 0.92)))


def toilet(piece: Piece) -> None:
    white = plain((0.95, 0.95, 0.94), 0.02, piece.seed)
    seat = piece.between(0.38, 0.42)
    piece.cushion((0, 0.06, seat * 0.3), (0.22, 0.42, seat * 0.6), white, 0.4)
    piece.cushion((0, -0.05, seat * 0.68), (0.37, 0.5, seat * 0.6), white, 0.8)
    piece.cushion((0, -0.06, seat), (0.38, 0.48, 0.04), white, 0.8)
    piece.cushion((0, -0.07, seat + 0.019), (0.22, 0.3, 0.012), plain((0.62, 0.66, 0.68)), 0.8)
    piece.cushion((0, 0.16, seat + 0.2), (0.37, 0.05, 0.4), white, 0.6)
    piece.box((-0.19, 0.19, seat - 0.02), (0.19, 0.36, seat + 0.36), white)
    piece.box((-0.2, 0.18, seat + 0.36), (0.2, 0.37, seat + 0.39), white)
    piece.pillar(0, 0.27, 0.03, seat + 0.39, seat + 0.4, plain(CHROME))


def bathtub(piece: Piece) -> None:
    width, depth, height = piece.lengths((1.5, 1.75), (0.7, 0.8), (0.54, 0.6))
    white = plain((0.94, 0.94, 0.93), 0.02, piece.seed)
    x, y = width / 2, depth / 2
    step = piece.step
    for origin, right in (
        ((-x, -y, 0), (width, 0, 0)),
        ((x, -y, 0), (0, depth, 0)),
        ((x, y, 0), (-width, 0, 0)),
        ((-x, y, 0), (0, -depth, 0)),
    ):
        piece.add(panel(origin, right, (0, 0, height), step, white))
    _hollow(piece, x, y, height, white)
    piece.pillar(x - 0.1, 0, 0.02, height, height + 0.1, plain(CHROME))
    piece.rod((x - 0.1, 0, height + 0.08), (x - 0.24, 0, height + 0.08), 0.016, plain(CHROME))


def _hollow(piece: Piece, x: float, y: float, height: float, paint: Paint) -> None:
    """Add the rim and the rounded inside of a basin within ±x, ±y, from the rim to the bottom."""
    around = subdivide(0, 2 * math.pi, 0.15)
    rings = [(1.0, 1.0, height, 0.05), (0.91, 0.84, height, 0.3), (0.88, 0.78, height - 0.06, 0.35)]
    rings += [(0.8, 0.66, 0.16, 0.5), (0.6, 0.5, 0.12, 0.6), (0.01, 0.01, 0.11, 1.0)]
    loops = []
    for across, along, level, square in rings:
        loops.append(
            [
                (
                    x * across * math.copysign(abs(math.cos(a)) ** square, math.cos(a)),
                    y * along * math.copysign(abs(math.sin(a)) ** square, math.sin(a)),
                    level,
                )
                for a in around
            ]
        )
    piece.add(lattice_surface(np.array(loops), paint))


def vanity(piece: Piece) -> None:
    width, height = piece.between(0.55, 0.9), piece.between(0.8, 0.86)
    front, white = piece.finish(), plain((0.95, 0.95, 0.94), 0.02, piece.seed)
    x = width / 2
    piece.box((-x + 0.02, -0.2, 0.12), (x - 0.02, 0.24, height - 0.1), front)
    piece.box((-x + 0.05, -0.15, 0), (x - 0.05, 0.2, 0.12), plain(BLACK))
    piece.box((-0.006, -0.206, 0.14), (0.006, -0.2, height - 0.12), plain((0.2, 0.2, 0.2)))
    for side in (-1, 1):
        piece.centred((side * 0.05, -0.212, height * 0.6), (0.014, 0.02, 0.12), plain(CHROME))
    piece.box((-x, -0.23, height - 0.1), (x, 0.24, height), white)
    piece.cushion((0, -0.03, height), (width * 0.7, 0.34, 0.012), plain((0.72, 0.75, 0.77)), 0.6)
    _tap(piece, 0, height, 0.16)
    piece.top = None


def towel(piece: Piece) -> None:
    width, drop = piece.between(0.4, 0.55), piece.between(0.45, 0.65)
    chrome, cover = plain(CHROME), cloth(piece.one_of(CLOTHS), piece.seed, 0.09)
    x = width / 2 + 0.06
    piece.rod((-x, 0, drop), (x, 0, drop), 0.01, chrome)
    for side in (-1, 1):
        piece.rod((side * x, 0, drop), (side * x, 0.06, drop), 0.01, chrome)
    piece.box((-width / 2, -0.025, 0), (width / 2, -0.012, drop + 0.01), cover)
    piece.box((-width / 2, 0.012, drop * 0.2), (width / 2, 0.025, drop + 0.01), cover)
    piece.box((-width / 2, -0.025, drop + 0.01), (width / 2, 0.025, drop + 0.02), cover)
