"""Random floor plans: single rooms, L-shaped rooms and flats, with doors and windows."""

from __future__ import annotations

import numpy as np

from render_agent.scans.boxes import Array
from render_agent.tasks.boxes.room_ground_truth import Box2, Room
from render_agent_lab.room_generator.floor_plan.plan import (
    DOOR_HEIGHT,
    DOOR_WIDTH,
    WALL,
    HomePlan,
    Opening,
    OpeningKind,
    WallSide,
    rectangle,
    room_sides,
)


def single_room(rng: np.random.Generator, purpose: str) -> HomePlan:
    low, high = {"bathroom": (2.3, 3.2), "kitchen": (3.2, 4.6), "living room": (4.2, 5.8)}.get(
        purpose, (3.5, 5.0)
    )
    width, depth = _random_metres(rng, low, high), _random_metres(rng, low * 0.9, high * 0.9)
    corners = rectangle(0, 0, width, depth)
    return _finish_plan(rng, [Room(purpose, corners)], corners)


def l_shaped_room(rng: np.random.Generator, purpose: str) -> HomePlan:
    width, depth = _random_metres(rng, 5.6, 6.8), _random_metres(rng, 4.8, 5.8)
    x, y = (_random_metres(rng, 0.5 * side, 0.6 * side) for side in (width, depth))
    corners = np.array([[0, 0], [width, 0], [width, y], [x, y], [x, depth], [0, depth]], float)
    corner = int(rng.integers(4))
    if corner in (1, 2):
        corners = (np.array([width, 0]) + corners * [-1, 1])[::-1]
    if corner in (2, 3):
        corners = (np.array([0, depth]) + corners * [1, -1])[::-1]
    return _finish_plan(rng, [Room(purpose, corners)], corners)


def flat(rng: np.random.Generator, rooms: int) -> HomePlan:
    """Plan a flat of two to four rooms connected by doors and passages."""
    width, depth = (_random_metres(rng, *limits) for limits in _FLAT_SIZES[rooms])
    first = _random_metres(rng, 0.53, 0.6) * width
    left, right = (0.0, 0.0, first, depth), (first + WALL, 0.0, width, depth)
    boxes: list[Box2] = [left, right]
    if rooms >= 3:
        boxes = [left, *_split(rng, right)]
    if rooms == 4:
        boxes = [*_split(rng, left), *boxes[1:]]
    if rng.random() < 0.5:
        boxes = [(width - c, b, width - a, d) for a, b, c, d in boxes]
    boxes.sort(key=lambda box: (box[2] - box[0]) * (box[3] - box[1]), reverse=True)
    purposes = _PURPOSES[rooms][int(rng.integers(len(_PURPOSES[rooms])))]
    made = [Room(name, rectangle(*box)) for name, box in zip(purposes, boxes, strict=True)]
    return _finish_plan(rng, made, rectangle(0, 0, width, depth))


_FLAT_SIZES = {
    2: ((6.6, 7.8), (3.8, 4.6)),
    3: ((7.4, 8.6), (5.0, 6.0)),
    4: ((8.6, 9.6), (6.2, 7.2)),
}
_PURPOSES = {
    2: (("living room", "bedroom"), ("studio", "kitchen"), ("bedroom", "office")),
    3: (("living room", "bedroom", "bathroom"), ("living room", "kitchen", "bathroom")),
    4: (("living room", "bedroom", "kitchen", "bathroom"),),
}


def _split(rng: np.random.Generator, box: Box2) -> list[Box2]:
    x, y, a, b = box
    cut = y + _random_metres(rng, 0.52, 0.6) * (b - y - WALL)
    if rng.random() < 0.5:
        cut = b + y - cut - WALL
    return [(x, y, a, cut), (x, cut + WALL, a, b)]


def _random_metres(rng: np.random.Generator, low: float, high: float) -> float:
    return round(float(rng.uniform(low, high)), 2)


def _finish_plan(rng: np.random.Generator, rooms: list[Room], outline: Array) -> HomePlan:
    plan = HomePlan(rooms, outline, _random_metres(rng, 2.45, 2.75))
    _join(rng, plan)
    _add_entrance(rng, plan)
    for number in range(len(rooms)):
        _add_windows(rng, plan, number)
    return plan


def _join(rng: np.random.Generator, plan: HomePlan) -> None:
    """Connect all rooms by doors and passages, larger rooms first; bathrooms by doors only."""
    joined = {0}
    while len(joined) < len(plan.rooms):
        candidates = [
            (other, side, low, high)
            for side in plan.sides
            if side.room in joined
            for other, low, high in _rooms_behind(plan, side)
            if other not in joined and high - low > DOOR_WIDTH + 0.5
        ]
        candidates.sort(key=lambda entry: plan.rooms[entry[1].room].purpose == "bathroom")
        other, side, low, high = candidates[0]
        purposes = {plan.rooms[side.room].purpose, plan.rooms[other].purpose}
        wide = min(high - low - 0.9, 1.8)
        if "bathroom" not in purposes and wide > 1.2 and rng.random() < 0.45:
            width, top = _random_metres(rng, 1.2, wide), 2.25
            kind: OpeningKind = "passage"
        else:
            width, top, kind = DOOR_WIDTH, DOOR_HEIGHT, "door"
        start = _random_metres(rng, low + 0.25, high - width - 0.25)
        plan.openings.append(Opening(kind, side, start, start + width, 0.0, top, other))
        joined.add(other)


def _rooms_behind(plan: HomePlan, side: WallSide) -> list[tuple[int, float, float]]:
    """Return the rooms behind a wall, each with the interval of the wall they share."""
    rooms_beyond = []
    for other in plan.sides:
        if other.room != side.room and side.backs(other):
            ends = sorted(
                float((end - side.start) @ side.along) for end in (other.start, other.end)
            )
            low, high = max(0.0, ends[0]), min(side.length, ends[1])
            if high > low:
                rooms_beyond.append((other.room, low, high))
    return rooms_beyond


def _add_entrance(rng: np.random.Generator, plan: HomePlan) -> None:
    """Add a closed entrance door to an outer wall of the first room."""
    sides = [side for side in plan.sides if plan.outside(side) and side.room == 0]
    sides = [side for side in sides if side.length > DOOR_WIDTH + 0.6]
    side = sides[int(rng.integers(len(sides)))]
    near = 0.2 if rng.random() < 0.5 else side.length - DOOR_WIDTH - 0.2
    plan.openings.append(Opening("entry", side, near, near + DOOR_WIDTH, 0.0, DOOR_HEIGHT))


def _add_windows(rng: np.random.Generator, plan: HomePlan, number: int) -> None:
    """Add one or two windows to the outer walls of a room."""
    free = [
        side
        for side in room_sides(plan.rooms[number], number)
        if plan.outside(side)
        and side.length > 1.6
        and not any(opening.side.same(side) for opening in plan.openings)
    ]
    bath = plan.rooms[number].purpose == "bathroom"
    count = 1 if bath or plan.rooms[number].area < 14 else int(rng.integers(1, 3))
    for index in rng.permutation(len(free))[:count]:
        side = free[int(index)]
        limits = (0.6, 0.8) if bath else (1.0, min(1.8, side.length - 0.5))
        width = _random_metres(rng, *limits)
        start = _random_metres(rng, 0.25, side.length - width - 0.25)
        bottom = 1.3 if bath else _random_metres(rng, 0.85, 0.95)
        plan.openings.append(
            Opening("window", side, start, start + width, bottom, min(2.15, plan.height - 0.2))
        )
