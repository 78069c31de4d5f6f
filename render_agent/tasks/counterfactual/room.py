"""A room that can be edited: its objects, what supports them, and free places for them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice

import numpy as np

from render_agent.errors import SceneError
from render_agent.scans.boxes import Array, OrientedBox, overlap
from render_agent.scans.edits import ObjectKey, ObjectParts
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts

# Categories that are part of the building. They are never edited: that would leave a hole or a loose pipe.
BUILT_IN = frozenset(
    "door doorframe window wall floor ceiling stairs shower bathtub toilet sink heater radiator".split()
)

STEP_METRES = 0.2  # spacing of the grid of tried places
LEVEL_METRES = 0.06  # tolerance within which an object stands on the floor, or on another object
SINKS_METRES = (
    0.6  # depth below its support's top at which an object may start: a pillow below a sofa's back
)
GAP_METRES = 0.03  # smallest distance of a placed object to all others
DOOR_METRES = 0.5  # free space kept around doors
OVER_FLOOR_METRES = 0.12  # largest distance from an object's footprint to a floor sample
MOST_PLACES = 24  # free places per object
LEAST_MOVE_METRES = 0.6  # smallest horizontal move of an object

Shift = tuple[float, float, float]  # metres


class NoCounterpartError(Exception):
    """Raised if a question has no counterpart; the message is a clause that is counted in reports."""


class ChangeableRoom:
    """A scene and its object boxes, read on first use.

    Args:
        facts: The boxes in the frame of the scene's file; None if unknown.
        read: Reads the scene.
    """

    def __init__(self, facts: Facts | None, read: Callable[[], Scene]) -> None:
        self.facts = facts
        self._read = read
        self._places: dict[tuple[ObjectKey, bool], list[Shift]] = {}

    @cached_property
    def boxes(self) -> dict[ObjectKey, OrientedBox]:
        """The boxes of all objects, in the frame of the scene's file."""
        by_label = {} if self.facts is None else self.facts.boxes
        return {(label, n): box for label, boxes in by_label.items() for n, box in enumerate(boxes)}

    @cached_property
    def scene(self) -> Scene:
        """The scene.

        Raises:
            NoPair: The scan cannot be read.
        """
        try:
            return self._read()
        except SceneError as error:
            raise NoCounterpartError("the scan cannot be read") from error

    @cached_property
    def things(self) -> frozenset[ObjectKey]:
        """The objects whose faces can be separated from the rest of the mesh.

        Raises:
            NoPair: The scan is not a mesh with vertex colours.
        """
        try:
            return frozenset(ObjectParts(self.scene, self.facts.boxes if self.facts else {}).things)
        except SceneError as error:
            raise NoCounterpartError("the scan is not a mesh with vertex colours") from error

    def loose(self, label: str) -> list[ObjectKey]:
        """Return the objects of a category that can be edited independently.

        Raises:
            NoPair: There are none.
        """
        of_label = [thing for thing in self.boxes if thing[0] == label]
        if not of_label:
            raise NoCounterpartError(f"the room has no {label}")
        if label.lower() in BUILT_IN:
            raise NoCounterpartError(f"a {label} is part of the building")
        if not (without_load := [thing for thing in of_label if thing not in self._carriers]):
            raise NoCounterpartError(f"every {label} supports another object")
        if not (separable := [thing for thing in without_load if thing in self.things]):
            raise NoCounterpartError(
                f"the mesh of the {label} cannot be separated from its surroundings"
            )
        return separable

    def support(self, thing: ObjectKey) -> ObjectKey | None:
        """Return the object that supports another one; None for the floor.

        Raises:
            NoPair: The object has no support, such as a clock on a wall.
        """
        if self._heights[thing][0] <= self._floor + LEVEL_METRES:
            return None
        below = [other for other in self.boxes if self._stands_on(thing, other)]
        if not below:
            raise NoCounterpartError(f"the {thing[0]} is not standing on anything")
        return min(below, key=lambda other: float(self.boxes[other].size.prod()))

    def bottom(self, thing: ObjectKey) -> float:
        """Return the height of an object's bottom in metres."""
        return self._heights[thing][0]

    def places(
        self, thing: ObjectKey, chance: random.Random, *, copied: bool = False
    ) -> list[Shift]:
        """Return the shifts that move an object to a free place on its support, followed by those on the floor.

        A free place does not touch other objects, walls or the space around doors. Results are cached, so that all
        questions about a room use the same places.

        Args:
            thing: The object.
            chance: Determines the order of the places.
            copied: True if the original stays in its place.

        Raises:
            NoPair: The object has no support.
        """
        if (thing, copied) not in self._places:
            free_places = islice(self._free_places(thing, chance, copied=copied), MOST_PLACES)
            self._places[thing, copied] = list(free_places)
        return self._places[thing, copied]

    def _free_places(
        self, thing: ObjectKey, chance: random.Random, *, copied: bool
    ) -> Iterator[Shift]:
        support, box = self.support(thing), self.boxes[thing]
        areas: list[tuple[Array, float, ObjectKey | None]] = [
            (self.scene.bounds[:, :2] + self._origin[:2], self._floor, None)
        ]
        if support is not None:
            areas.insert(0, (self.boxes[support].bounds[:, :2], self._heights[thing][0], support))
        for (low, high), bottom, target in areas:
            xs, ys = (np.arange(a, b, STEP_METRES) for a, b in zip(low, high, strict=True))
            grid = [(float(x), float(y)) for x in xs for y in ys]
            chance.shuffle(grid)
            for x, y in grid:
                shift = np.array([x, y, bottom]) - (*box.centre[:2], self._heights[thing][0])
                moved_box = OrientedBox(box.centre + shift, box.size, box.axes)
                if np.hypot(*shift[:2]) >= LEAST_MOVE_METRES and self.fits(
                    moved_box, set() if copied else {thing}, target
                ):
                    yield float(shift[0]), float(shift[1]), float(shift[2])

    def fits(self, box: OrientedBox, moved: set[ObjectKey], support: ObjectKey | None) -> bool:
        """True if a box overlaps nothing and rests on its support.

        Args:
            box: The box at its new place.
            moved: Objects that have left their original place.
            support: The object that it should rest on; None for the floor.
        """
        grown = box.grown(GAP_METRES)
        low, high = grown.bounds
        near = ((self._bounds[:, 0] < high) & (self._bounds[:, 1] > low)).all(1)
        for thing, other in (entry for entry, is_near in zip(self._obstacles, near, strict=True) if is_near):  # fmt: skip
            if thing not in moved and thing != support and overlap(grown, other):
                return False
        return self._rests(box, support) and not self._hits_surface(box, moved, support)

    @cached_property
    def _obstacles(self) -> list[tuple[ObjectKey, OrientedBox]]:
        """The boxes of all objects; those of doors include the space around them."""
        margins = {thing: DOOR_METRES if thing[0].lower() == "door" else 0.0 for thing in self.boxes}  # fmt: skip
        return [(thing, box.grown(margins[thing])) for thing, box in self.boxes.items()]

    @cached_property
    def _bounds(self) -> Array:
        """The bounds of the obstacles, (n, 2, 3) metres."""
        return np.array([box.bounds for _, box in self._obstacles])

    def _rests(self, box: OrientedBox, support: ObjectKey | None) -> bool:
        low, high = box.bounds[:, :2]
        steps = [np.linspace(a, b, max(2, int((b - a) / 0.15) + 2)) for a, b in zip(low, high, strict=True)]  # fmt: skip
        footprint = np.stack(np.meshgrid(*steps), -1).reshape(-1, 2)
        if support is None:
            on_floor = np.column_stack([footprint, np.full(len(footprint), self._floor)])
            distances = self._space.tree.query(on_floor - self._origin)[0]
            return bool((distances < OVER_FLOOR_METRES).all())
        below = self.boxes[support]
        local = below.local(np.column_stack([footprint, np.full(len(footprint), below.centre[2])]))
        return bool((np.abs(local) <= below.size / 2).all())

    def _hits_surface(
        self, box: OrientedBox, moved: set[ObjectKey], support: ObjectKey | None
    ) -> bool:
        """True if a box contains scanned surface that belongs to no moved object, such as a wall."""
        samples = np.asarray(self._space.tree.data)[
            self._space.tree.query_ball_point(box.centre - self._origin, float(np.linalg.norm(box.size)) / 2)
        ] + self._origin  # fmt: skip
        inside = (np.abs(box.local(samples)) < box.size / 2).all(1)
        inside &= samples[:, 2] > box.bounds[0, 2] + LEVEL_METRES
        for thing in moved | ({support} if support else set()):
            excluded = self.boxes[thing].grown(GAP_METRES)
            inside &= ~(np.abs(excluded.local(samples)) <= excluded.size / 2).all(1)
        return bool(inside.any())

    @cached_property
    def _carriers(self) -> frozenset[ObjectKey]:
        """The objects that support another object."""
        return frozenset(
            thing
            for thing in self.boxes
            if any(self._stands_on(other, thing) for other in self.boxes)
        )

    def _stands_on(self, thing: ObjectKey, below: ObjectKey) -> bool:
        """True if the bottom of an object is above the floor, over another object and not far below that one's top."""
        bottom, top = self._heights[thing][0], self._heights[below][1]
        if thing == below or bottom <= self._floor + LEVEL_METRES:
            return False
        if not top - SINKS_METRES <= bottom <= top + LEVEL_METRES:
            return False
        under = self.boxes[below]
        centre = np.array([[*self.boxes[thing].centre[:2], under.centre[2]]])
        return bool((np.abs(under.local(centre)) <= under.size / 2).all())

    @cached_property
    def _heights(self) -> dict[ObjectKey, tuple[float, float]]:
        """Heights of the bottom and top of each object in metres."""
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
