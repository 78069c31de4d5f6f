"""Finds positions for furniture: at walls, and beside, in front of and on other items.

Items never overlap, never block doors or windows, and leave the floor walkable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from render_agent.scans.boxes import Array, OrientedBox, boxes_overlap, upright_box
from render_agent_lab.room_generator.floor_plan.plan import HomePlan, Opening, WallSide, room_sides
from render_agent_lab.room_generator.floor_plan.structure import SKIRTING
from render_agent_lab.room_generator.floor_plan.walkway import Walkway, is_obstacle
from render_agent_lab.room_generator.furniture.catalogue import BuiltPiece, build_piece
from render_agent_lab.room_generator.item import Item

GAP = SKIRTING + 0.008  # metres between the back of a piece and its wall
MIN_GAP = 0.02  # minimum distance between two pieces in metres
TRIES = 24


class Unfurnishable(Exception):
    """Raised if an essential item of a room cannot be placed; the caller draws another home."""


class Placer:
    """Places the furniture of a home, item by item.

    Every method that places something returns the item, or None if there is no space for it.
    """

    def __init__(self, plan: HomePlan, rng: np.random.Generator, step: float) -> None:
        self.plan = plan
        self.rng = rng
        self.step = step
        self.items: list[Item] = []
        self.walkway = Walkway(plan.rooms, plan.ways)
        self.keep_clear = [_clear_zone(opening) for opening in plan.openings]

    def make(self, kind: str, twin: int | None = None, **proportions: Any) -> BuiltPiece:
        """Build a piece. Pieces with the same `twin` number are identical."""
        rng = self.rng if twin is None else np.random.default_rng(twin)
        return build_piece(kind, rng, self.step, **proportions)

    def put(
        self,
        piece: BuiltPiece,
        where: Array,  # centre of its footprint, (2,) metres
        turn: float,  # rotation in degrees
        room: int,
        # height of its lowest point in metres; None puts it on the floor or the rug there
        height: float | None = None,
        support: Item | None = None,
        anywhere: bool = False,
    ) -> Item | None:
        low = self._ground(piece, where, turn) if height is None else height
        item = Item(piece, np.array([*where, low]), turn, room, support)
        if not anywhere and not self._is_allowed(item):
            return None
        if any(
            boxes_overlap(item.box.grown(MIN_GAP / 2), other.box.grown(MIN_GAP / 2))
            for other in self._near(item)
        ):
            return None
        if is_obstacle(item.box, piece.kind, support is not None):
            free = self.walkway.without(item.box)
            if not self.walkway.passable(free):
                return None
            self.walkway.free = free
        self.items.append(item)
        return item

    def _near(self, item: Item) -> list[Item]:
        """Return the items to keep clear of: all except its support and the rugs under it."""
        under = [item.support] if item.support else []
        flat = [
            other for other in self.items if other.built.kind == "rug" and item.built.kind != "rug"
        ]
        return [other for other in self.items if other not in under and other not in flat]

    def _ground(self, piece: BuiltPiece, where: Array, turn: float) -> float:
        if piece.kind == "rug":
            return 0.0
        low, high = piece.mesh.bounds
        box = upright_box(low, high, turn, np.array([*where, 0.0]))
        rugs = [item.box for item in self.items if item.built.kind == "rug"]
        return max(
            (float(rug.bounds[1, 2]) for rug in rugs if boxes_overlap(box, rug)), default=0.0
        )

    def _is_allowed(self, item: Item) -> bool:
        low, high = item.built.mesh.bounds
        u, v = (np.linspace(low[axis], high[axis], 7) for axis in (0, 1))
        grid = np.stack(np.meshgrid(u, v), -1).reshape(-1, 2)
        points = np.array([item.point(x, y) for x, y in grid])
        if not self.plan.rooms[item.room].holds(points).all():
            return False
        if item.box.bounds[1, 2] > self.plan.height - 0.01:
            return False
        zones = [] if item.built.kind == "rug" else self.keep_clear
        return not any(boxes_overlap(item.box, zone) for zone in zones)

    def wall(
        self, kind: str, room: int, height: float | None = None, **proportions: Any
    ) -> Item | None:
        """Place a piece with its back to a wall, on the floor or at a height in metres."""
        piece = self.make(kind, **proportions)
        sides = room_sides(self.plan.rooms[room], room)
        gap = GAP if height is None else 0.004
        for _ in range(TRIES):
            side = self._pick(sides)
            reach = piece.half[0] + 0.03
            if side.length < 2 * reach:
                continue
            along = float(self.rng.uniform(reach, side.length - reach))
            if height is None and self.rng.random() < 0.5:
                along = reach if self.rng.random() < 0.5 else side.length - reach
            if placed := self.put(
                piece, side.at(along, gap + piece.half[1]), side.facing, room, height
            ):
                return placed
        return None

    def corner(self, kind: str, room: int) -> Item | None:
        """Place a piece in a corner of a room."""
        piece = self.make(kind)
        sides = room_sides(self.plan.rooms[room], room)
        for _ in range(TRIES):
            side = self._pick(sides)
            off = piece.half[0] + GAP + float(self.rng.uniform(0.03, 0.1))
            along = off if self.rng.random() < 0.5 else side.length - off
            if placed := self.put(
                piece, side.at(along, piece.half[1] + GAP + 0.05), side.facing, room
            ):
                return placed
        return None

    def _pick(self, sides: Sequence[WallSide]) -> WallSide:
        share = np.array([side.length for side in sides])
        return sides[int(self.rng.choice(len(sides), p=share / share.sum()))]

    def beside(self, kind: str, item: Item, gap: tuple[float, float] = (0.05, 0.12)) -> Item | None:
        """Place a piece to the left or right of an item, with their backs aligned."""
        piece = self.make(kind)
        for side in self.rng.permutation([-1, 1]):
            right = side * (item.size[0] / 2 + piece.half[0] + self.rng.uniform(*gap))
            where = item.point(right, item.size[1] / 2 - piece.half[1])
            if placed := self.put(piece, where, item.turn, item.room):
                return placed
        return None

    def in_front_of(
        self, kind: str, item: Item, gaps: Sequence[float], towards: bool, shift: float = 0.0
    ) -> Item | None:
        """Place a piece in front of an item, facing it (`towards`) or the same way.

        Tries the `gaps`, in metres, in order; `shift` moves it sideways.
        """
        piece = self.make(kind)
        for gap in gaps:
            where = item.point(shift, -(item.size[1] / 2 + gap + piece.half[1]))
            turn = item.turn + 180.0 if towards else item.turn
            if placed := self.put(piece, where, turn % 360, item.room):
                return placed
        return None

    def around(self, kind: str, table: Item, count: int) -> list[Item]:
        """Place identical chairs along the sides of a table, facing it, each slightly askew."""
        piece = self.make(kind, twin=int(self.rng.integers(1 << 30)))
        width = table.size[0]
        across = (-0.25, 0.25) if width > 1.25 else (0.0,)
        seats = [(x * width, side) for side in (-1, 1) for x in across]
        ends = [(0.0, side) for side in (-1, 1)]
        spots = [("side", *seat) for seat in seats] + [("end", *end) for end in ends]
        order = [spots[int(index)] for index in self.rng.permutation(len(seats))]
        order += [spots[len(seats) + int(index)] for index in self.rng.permutation(len(ends))]
        placed: list[Item] = []
        for edge, shift, side in order:
            if len(placed) == count:
                break
            if chair := self._seat(piece, table, edge, shift, side):
                placed.append(chair)
        return placed

    def _seat(
        self, piece: BuiltPiece, table: Item, edge: str, shift: float, side: int
    ) -> Item | None:
        for gap in (0.07, 0.12):
            askew = float(self.rng.uniform(-7, 7))
            if edge == "side":
                where = table.point(shift, side * (table.size[1] / 2 + piece.half[1] + gap))
                turn = table.turn + (0.0 if side > 0 else 180.0)
            else:
                where = table.point(side * (table.size[0] / 2 + piece.half[1] + gap), shift)
                turn = table.turn + (-90.0 if side > 0 else 90.0)
            if placed := self.put(piece, where, (turn + askew) % 360, table.room):
                return placed
        return None

    def on(
        self,
        kind: str,
        item: Item,
        across: tuple[float, float] = (-1, 1),
        along: tuple[float, float] = (-1, 1),
        askew: float = 8.0,
    ) -> Item | None:
        """Place a piece on an item, within the given fractions of its free half width and half depth."""
        if item.built.top is None:
            return None
        piece = self.make(kind)
        spare = np.maximum(item.size[:2] / 2 - piece.half[:2] - 0.02, 0)
        height = float(item.position[2]) + item.built.top + 0.001
        for _ in range(TRIES):
            x, y = self.rng.uniform(*across) * spare[0], self.rng.uniform(*along) * spare[1]
            turn = item.turn + float(self.rng.uniform(-askew, askew))
            where = item.point(x, y)
            if placed := self.put(piece, where, turn % 360, item.room, height, item, anywhere=True):
                return placed
        return None

    def ceiling(self, room: int, where: Array) -> Item | None:
        """Hang a lamp from the ceiling."""
        piece = self.make("ceiling light")
        top = piece.mesh.bounds[1, 2]
        return self.put(piece, where, 0.0, room, self.plan.height - top - 0.002, anywhere=True)

    def require(self, item: Item | None) -> Item:
        if item is None:
            raise Unfurnishable
        return item


def _clear_zone(opening: Opening) -> OrientedBox:
    """Return the zone to keep free in front of an opening: passage through a door, view through a window."""
    if opening.kind == "window":
        area, bottom = opening.area(0.3, 0.1), opening.bottom - 0.02
    else:
        beyond = 0.1 if opening.other is None else opening.depth + 0.75
        area, bottom = opening.area(0.75, beyond, margin=0.08), 0.0
    top = opening.top
    return upright_box(np.array([area[0], area[1], bottom]), np.array([area[2], area[3], top]))
