"""Devices, lamps and heating. Each function adds its parts to a piece; metres, front towards -y."""

from __future__ import annotations

import math

from render_agent_lab.room_generator.furniture.piece import BLACK, CLOTHS, METALS, WHITES, Piece
from render_agent_lab.room_generator.paint import by_height, plain
from render_agent_lab.room_generator.shapes import ellipsoid

GLOW = (1.0, 0.97, 0.86)
SCREEN = (0.05, 0.06, 0.08)
LAMP_FOOT = ((0.005, 0), (0.075, 0), (0.08, 0.02), (0.03, 0.06), (0.055, 0.13), (0.02, 0.2))


def tv(piece: Piece) -> None:
    width = piece.between(0.9, 1.35)
    height = width * 0.57
    black = plain(BLACK, 0.05, piece.seed)
    piece.box((-width / 2, -0.02, 0.06), (width / 2, 0.02, 0.06 + height), black)
    sheen = by_height([(0.06, SCREEN), (0.06 + height, (0.14, 0.16, 0.2))])
    piece.box((-width / 2 + 0.015, -0.024, 0.08), (width / 2 - 0.015, -0.02, 0.05 + height), sheen)
    piece.box((-width / 4, 0.02, 0.12), (width / 4, 0.05, height * 0.7), black)
    for side in (-1, 1):
        piece.box((side * width / 3 - 0.02, -0.11, 0), (side * width / 3 + 0.02, 0.11, 0.02), black)
        piece.centred((side * width / 3, 0, 0.04), (0.03, 0.03, 0.05), black)


def monitor(piece: Piece) -> None:
    width = piece.between(0.48, 0.62)
    height = width * 0.58
    black = plain(BLACK, 0.05, piece.seed)
    piece.pillar(0, 0.03, 0.11, 0, 0.015, black)
    piece.centred((0, 0.045, 0.12), (0.05, 0.025, 0.22), black)
    piece.box((-width / 2, -0.015, 0.1), (width / 2, 0.025, 0.1 + height), black)
    if piece.chance(0.6):
        low, high = (0.15, 0.3, 0.5), (0.55, 0.7, 0.85)
    else:
        low, high = SCREEN, (0.12, 0.14, 0.18)
    screen = by_height([(0.1, low), (0.1 + height, high)])
    piece.box(
        (-width / 2 + 0.012, -0.019, 0.115), (width / 2 - 0.012, -0.015, 0.09 + height), screen
    )


def keyboard(piece: Piece) -> None:
    dark = piece.chance(0.6)
    base = plain((0.15, 0.15, 0.16) if dark else (0.85, 0.85, 0.84))
    caps = plain((0.26, 0.26, 0.28) if dark else (0.95, 0.95, 0.94))
    width = piece.between(0.38, 0.45)
    piece.box((-width / 2, -0.07, 0), (width / 2, 0.07, 0.018), base)
    for row in range(5):
        y = -0.058 + row * 0.024
        for key in range(8):
            x = -width / 2 + 0.012 + key * (width - 0.02) / 8
            piece.box((x, y, 0.018), (x + (width - 0.02) / 8 - 0.008, y + 0.018, 0.026), caps)


def laptop(piece: Piece) -> None:
    shell, keys = plain(piece.one_of(METALS), 0.03, piece.seed), plain((0.12, 0.12, 0.13))
    piece.box((-0.17, -0.12, 0), (0.17, 0.12, 0.018), shell)
    piece.box((-0.15, -0.03, 0.018), (0.15, 0.1, 0.021), keys)
    piece.box((-0.05, -0.11, 0.018), (0.05, -0.05, 0.02), plain((0.4, 0.4, 0.42)))
    piece.box((-0.17, 0.12, 0.01), (0.17, 0.135, 0.23), shell)
    piece.box(
        (-0.16, 0.117, 0.03),
        (0.16, 0.12, 0.22),
        by_height([(0.02, (0.2, 0.35, 0.5)), (0.23, (0.6, 0.75, 0.85))]),
    )


def computer_tower(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.17, 0.2), (0.38, 0.45), (0.38, 0.45))
    shell = plain((0.13, 0.13, 0.14) if piece.chance(0.7) else WHITES[0], 0.05, piece.seed)
    x, y = width / 2, depth / 2
    piece.box((-x, -y + 0.02, 0.015), (x, y, height), shell)
    piece.box(
        (-x + 0.008, -y, 0.03), (x - 0.008, -y + 0.02, height - 0.01), plain((0.22, 0.22, 0.24))
    )
    piece.box(
        (-x + 0.02, -y - 0.004, height - 0.08),
        (x - 0.02, -y, height - 0.04),
        plain((0.5, 0.5, 0.5)),
    )
    piece.ball((0, -y, height * 0.6), 0.012, plain((0.3, 0.6, 0.9)))
    piece.legs(width, depth - 0.06, 0.015, 0.03, plain(BLACK))


def printer(piece: Piece) -> None:
    shell = plain(piece.one_of((WHITES[0], (0.25, 0.25, 0.27))), 0.03, piece.seed)
    piece.box((-0.22, -0.15, 0.02), (0.22, 0.18, 0.2), shell)
    piece.box((-0.18, -0.24, 0.0), (0.18, 0.14, 0.03), plain((0.3, 0.3, 0.31)))
    piece.box((-0.11, -0.22, 0.03), (0.11, -0.15, 0.036), plain((0.97, 0.97, 0.97)))
    piece.box((-0.2, -0.16, 0.14), (0.2, -0.15, 0.19), plain((0.15, 0.15, 0.16)))
    piece.box((-0.15, 0.1, 0.2), (0.15, 0.13, 0.3), plain((0.97, 0.97, 0.97)))


def telephone(piece: Piece) -> None:
    body = plain(piece.one_of((BLACK, WHITES[1], (0.6, 0.15, 0.13))), 0.04, piece.seed)
    piece.cushion((0, 0, 0.03), (0.18, 0.2, 0.06), body, 0.3)
    for end in (-1, 1):
        piece.cushion((-0.055, end * 0.075, 0.075), (0.05, 0.05, 0.05), body, 0.6)
    piece.rod((-0.055, -0.08, 0.09), (-0.055, 0.08, 0.09), 0.014, body)
    for row in range(3):
        for column in range(3):
            piece.centred(
                (0.01 + column * 0.028, -0.05 + row * 0.028, 0.062),
                (0.02, 0.02, 0.008),
                plain((0.55, 0.55, 0.55)),
            )


def table_lamp(piece: Piece) -> None:
    foot = plain(piece.one_of(METALS + CLOTHS), 0.04, piece.seed)
    height = piece.between(0.38, 0.55)
    piece.revolved([*LAMP_FOOT, (0.012, height - 0.16)], foot)
    _shade(piece, height - 0.2, height, piece.between(0.12, 0.15))


def floor_lamp(piece: Piece) -> None:
    pole, height = plain(piece.one_of(METALS), 0.03, piece.seed), piece.between(1.45, 1.7)
    piece.pillar(0, 0, 0.14, 0, 0.03, pole)
    piece.rod((0, 0, 0.03), (0, 0, height - 0.15), 0.014, pole)
    _shade(piece, height - 0.28, height, piece.between(0.17, 0.22))


def _shade(piece: Piece, low: float, high: float, radius: float) -> None:
    colour = piece.one_of(((0.95, 0.9, 0.78), (0.9, 0.78, 0.6), (0.92, 0.92, 0.9)))
    outside = by_height([(low, colour), ((low + high) / 2, GLOW), (high, colour)])
    piece.revolved(
        [(radius, low), (radius * 0.85, (low + high) / 2), (radius * 0.7, high)], outside
    )
    piece.revolved(
        [(radius * 0.7, high), (radius * 0.84, (low + high) / 2), (radius * 0.98, low)], plain(GLOW)
    )
    piece.ball((0, 0, (low + high) / 2), 0.035, plain(GLOW))


def ceiling_light(piece: Piece) -> None:
    """A ceiling lamp: a plate with a glowing dish, or a pendant. Its top is at z = 0."""
    white = plain((0.95, 0.95, 0.93))
    if piece.chance(0.5):
        radius = piece.between(0.17, 0.26)
        piece.pillar(0, 0, radius * 0.8, -0.03, 0, white)
        piece.add(ellipsoid((0, 0, -0.055), (radius, radius, 0.06), piece.step, plain(GLOW)))
        return
    drop, radius = piece.between(0.35, 0.6), piece.between(0.15, 0.24)
    shade = plain(piece.one_of(METALS + CLOTHS), 0.04, piece.seed)
    piece.pillar(0, 0, 0.05, -0.03, 0, white)
    piece.rod((0, 0, -drop + 0.14), (0, 0, -0.02), 0.006, plain(BLACK))
    piece.revolved([(radius, -drop), (radius * 0.75, -drop + 0.1), (0.03, -drop + 0.16)], shade)
    piece.revolved(
        [(0.03, -drop + 0.155), (radius * 0.72, -drop + 0.1), (radius * 0.97, -drop)], plain(GLOW)
    )
    piece.ball((0, 0, -drop + 0.06), 0.05, plain(GLOW))


def heater(piece: Piece) -> None:
    width, height = piece.between(0.7, 1.2), piece.between(0.5, 0.6)
    white = plain((0.92, 0.92, 0.9), 0.02, piece.seed)
    ribs = round(width / 0.08)
    each = width / ribs
    for rib in range(ribs):
        left = -width / 2 + rib * each
        piece.box((left + 0.008, -0.05, 0.12), (left + each - 0.008, 0.04, 0.12 + height), white)
    for level in (0.15, 0.08 + height):
        piece.box((-width / 2, -0.02, level), (width / 2, 0.02, level + 0.03), white)
    for side in (-1, 1):
        piece.centred((side * (width / 2 - 0.06), 0, 0.065), (0.03, 0.05, 0.13), white)
    piece.ball((width / 2 + 0.03, 0, 0.1 + height * 0.9), 0.03, plain((0.8, 0.8, 0.78)))


def fan(piece: Piece) -> None:
    white = plain(piece.one_of((WHITES[0], (0.2, 0.2, 0.22))), 0.03, piece.seed)
    height = piece.between(1.0, 1.25)
    piece.pillar(0, 0, 0.2, 0, 0.03, white)
    piece.rod((0, 0, 0.03), (0, 0, height - 0.2), 0.018, white)
    piece.cushion((0, 0.05, height - 0.2), (0.1, 0.16, 0.1), white, 0.6)

    def rim(angle: float) -> tuple[float, float, float]:
        return 0.2 * math.cos(angle), -0.06, height - 0.2 + 0.2 * math.sin(angle)

    for turn in range(16):
        angle = turn * math.pi / 8
        piece.rod((0, -0.09, height - 0.2), rim(angle), 0.004, white)
        piece.rod(rim(angle), rim(angle + math.pi / 8), 0.007, white)
    for blade in range(4):
        angle = blade * math.pi / 2 + 0.4
        centre = (0.09 * math.cos(angle), -0.055, height - 0.2 + 0.09 * math.sin(angle))
        piece.add(ellipsoid(centre, (0.075, 0.008, 0.075), piece.step, plain((0.55, 0.6, 0.65))))
