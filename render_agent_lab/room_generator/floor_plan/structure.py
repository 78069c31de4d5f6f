"""Shell of a home: floors, ceilings, walls with openings, reveals, skirting and door frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from render_agent.scans.boxes import Array
from render_agent.tasks.boxes.room_ground_truth import Room
from render_agent_lab.room_generator.floor_plan.plan import (
    OUTER,
    WALL,
    HomePlan,
    Opening,
    WallSide,
    room_sides,
)
from render_agent_lab.room_generator.paint import carpet, joints, plain, planks, plaster, tiles
from render_agent_lab.room_generator.shapes import (
    Mesh,
    Paint,
    box,
    lattice_surface,
    panel,
    subdivide,
)

WALLS = (
    (0.93, 0.91, 0.86),
    (0.86, 0.89, 0.9),
    (0.91, 0.87, 0.78),
    (0.83, 0.88, 0.82),
    (0.9, 0.84, 0.82),
    (0.95, 0.95, 0.94),
)
BOARDS = ((0.74, 0.56, 0.37), (0.56, 0.38, 0.24), (0.82, 0.7, 0.53), (0.62, 0.5, 0.4))
TILES = ((0.86, 0.85, 0.82), (0.72, 0.7, 0.66), (0.64, 0.67, 0.7), (0.8, 0.72, 0.6))
CARPETS = ((0.55, 0.53, 0.5), (0.48, 0.52, 0.58), (0.62, 0.56, 0.47))
TILED, WALL_TILE = 1.5, 0.3  # metres, height of wall tiles in bathrooms and size of a tile
WET = ("bathroom", "kitchen")


@dataclass(frozen=True)
class Finish:
    """Finish of a surface: its paint, and its tile size in metres (0 for none)."""

    paint: Paint
    tile: float = 0.0


def build_shell(plan: HomePlan, rng: np.random.Generator, step: float) -> list[Mesh]:
    """Return the parts of the shell; `step` is the vertex spacing of the floor in metres, walls are coarser."""
    parts: list[Mesh] = []
    wood = _boards(rng)
    for number, room in enumerate(plan.rooms):
        floor = _floor_finish(room, wood, rng)
        wall = plaster(WALLS[int(rng.integers(len(WALLS)))], int(rng.integers(1 << 30)))
        parts.append(_level(room, 0.0, step, floor, up=True))
        ceiling = Finish(plaster((0.95, 0.95, 0.94), number))
        parts.append(_level(room, plan.height, 2.2 * step, ceiling, up=False))
        for side in room_sides(room, number):
            parts.extend(_wall(plan, side, 1.5 * step, _wall_finish(room, side, wall)))
    trim = plain((0.94, 0.93, 0.91), 0.02, 5)
    for opening in plan.openings:
        parts.extend(_reveal(opening, step, trim, wood))
    parts.extend(_outer(plan, 8 * step))
    return parts


def _boards(rng: np.random.Generator) -> Paint:
    colour = BOARDS[int(rng.integers(len(BOARDS)))]
    width, along = float(rng.uniform(0.14, 0.2)), int(rng.integers(2))
    return planks(colour, width, 1.3, along, int(rng.integers(1 << 30)))


def _floor_finish(room: Room, wood: Paint, rng: np.random.Generator) -> Finish:
    seed = int(rng.integers(1 << 30))
    if room.purpose in WET:
        colour = np.array(TILES[int(rng.integers(len(TILES)))])
        other = colour * (0.72 if rng.random() < 0.4 else 1.0)
        size = round(float(rng.uniform(0.32, 0.46)), 2)
        return Finish(tiles(colour, other, size, (0, 1), seed), size)
    if room.purpose in ("bedroom", "office") and rng.random() < 0.35:
        return Finish(carpet(CARPETS[int(rng.integers(len(CARPETS)))], seed))
    return Finish(wood)


def _wall_finish(room: Room, side: WallSide, wall: Paint) -> Finish:
    """Return tiles up to TILED in bathrooms, paint elsewhere."""
    if room.purpose != "bathroom":
        return Finish(wall)
    colour = np.array([0.82, 0.87, 0.9])
    tiled = tiles(colour, colour, WALL_TILE, (0 if abs(side.along[0]) > 0.5 else 1, 2), 3)

    def paint(points: Array) -> Array:
        return np.where(points[:, 2:] < TILED + 0.001, tiled(points), wall(points))

    return Finish(paint, WALL_TILE)


def _level(room: Room, height: float, step: float, finish: Finish, up: bool) -> Mesh:
    """Return a floor (seen from above) or a ceiling (seen from below)."""
    x, y, a, b = room.box
    xs = subdivide(x, a, step, *room.corners[:, 0], *_joints(finish, x, a))
    ys = subdivide(y, b, step, *room.corners[:, 1], *_joints(finish, y, b))
    if not up:
        xs = xs[::-1]
    across, along = np.meshgrid(xs, ys)
    middle = np.stack(
        [(across[1:, 1:] + across[:-1, :-1]) / 2, (along[1:, 1:] + along[:-1, :-1]) / 2], -1
    )
    keep = room.holds(middle.reshape(-1, 2)).reshape(len(ys) - 1, len(xs) - 1)
    return lattice_surface(
        np.stack([across, along, np.full_like(across, height)], -1), finish.paint, keep
    )


def _joints(finish: Finish, low: float, high: float) -> list[float]:
    return joints(low, high, finish.tile) if finish.tile else []


def _wall(plan: HomePlan, side: WallSide, step: float, finish: Finish) -> list[Mesh]:
    """Return a wall seen from its room, with openings and a skirting board."""
    holes = holes_in(plan, side)
    first, last = sorted(float(point @ np.abs(side.along)) for point in (side.start, side.end))
    across = [abs(x - float(side.start @ np.abs(side.along))) for x in _joints(finish, first, last)]
    upward = _joints(finish, 0.0, TILED)
    us = subdivide(0, side.length, step, *(u for hole in holes for u in hole[:2]), *across)
    vs = subdivide(0, plan.height, step, *(v for hole in holes for v in hole[2:]), *upward)
    points = np.empty((len(vs), len(us), 3))
    points[..., :2] = (side.start + us[:, None] * side.along)[None]
    points[..., 2] = vs[:, None]
    u, v = (us[1:] + us[:-1]) / 2, (vs[1:] + vs[:-1]) / 2
    keep = np.ones((len(v), len(u)), bool)
    for low, high, bottom, top in holes:
        keep &= ~((u > low) & (u < high) & ((v > bottom) & (v < top))[:, None])
    # seen from inside, a side runs from right to left
    parts = [lattice_surface(points[:, ::-1], finish.paint, keep[:, ::-1])]
    gaps = sorted((low, high) for low, high, bottom, _ in holes if bottom < 0.05)
    start = 0.0
    for low, high in [*gaps, (side.length, side.length)]:
        if low - start > 0.03:
            parts.append(_skirting(side, start, low))
        start = high
    return parts


SKIRTING = 0.012  # metres that a skirting board protrudes from its wall


def _skirting(side: WallSide, low: float, high: float) -> Mesh:
    a, b = side.at(low), side.at(high, SKIRTING)
    lower, upper = np.minimum(a, b), np.maximum(a, b)
    return box((*lower, 0.0), (*upper, 0.07), 0.4, plain((0.9, 0.89, 0.86)))


def holes_in(plan: HomePlan, side: WallSide) -> list[tuple[float, float, float, float]]:
    """Return the holes of a wall as (low, high) along it and (bottom, top), in metres."""
    holes = []
    for opening in plan.openings:
        behind = opening.other == side.room and opening.side.backs(side)
        if not (behind or opening.side.same(side)):
            continue
        ends = [
            float((opening.side.at(u) - side.start) @ side.along)
            for u in (opening.low, opening.high)
        ]
        holes.append((min(ends), max(ends), opening.bottom, opening.top))
    return holes


def _reveal(opening: Opening, step: float, trim: Paint, floor: Paint) -> list[Mesh]:
    """Return the inside of an opening: jambs, head, sill or threshold, and a frame around doors."""
    side, bottom = opening.side, opening.bottom
    depth = opening.depth if opening.kind != "window" else 0.16
    low, high = side.at(opening.low, -depth), side.at(opening.high)
    inside, across = (
        (*(side.inward * depth), 0.0),
        (*(side.along * (opening.high - opening.low)), 0.0),
    )
    outside, up = (*(-side.inward * depth), 0.0), (0, 0, opening.top - bottom)
    parts = [
        panel((*low, bottom), inside, up, step, trim),
        panel((*high, bottom), outside, up, step, trim),
        panel((*low, opening.top), inside, across, step, trim),
        panel((*low, bottom), across, inside, step, trim if bottom > 0.05 else floor),
    ]
    if opening.kind in ("door", "entry"):
        parts.extend(_frame(opening, trim))
    if opening.kind == "window":
        a, b = side.at(opening.low - 0.05, 0.0), side.at(opening.high + 0.05, 0.05)
        sill = box(
            (*np.minimum(a, b), bottom - 0.03), (*np.maximum(a, b), bottom + 0.004), step, trim
        )
        parts.append(sill)
    return parts


FRAME = 0.07  # metres, width of a door frame


def _frame(opening: Opening, trim: Paint) -> list[Mesh]:
    """Return the boards around a door on both faces of its wall."""
    faces = [(0.0, 0.015)] if opening.other is None else [(0.0, 0.015), (-WALL - 0.015, -WALL)]
    parts = []
    for near, far in faces:
        for low, high, bottom, top in (
            (opening.low - FRAME, opening.low, 0.0, opening.top + FRAME),
            (opening.high, opening.high + FRAME, 0.0, opening.top + FRAME),
            (opening.low, opening.high, opening.top, opening.top + FRAME),
        ):
            a, b = opening.side.at(low, near), opening.side.at(high, far)
            parts.append(box((*np.minimum(a, b), bottom), (*np.maximum(a, b), top), 0.3, trim))
    return parts


def _outer(plan: HomePlan, step: float) -> list[Mesh]:
    """Return the outer faces of the outer walls."""
    corners = plan.outline
    before, after = np.roll(corners, 1, axis=0), np.roll(corners, -1, axis=0)
    pushed = []
    for a, b, c in zip(before, corners, after, strict=True):
        first, second = WallSide(0, a, b), WallSide(0, b, c)
        pushed.append(b - OUTER * first.inward - OUTER * second.inward)
    paint = plaster((0.85, 0.83, 0.78), 11)
    return [
        panel((*a, 0.0), (*(b - a), 0.0), (0, 0, plan.height), step, paint)
        for a, b in zip(pushed, [*pushed[1:], pushed[0]], strict=True)
    ]
