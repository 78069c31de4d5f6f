"""Floor plan: rooms, the walls between them, and the doors, passages and windows.

Metres, world frame, z up, floor at 0. All walls run along x or y.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from render_agent.scans.boxes import Array
from render_agent.tasks.boxes.room_ground_truth import Box2, Room

WALL = 0.12  # metres, thickness of walls between rooms
OUTER = 0.24  # metres, thickness of outer walls
DOOR_WIDTH, DOOR_HEIGHT = 0.88, 2.05

OpeningKind = Literal["door", "entry", "passage", "window"]


@dataclass(frozen=True, eq=False)
class WallSide:
    """One wall of a room, seen from inside.

    `start` and `end` are (2,) metres; the room is to the left of the direction from start to end.
    """

    room: int
    start: Array
    end: Array

    @property
    def length(self) -> float:
        """Length in metres."""
        return float(np.abs(self.end - self.start).sum())

    @property
    def along(self) -> Array:
        """Unit vector from start to end, (2,)."""
        return (self.end - self.start) / self.length

    @property
    def inward(self) -> Array:
        """Unit vector into the room, (2,)."""
        x, y = self.along
        return np.array([-y, x])

    def same(self, other: WallSide) -> bool:
        return self.room == other.room and bool(np.allclose(self.start, other.start))

    def backs(self, other: WallSide) -> bool:
        """Return True if this and `other` are the two faces of one wall between rooms."""
        gap = float((other.start - self.start) @ self.inward)
        return bool(np.allclose(other.along, -self.along)) and abs(gap + WALL) < 1e-6

    @property
    def facing(self) -> float:
        """Rotation in degrees of a piece with its back (+y) to the wall."""
        x, y = self.inward
        return float(np.degrees(np.arctan2(x, -y))) + 0.0

    def at(self, along: float, inward: float = 0.0) -> Array:
        """Return the point `along` metres from the start and `inward` metres off the wall, (2,)."""
        return self.start + along * self.along + inward * self.inward


@dataclass(frozen=True, eq=False)
class Opening:
    """An opening in a wall."""

    kind: OpeningKind
    side: WallSide  # the wall, seen from the room for which the opening was planned
    low: float
    high: float  # `low` to `high`: extent along the side in metres
    bottom: float
    top: float  # `bottom` to `top`: extent in height in metres
    other: int | None = None  # index of the room behind it; None for the outside.

    @property
    def middle(self) -> float:
        """Centre along its side in metres."""
        return (self.low + self.high) / 2

    @property
    def depth(self) -> float:
        """Thickness of the surrounding wall in metres."""
        return OUTER if self.other is None else WALL

    def area(self, into: float, beyond: float, margin: float = 0.0) -> Box2:
        """Return the floor area from `into` metres inside the room to `beyond` metres behind the wall face."""
        a = self.side.at(self.low - margin, into)
        b = self.side.at(self.high + margin, -beyond)
        low, high = np.minimum(a, b), np.maximum(a, b)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def room_sides(room: Room, number: int) -> list[WallSide]:
    """Return the walls of a room in order. `number` is the index of the room in its plan."""
    ends = np.roll(room.corners, -1, axis=0)
    return [WallSide(number, a, b) for a, b in zip(room.corners, ends, strict=True)]


@dataclass(eq=False)
class HomePlan:
    """A home: rooms, their common outline including inner walls, openings, and ceiling height."""

    rooms: list[Room]
    outline: Array
    height: float
    openings: list[Opening] = field(default_factory=list)

    @property
    def area(self) -> float:
        """Floor area of all rooms in square metres, without walls."""
        return sum(room.area for room in self.rooms)

    @property
    def ways(self) -> list[Box2]:
        """Floor areas of the doors and passages between rooms."""
        inner = [opening for opening in self.openings if opening.other is not None]
        return [opening.area(0.01, opening.depth + 0.01) for opening in inner]

    @property
    def sides(self) -> list[WallSide]:
        return [side for number, room in enumerate(self.rooms) for side in room_sides(room, number)]

    def outside(self, side: WallSide) -> bool:
        middle = side.at(side.length / 2, -0.01)
        return not bool(Room("", self.outline).holds(middle[None])[0])


def rectangle(x: float, y: float, a: float, b: float) -> Array:
    """Return the corners of a rectangle, counter-clockwise, (4, 2)."""
    return np.array([[x, y], [a, y], [a, b], [x, b]], float)
