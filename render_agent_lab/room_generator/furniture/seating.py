"""Seating furniture. Each function adds its parts to a piece; metres, front towards -y."""

from __future__ import annotations

import math

from render_agent_lab.room_generator.furniture.piece import BLACK, CLOTHS, METALS, Piece
from render_agent_lab.room_generator.paint import cloth, plain
from render_agent_lab.room_generator.shapes import Paint


def chair(piece: Piece) -> None:
    width, depth = piece.between(0.4, 0.47), piece.between(0.4, 0.46)
    seat, high = piece.between(0.44, 0.47), piece.between(0.82, 0.98)
    frame = piece.timber(2)
    piece.legs(width, depth, seat - 0.03, 0.04, frame)
    piece.box((-width / 2, -depth / 2, seat - 0.03), (width / 2, depth / 2, seat), frame)
    if piece.chance(0.5):
        cover = cloth(piece.one_of(CLOTHS), piece.seed)
        piece.cushion((0, 0, seat + 0.02), (width * 0.94, depth * 0.94, 0.05), cover)
    back = depth / 2 - 0.04
    for side in (-1, 1):
        x = side * (width / 2 - 0.02)
        piece.box((x - 0.02, back, seat), (x + 0.02, back + 0.04, high), frame)
    if piece.chance(0.5):
        for step in range(3):
            low = seat + 0.12 + step * (high - seat - 0.2) / 2.6
            piece.box((-width / 2, back + 0.005, low), (width / 2, back + 0.03, low + 0.07), frame)
    else:
        piece.box((-width / 2, back, high - 0.32), (width / 2, back + 0.035, high), frame)


def office_chair(piece: Piece) -> None:
    dark = plain(BLACK, 0.05, piece.seed)
    cover = cloth(piece.one_of(CLOTHS), piece.seed)
    seat, high = piece.between(0.45, 0.52), piece.between(0.95, 1.15)
    for arm in range(5):
        angle = math.radians(90 + arm * 72)
        x, y = 0.28 * math.cos(angle), 0.28 * math.sin(angle)
        piece.rod((0, 0, 0.11), (x, y, 0.07), 0.022, dark)
        piece.ball((x, y, 0.035), 0.035, dark)
    piece.pillar(0, 0, 0.03, 0.1, seat - 0.06, plain(METALS[0]))
    piece.cushion((0, -0.02, seat), (0.5, 0.5, 0.11), cover)
    piece.cushion((0, 0.23, (seat + high) / 2 + 0.08), (0.46, 0.09, high - seat - 0.12), cover)
    piece.box((-0.04, 0.2, seat - 0.02), (0.04, 0.23, seat + 0.25), dark)
    if piece.chance(0.6):
        for side in (-1, 1):
            x = side * 0.27
            piece.box((x - 0.02, -0.05, seat), (x + 0.02, 0.0, seat + 0.2), dark)
            piece.box((x - 0.035, -0.17, seat + 0.2), (x + 0.035, 0.12, seat + 0.23), dark)


def stool(piece: Piece) -> None:
    height, radius = piece.between(0.42, 0.66), piece.between(0.15, 0.2)
    frame = piece.timber(2)
    top: Paint = frame if piece.chance(0.5) else cloth(piece.one_of(CLOTHS), piece.seed)
    if piece.chance(0.5):
        piece.pillar(0, 0, radius, height - 0.05, height, top)
    else:
        piece.box((-radius, -radius, height - 0.05), (radius, radius, height), top)
    reach = radius * 0.85
    for x, y in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        foot, head = (
            (reach * x, reach * y, 0.0),
            (reach * x * 0.75, reach * y * 0.75, height - 0.05),
        )
        piece.rod(foot, head, 0.017, frame)
    rung = reach * 0.9
    for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        start, end = (rung * (x - y), rung * (y + x), 0.2), (rung * (x + y), rung * (y - x), 0.2)
        piece.rod(start, end, 0.01, frame)


def sofa(piece: Piece) -> None:
    seats = int(piece.rng.integers(2, 4))
    _add_upholstery(piece, piece.between(0.58, 0.68) * seats, seats)


def armchair(piece: Piece) -> None:
    _add_upholstery(piece, piece.between(0.52, 0.6), 1)


def _add_upholstery(piece: Piece, inner: float, seats: int) -> None:
    cover = cloth(piece.one_of(CLOTHS), piece.seed)
    depth, arm = piece.between(0.82, 0.95), piece.between(0.12, 0.22)
    seat, high, armrest = piece.lengths((0.4, 0.45), (0.75, 0.9), (0.55, 0.65))
    width = inner + 2 * arm
    feet = piece.timber(2)
    piece.legs(width - 0.1, depth - 0.1, 0.1, 0.06, feet)
    piece.box((-width / 2, -depth / 2 + 0.03, 0.1), (width / 2, depth / 2, seat - 0.13), cover)
    for side in (-1, 1):
        centre = (side * (width - arm) / 2, 0, (armrest + 0.1) / 2)
        piece.cushion(centre, (arm, depth, armrest - 0.1), cover, 0.2)
    piece.cushion((0, depth / 2 - 0.1, (0.1 + high) / 2), (width, 0.2, high - 0.1), cover, 0.2)
    each = inner / seats
    for place in range(seats):
        x = -inner / 2 + each * (place + 0.5)
        piece.cushion((x, -0.08, seat - 0.06), (each * 0.99, depth - 0.2, 0.17), cover, 0.25)
        piece.cushion(
            (x, depth / 2 - 0.26, seat + 0.2), (each * 0.96, 0.18, high - seat - 0.02), cover, 0.4
        )
    piece.top = seat + 0.025
