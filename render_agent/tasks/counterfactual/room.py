"""A room that can be changed: its objects, their supports, and the free places for an object."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice

import numpy as np

from render_agent.errors import SceneError
from render_agent.scans.boxes import Array, OrientedBox, overlap
from render_agent.scans.edits import Parts, Thing
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts

BUILT_IN = frozenset(
    "door doorframe window wall floor ceiling stairs shower bathtub toilet sink heater radiator".split()
)
"""What belongs to the building: it is never moved, removed or copied, as a hole would be left or a pipe."""

STEP_METRES = 0.2
"""Between the places that are tried."""

LEVEL_METRES = 0.06
"""What ends this near above the floor stands on it."""

SINKS_METRES = 0.6
"""So far below the top of what it lies on a thing may begin: a pillow below the back of a sofa."""

GAP_METRES = 0.03
"""Between an object at a new place and all others, at least."""

DOOR_METRES = 0.5
"""Before a door no object is put so near."""

OVER_FLOOR_METRES = 0.12
"""Floor this near to every place under an object carries it."""

MOST_PLACES = 24
"""So many free places of an object are looked for."""

Shift = tuple[float, float, float]

LEAST_MOVE_METRES = 0.6
"""An object that is moved goes at least so far."""


class NoPair(Exception):
    """A question has no such counterpart; says why, in a clause that is counted."""


class ChangeableRoom:
    """A scene with what is known of it, read when it is first needed.

    facts: None where nothing is known. read: reads the scene.
    """

    def __init__(self, facts: Facts | None, read: Callable[[], Scene]) -> None:
        self.facts = facts
        self._read = read
        self._places: dict[tuple[Thing, bool], list[Shift]] = {}

    @cached_property
    def boxes(self) -> dict[Thing, OrientedBox]:
        """The boxes of its objects, in the frame of its file."""
        known = {} if self.facts is None else self.facts.boxes
        return {(label, n): box for label, some in known.items() for n, box in enumerate(some)}

    @cached_property
    def scene(self) -> Scene:
        """The scene. NoPair where it cannot be read."""
        try:
            return self._read()
        except SceneError as error:
            raise NoPair("its scan cannot be read") from error

    @cached_property
    def things(self) -> frozenset[Thing]:
        """The objects whose faces are told from all others. NoPair where they lie in no mesh."""
        try:
            return frozenset(Parts(self.scene, self.facts.boxes if self.facts else {}).things)
        except SceneError as error:
            raise NoPair("its scan is no mesh with colours at its vertices") from error

    def loose(self, label: str) -> list[Thing]:
        """Return the objects of a label that can be changed by themselves. NoPair where there is none."""
        own = [thing for thing in self.boxes if thing[0] == label]
        if not own:
            raise NoPair(f"the room has no {label}")
        if label.lower() in BUILT_IN:
            raise NoPair(f"a {label} belongs to the building")
        if not (bare := [thing for thing in own if thing not in self._carriers]):
            raise NoPair(f"something stands on every {label}")
        if not (loose := [thing for thing in bare if thing in self.things]):
            raise NoPair(f"the faces of the {label} cannot be told from what it touches")
        return loose

    def support(self, thing: Thing) -> Thing | None:
        """Return the support of an object, None for the floor. NoPair where it hangs."""
        if self._heights[thing][0] <= self._floor + LEVEL_METRES:
            return None
        below = [other for other in self.boxes if self._stands_on(thing, other)]
        if not below:
            raise NoPair(f"the {thing[0]} hangs")
        return min(below, key=lambda other: float(self.boxes[other].size.prod()))

    def bottom(self, thing: Thing) -> float:
        """Return the height at which an object begins, metres."""
        return self._heights[thing][0]

    def places(self, thing: Thing, chance: random.Random, *, copied: bool = False) -> list[Shift]:
        """Return shifts, metres, that bring an object to free places: on what it stands on, then on the floor.

        copied: whether it also stays where it is. Nowhere does it touch or enter another object, a wall or the way
        through a door. They are looked for once, so that all questions have the same. NoPair where it hangs.
        """
        if (thing, copied) not in self._places:
            free_places = islice(self._free_places(thing, chance, copied=copied), MOST_PLACES)
            self._places[thing, copied] = list(free_places)
        return self._places[thing, copied]

    def _free_places(self, thing: Thing, chance: random.Random, *, copied: bool) -> Iterator[Shift]:
        support, box = self.support(thing), self.boxes[thing]
        areas: list[tuple[Array, float, Thing | None]] = [
            (self.scene.bounds[:, :2] + self._origin[:2], self._floor, None)
        ]
        if support is not None:
            areas.insert(0, (self.boxes[support].bounds[:, :2], self._heights[thing][0], support))
        for (low, high), bottom, on in areas:
            xs, ys = (np.arange(a, b, STEP_METRES) for a, b in zip(low, high, strict=True))
            grid = [(float(x), float(y)) for x in xs for y in ys]
            chance.shuffle(grid)
            for x, y in grid:
                shift = np.array([x, y, bottom]) - (*box.centre[:2], self._heights[thing][0])
                moved = OrientedBox(box.centre + shift, box.size, box.axes)
                if np.hypot(*shift[:2]) >= LEAST_MOVE_METRES and self.fits(
                    moved, set() if copied else {thing}, on
                ):
                    yield float(shift[0]), float(shift[1]), float(shift[2])

    def fits(self, box: OrientedBox, moved: set[Thing], support: Thing | None) -> bool:
        """Whether a box is free at its place and rests on the floor, or on a support.

        moved: the objects that are no longer where they were.
        """
        grown = box.grown(GAP_METRES)
        low, high = grown.bounds
        near = ((self._bounds[:, 0] < high) & (self._bounds[:, 1] > low)).all(1)
        for thing, other in (entry for entry, is_near in zip(self._obstacles, near, strict=True) if is_near):  # fmt: skip
            if thing not in moved and thing != support and overlap(grown, other):
                return False
        return self._rests(box, support) and not self._hits_surface(box, moved, support)

    @cached_property
    def _obstacles(self) -> list[tuple[Thing, OrientedBox]]:
        """The boxes, and the floor before every door as one."""
        margins = {thing: DOOR_METRES if thing[0].lower() == "door" else 0.0 for thing in self.boxes}  # fmt: skip
        return [(thing, box.grown(margins[thing])) for thing, box in self.boxes.items()]

    @cached_property
    def _bounds(self) -> Array:
        """The bounds of the obstacles, (n, 2, 3) metres."""
        return np.array([box.bounds for _, box in self._obstacles])

    def _rests(self, box: OrientedBox, support: Thing | None) -> bool:
        low, high = box.bounds[:, :2]
        steps = [np.linspace(a, b, max(2, int((b - a) / 0.15) + 2)) for a, b in zip(low, high, strict=True)]  # fmt: skip
        foot = np.stack(np.meshgrid(*steps), -1).reshape(-1, 2)
        if support is None:
            level = np.column_stack([foot, np.full(len(foot), self._floor)]) - self._origin
            return bool((self._space.tree.query(level)[0] < OVER_FLOOR_METRES).all())
        below = self.boxes[support]
        local = below.local(np.column_stack([foot, np.full(len(foot), below.centre[2])]))
        return bool((np.abs(local) <= below.size / 2).all())

    def _hits_surface(self, box: OrientedBox, moved: set[Thing], support: Thing | None) -> bool:
        """Whether walls, or anything that has no box, stand inside a box."""
        samples = np.asarray(self._space.tree.data)[
            self._space.tree.query_ball_point(box.centre - self._origin, float(np.linalg.norm(box.size)) / 2)
        ] + self._origin  # fmt: skip
        inside = (np.abs(box.local(samples)) < box.size / 2).all(1)
        inside &= samples[:, 2] > box.bounds[0, 2] + LEVEL_METRES
        for thing in moved | ({support} if support else set()):
            own = self.boxes[thing].grown(GAP_METRES)
            inside &= ~(np.abs(own.local(samples)) <= own.size / 2).all(1)
        return bool(inside.any())

    @cached_property
    def _carriers(self) -> frozenset[Thing]:
        return frozenset(
            thing
            for thing in self.boxes
            if any(self._stands_on(other, thing) for other in self.boxes)
        )

    def _stands_on(self, thing: Thing, below: Thing) -> bool:
        """Whether an object begins above the floor, over another one and not far below its top."""
        bottom, top = self._heights[thing][0], self._heights[below][1]
        if thing == below or bottom <= self._floor + LEVEL_METRES:
            return False
        if not top - SINKS_METRES <= bottom <= top + LEVEL_METRES:
            return False
        under = self.boxes[below]
        middle = np.array([[*self.boxes[thing].centre[:2], under.centre[2]]])
        return bool((np.abs(under.local(middle)) <= under.size / 2).all())

    @cached_property
    def _heights(self) -> dict[Thing, tuple[float, float]]:
        """Where each object begins and ends, metres."""
        bounds = {thing: box.bounds[:, 2] for thing, box in self.boxes.items()}
        return {thing: (float(low), float(high)) for thing, (low, high) in bounds.items()}

    @cached_property
    def _origin(self) -> Array:
        return np.array(self.scene.origin)

    @cached_property
    def _floor(self) -> float:
        return self.scene.floor + float(self._origin[2])

    @cached_property
    def _space(self) -> FreeSpace:
        return FreeSpace.of(self.scene)
