"""Storage furniture and containers. Each function adds its parts to a piece; metres, front towards -y."""

from __future__ import annotations

import math

import numpy as np

from render_agent_lab.room_generator.furniture.piece import CLOTHS, METALS, Piece
from render_agent_lab.room_generator.paint import cloth, plain


def wardrobe(piece: Piece) -> None:
    doors = int(piece.rng.integers(2, 4))
    width = 0.48 * doors + piece.between(0, 0.15)
    depth, height = piece.lengths((0.55, 0.62), (1.9, 2.15))
    _add_fronts(piece, width, depth, height, rows=1, columns=doors)


def cabinet(piece: Piece) -> None:
    columns = int(piece.rng.integers(2, 4))
    width = 0.42 * columns + piece.between(0, 0.15)
    _add_fronts(piece, width, piece.between(0.38, 0.46), piece.between(0.75, 0.95), 1, columns)


def hanging_cabinet(piece: Piece) -> None:
    _add_fronts(piece, piece.between(0.8, 1.2), 0.33, piece.between(0.55, 0.65), 1, 2, plinth=0.0)
    piece.top = None


def dresser(piece: Piece) -> None:
    columns = int(piece.rng.integers(1, 3))
    width = 0.5 * columns + piece.between(0.1, 0.3)
    _add_fronts(piece, width, piece.between(0.42, 0.5), piece.between(0.75, 1.05), 4, columns)


def nightstand(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.4, 0.5), (0.36, 0.42), (0.45, 0.58))
    _add_fronts(piece, width, depth, height, 2, 1)


def tv_stand(piece: Piece) -> None:
    width, depth, height = piece.lengths((1.2, 1.7), (0.38, 0.45), (0.42, 0.55))
    _add_fronts(piece, width, depth, height, 1, 3)


def _add_fronts(
    piece: Piece,
    width: float,
    depth: float,
    height: float,
    rows: int,
    columns: int,
    plinth: float = 0.06,
) -> None:
    """Add a body with a grid of doors or drawers, each with a handle."""
    body, metal = piece.finish(), plain(piece.one_of(METALS), 0.03, piece.seed)
    x, y = width / 2, depth / 2
    if plinth:
        piece.box((-x + 0.02, -y + 0.05, 0), (x - 0.02, y, plinth), body)
    piece.box((-x, -y + 0.018, plinth), (x, y, height - 0.025), body)
    piece.box((-x - 0.008, -y, height - 0.025), (x + 0.008, y, height), body)
    wide, high = width / columns, (height - plinth - 0.035) / rows
    for row in range(rows):
        for column in range(columns):
            left, low = -x + column * wide, plinth + row * high
            piece.box(
                (left + 0.006, -y + 0.003, low + 0.008),
                (left + wide - 0.006, -y + 0.018, low + high - 0.004),
                body,
            )
            if rows > 1:
                at, size = (0.5, 0.6), (min(0.14, wide / 2), 0.02, 0.014)
            else:
                at = (0.93 if column % 2 == 0 else 0.07), 0.55
                size = (0.014, 0.02, min(0.16, high / 2))
            piece.centred((left + wide * at[0], -y - 0.007, low + high * at[1]), size, metal)
    piece.top = height


def bookshelf(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.7, 1.1), (0.26, 0.32), (1.6, 2.05))
    body = piece.timber(2)
    x, y, board = width / 2, depth / 2, 0.022
    for side in (-1, 1):
        piece.box(
            (side * x - board * (side > 0), -y, 0), (side * x + board * (side < 0), y, height), body
        )
    piece.box((-x + board, y - 0.01, 0.05), (x - board, y, height), body)
    shelves = round(height / 0.34)
    gap = (height - 0.07 - board) / shelves
    for shelf in range(shelves + 1):
        low = 0.07 + shelf * gap
        piece.box((-x + board, -y, low), (x - board, y - 0.01, low + board), body)
        if shelf < shelves:
            _books(piece, -x + board, x - board, -y, low + board, gap - board)


def _books(piece: Piece, left: float, right: float, front: float, low: float, room: float) -> None:
    place, end = left + 0.01, right - piece.between(0.02, 0.35)
    while place < end:
        thick, tall = piece.between(0.025, 0.065), piece.between(0.62, 0.92) * room
        if piece.chance(0.12):
            place += piece.between(0.04, 0.12)
        if place + thick > right - 0.005:
            break
        grey, tint = piece.rng.uniform(0.15, 0.75), piece.rng.uniform(-0.22, 0.22, 3)
        colour = tuple(np.clip(grey + tint, 0.06, 0.9))
        back = front + piece.between(0.02, 0.05)
        piece.box(
            (place, back, low),
            (place + thick, back + 0.16, low + tall),
            plain(colour, 0.08, piece.seed),
            6,
        )
        place += thick + 0.002


def basket(piece: Piece) -> None:
    radius, height = piece.between(0.19, 0.25), piece.between(0.4, 0.6)
    weave = cloth((0.7, 0.57, 0.38), piece.seed)
    piece.pillar(0, 0, radius * 0.95, 0, height, weave)
    piece.pillar(0, 0, radius, height - 0.05, height, weave)
    piece.pillar(0, 0, radius * 0.9, height, height + 0.02, weave)


def trash_bin(piece: Piece) -> None:
    low, top, height = piece.lengths((0.1, 0.13), (0.14, 0.18), (0.28, 0.42))
    body = plain(piece.one_of(METALS + CLOTHS), 0.05, piece.seed)
    inside = plain((0.07, 0.07, 0.07))
    piece.revolved([(0.01, 0), (low, 0), (low, 0.001), (top, height)], body)
    piece.revolved([(top, height), (top - 0.012, height), (top - 0.02, height - 0.03)], body)
    piece.revolved([(top - 0.02, height - 0.03), (low - 0.01, 0.04), (0.01, 0.04)], inside)


def backpack(piece: Piece) -> None:
    width, height = piece.between(0.28, 0.34), piece.between(0.42, 0.52)
    cover = cloth(piece.one_of(CLOTHS), piece.seed)
    dark = cloth((0.13, 0.13, 0.14), piece.seed)
    piece.cushion((0, 0, height / 2), (width, 0.19, height), cover, 0.4)
    piece.cushion((0, -0.11, height * 0.32), (width * 0.75, 0.1, height * 0.45), cover, 0.4)
    piece.cushion((0, -0.03, height * 0.88), (width * 0.9, 0.2, height * 0.22), dark, 0.4)
    for side in (-1, 1):
        piece.rod((side * 0.08, 0.1, height * 0.85), (side * 0.11, 0.13, height * 0.4), 0.02, dark)
        piece.rod((side * 0.11, 0.13, height * 0.4), (side * 0.12, 0.08, 0.05), 0.016, dark)
    piece.rod((-0.04, 0.06, height), (0.04, 0.06, height), 0.01, dark)


def suitcase(piece: Piece) -> None:
    width, depth, height = piece.lengths((0.4, 0.48), (0.24, 0.28), (0.58, 0.7))
    shell = plain(piece.one_of(CLOTHS), 0.05, piece.seed)
    dark = plain((0.12, 0.12, 0.13))
    piece.cushion((0, 0, 0.05 + height / 2), (width, depth, height), shell, 0.2)
    for rib in range(4):
        x = (rib - 1.5) * width / 4.5
        piece.box(
            (x - 0.012, -depth / 2 - 0.004, 0.12),
            (x + 0.012, depth / 2 + 0.004, height - 0.02),
            shell,
        )
    for side in (-1, 1):
        for end in (-1, 1):
            piece.ball((side * (width / 2 - 0.06), end * (depth / 2 - 0.05), 0.028), 0.028, dark)
        x, y = side * 0.09, depth / 2 - 0.04
        piece.rod((x, y, height), (x, y, height + 0.32), 0.008, dark)
    piece.rod((-0.1, y, height + 0.32), (0.1, y, height + 0.32), 0.014, dark)


def shoes(piece: Piece) -> None:
    leather = plain(piece.one_of(CLOTHS), 0.08, piece.seed)
    sole, hollow = plain((0.85, 0.83, 0.78)), plain((0.08, 0.07, 0.07))
    turn = piece.between(-0.02, 0.02)
    for side in (-1, 1):
        x = side * 0.07
        piece.cushion((x, turn * side, 0.015), (0.1, 0.29, 0.03), sole, 0.5)
        piece.cushion((x, turn * side + 0.0, 0.05), (0.09, 0.27, 0.07), leather, 0.7)
        piece.cushion((x, turn * side + 0.07, 0.085), (0.085, 0.13, 0.06), leather, 0.5)
        piece.cushion((x, turn * side + 0.07, 0.113), (0.06, 0.1, 0.01), hollow, 0.7)


def guitar(piece: Piece) -> None:
    top = piece.timber(2, (0.75, 0.5, 0.25))
    dark = plain((0.15, 0.09, 0.06))
    piece.cushion((0, 0, 0.27), (0.38, 0.1, 0.3), top, 0.8)
    piece.cushion((0, 0, 0.48), (0.29, 0.1, 0.26), top, 0.8)
    piece.centred((0, -0.04, 0.78), (0.055, 0.025, 0.5), dark)
    piece.centred((0, -0.04, 1.06), (0.08, 0.02, 0.14), dark)
    hole = [(math.cos(a) * 0.045, math.sin(a) * 0.045) for a in (0.5, 2.6, 4.7)]
    piece.cushion((0, -0.05, 0.42), (0.1, 0.01, 0.1), dark, 1.0)
    for x, y in hole:
        piece.rod((x * 3.4, y * 3.0, 0), (x, y + 0.02, 0.2), 0.012, dark)
