"""Tables, desks and beds. Each function adds its parts to a piece; metres, front towards -y."""

from __future__ import annotations

from render_agent_lab.room_generator.furniture.piece import CLOTHS, METALS, WHITES, WOODS, Piece
from render_agent_lab.room_generator.paint import cloth, plain


def dining_table(piece: Piece) -> None:
    height = piece.between(0.72, 0.77)
    frame = piece.timber(0)
    piece.top = height
    if piece.chance(0.25):
        radius = piece.between(0.45, 0.6)
        piece.pillar(0, 0, radius, height - 0.03, height, frame)
        piece.pillar(0, 0, 0.05, 0.03, height - 0.03, frame)
        piece.pillar(0, 0, 0.26, 0, 0.04, frame)
        return
    width, depth = piece.between(1.1, 1.8), piece.between(0.75, 0.95)
    piece.box((-width / 2, -depth / 2, height - 0.035), (width / 2, depth / 2, height), frame)
    x, y = width / 2 - 0.06, depth / 2 - 0.06
    piece.box((-x, -y, height - 0.12), (x, y, height - 0.035), frame)
    piece.legs(width - 0.06, depth - 0.06, height - 0.035, 0.065, frame)


def coffee_table(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.8, 1.2), (0.45, 0.65), (0.38, 0.46))
    frame = piece.timber(0)
    piece.box((-width / 2, -depth / 2, height - 0.03), (width / 2, depth / 2, height), frame)
    inset = 0.03
    piece.box(
        (-width / 2 + inset, -depth / 2 + inset, 0.12),
        (width / 2 - inset, depth / 2 - inset, 0.14),
        frame,
    )
    piece.legs(width - 0.02, depth - 0.02, height - 0.03, 0.05, frame)
    piece.top = height


def side_table(piece: Piece) -> None:
    radius, height = piece.between(0.2, 0.28), piece.between(0.48, 0.6)
    frame = piece.timber(2)
    piece.pillar(0, 0, radius, height - 0.025, height, frame)
    for x, y in ((0.0, 0.9), (0.78, -0.45), (-0.78, -0.45)):
        foot = (x * radius, y * radius, 0)
        head = (x * radius * 0.5, y * radius * 0.5, height - 0.025)
        piece.rod(foot, head, 0.016, frame)
    piece.top = height


def desk(piece: Piece) -> None:
    width, depth, height = piece.lengths((1.1, 1.6), (0.6, 0.75), (0.72, 0.76))
    board = piece.finish() if piece.chance(0.5) else piece.timber(0)
    x, y = width / 2, depth / 2
    piece.box((-x, -y, height - 0.03), (x, y, height), board)
    steel = plain(piece.one_of(METALS), 0.03, piece.seed)
    for end in (-1, 1):
        piece.centred(
            (-x + 0.05, end * (y - 0.05), (height - 0.03) / 2), (0.05, 0.05, height - 0.03), steel
        )
    left = x - 0.4
    piece.box((left, -y + 0.03, 0.03), (x - 0.02, y - 0.02, height - 0.03), board)
    for row in range(3):
        low = 0.06 + row * (height - 0.1) / 3
        piece.box((left + 0.015, -y + 0.015, low), (x - 0.035, -y + 0.03, low + 0.19), board)
        piece.centred((x - 0.21, -y + 0.008, low + 0.12), (0.12, 0.016, 0.015), steel)
    piece.box((-x + 0.06, y - 0.05, height * 0.45), (left, y - 0.03, height - 0.03), board)
    piece.top = height


def bed(piece: Piece) -> None:
    width = piece.one_of((0.95, 1.2, 1.45, 1.65))
    length, seat = piece.between(2.0, 2.1), piece.between(0.45, 0.55)
    frame = piece.timber(0)
    x, y = width / 2, length / 2
    piece.legs(width, length, 0.12, 0.08, frame)
    piece.box((-x, -y, 0.1), (x, y - 0.05, 0.3), frame)
    high = piece.between(0.85, 1.15)
    piece.box((-x, y - 0.05, 0.1), (x, y, high), frame)
    sheet = cloth(piece.one_of(WHITES), piece.seed)
    piece.cushion(
        (0, -0.03, (0.28 + seat) / 2), (width * 0.98, length - 0.1, seat - 0.28), sheet, 0.15
    )
    cover = cloth(piece.one_of(CLOTHS), piece.seed, piece.one_of((0.0, 0.0, 0.16)))
    end = y - piece.between(0.6, 0.75)
    piece.cushion((0, (end - y) / 2 - 0.02, seat - 0.05), (width + 0.06, y + end, 0.2), cover, 0.2)
    piece.top = seat


def pillow(piece: Piece) -> None:
    width, depth, thick = piece.lengths((0.48, 0.65), (0.36, 0.42), (0.1, 0.14))
    cover = cloth(piece.one_of(WHITES + CLOTHS), piece.seed)
    piece.cushion((0, 0, thick / 2), (width, depth, thick), cover, 0.55)
    piece.cushion((0, 0, thick / 2), (width * 1.02, depth * 1.02, 0.02), cover, 0.25)


def blanket(piece: Piece) -> None:
    width, depth = piece.between(0.45, 0.6), piece.between(0.35, 0.45)
    cover = cloth(piece.one_of(CLOTHS), piece.seed, 0.08)
    for layer in range(3):
        piece.cushion(
            (0, 0, 0.025 + 0.04 * layer), (width - 0.01 * layer, depth, 0.05), cover, 0.25
        )


def piano(piece: Piece) -> None:
    width, height = piece.between(1.42, 1.5), piece.between(1.1, 1.25)
    body = (
        plain((0.12, 0.07, 0.05), 0.1, piece.seed)
        if piece.chance(0.6)
        else piece.timber(0, WOODS[2])
    )
    x = width / 2
    piece.box((-x, -0.05, 0.0), (x, 0.3, height), body)
    piece.box((-x - 0.01, -0.08, height), (x + 0.01, 0.31, height + 0.03), body)
    piece.box((-x, -0.3, 0.62), (x, -0.05, 0.68), body)
    piece.box((-x + 0.05, -0.28, 0.68), (x - 0.05, -0.12, 0.7), plain((0.95, 0.94, 0.9), 0.02))
    black = plain((0.05, 0.05, 0.06))
    for key in range(36):
        if key % 7 not in (2, 6):
            left = -x + 0.08 + key * (width - 0.16) / 36
            piece.box((left, -0.2, 0.7), (left + 0.02, -0.12, 0.712), black)
    for side in (-1, 1):
        piece.centred((side * (x - 0.03), -0.25, 0.31), (0.06, 0.08, 0.62), body)
    brass = plain((0.75, 0.6, 0.3))
    for x in (-0.08, 0, 0.08):
        piece.centred((x, -0.1, 0.05), (0.03, 0.12, 0.015), brass)
    piece.top = height + 0.03
