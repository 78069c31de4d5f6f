"""A room that can be edited: its objects, what supports them, and free places for them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import product, tee

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.boxes import Array, OrientedBox, boxes_overlap
from render_agent.scans.edits import ObjectKey, ObjectParts
from render_agent.scans.free_space.mesh_contact import MeshContact
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts

# Categories that are part of the building. They are never edited: that would leave a hole or a loose pipe.
BUILT_IN = frozenset(
    "door doorframe window wall floor ceiling stairs shower bathtub toilet sink heater radiator".split()
)

STEP_METRES = 0.2  # spacing of the grid of tried places
LEVEL_METRES = 0.06  # tolerance within which an object stands on the floor, or on another object
CONTACT_METRES = 0.01  # vertices within this height of an object's lowest one touch its support
SUPPORT_METRES = 0.02  # largest gap between a placed object and its support
GAP_METRES = 0.03  # smallest distance of a placed object to all others
DOOR_METRES = 0.5  # free space kept around doors
LEAST_MOVE_METRES = 0.6  # smallest horizontal move of an object

# Unit vectors in 16 directions; the contacts of an object are its farthest points in them.
DIRECTIONS = np.array([(math.cos(n * math.pi / 8), math.sin(n * math.pi / 8)) for n in range(16)])

# Horizontal offsets in metres, tried in this order, by which a swapped object may miss the other's place.
NUDGES = sorted(product(np.linspace(-0.3, 0.3, 5).round(2).tolist(), repeat=2), key=lambda offset: math.hypot(*offset))  # fmt: skip

NOBODY = -1  # owner of the faces of the building

Shift = tuple[float, float, float]  # metres


class NoCounterpartError(Exception):
    """Raised if a question has no counterpart; the message is a clause that is counted in reports."""


class UnsolvableError(NoCounterpartError):
    """Raised if a question has no counterpart for any edit, because its own answer cannot be computed."""


class ChangeableRoom:
    """A scene and its object boxes, read on first use.

    Args:
        facts: The boxes in the frame of the scene's file; None if unknown.
        read: Reads the scene.
    """

    def __init__(self, facts: Facts | None, read: Callable[[], Scene]) -> None:
        self.facts = facts
        self._read = read
        self._places: dict[tuple[ObjectKey, bool], Iterator[Shift]] = {}
        self._swaps: dict[tuple[ObjectKey, ObjectKey], tuple[Shift, Shift] | None] = {}

    @cached_property
    def boxes(self) -> dict[ObjectKey, OrientedBox]:
        """The boxes of all objects, in the frame of the scene's file."""
        by_label = {} if self.facts is None else self.facts.boxes
        return {(label, n): box for label, boxes in by_label.items() for n, box in enumerate(boxes)}

    @cached_property
    def scene(self) -> Scene:
        """The scene.

        Raises:
            NoCounterpartError: The scan cannot be read.
        """
        try:
            return self._read()
        except SceneError as error:
            raise NoCounterpartError("the scan cannot be read") from error

    @cached_property
    def parts(self) -> Mapping[ObjectKey, NDArray[np.intp]]:
        """The vertex indices of the objects whose faces can be separated from the rest of the mesh.

        Raises:
            NoCounterpartError: The scan is not a mesh with vertex colours.
        """
        try:
            return ObjectParts(self.scene, self.facts.boxes if self.facts else {}).things
        except SceneError as error:
            raise NoCounterpartError("the scan is not a mesh with vertex colours") from error

    def loose(self, label: str) -> list[ObjectKey]:
        """Return the objects of a category that can be edited independently.

        Raises:
            NoCounterpartError: There are none.
        """
        of_label = [thing for thing in self.boxes if thing[0] == label]
        if not of_label:
            raise NoCounterpartError(f"the room has no {label}")
        if label.lower() in BUILT_IN:
            raise NoCounterpartError(f"a {label} is part of the building")
        if not (without_load := [thing for thing in of_label if thing not in self._carriers]):
            raise NoCounterpartError(f"every {label} supports another object")
        if not (separable := [thing for thing in without_load if thing in self.parts]):
            raise NoCounterpartError(
                f"the mesh of the {label} cannot be separated from its surroundings"
            )
        return separable

    def support(self, thing: ObjectKey) -> ObjectKey | None:
        """Return the object that supports another one; None for the floor.

        Raises:
            NoCounterpartError: The object has no support, such as a clock on a wall.
        """
        if self.bottom(thing) <= self._floor + LEVEL_METRES:
            return None
        if not (counts := self._supports[thing]):
            raise NoCounterpartError(f"the {thing[0]} is not standing on anything")
        return counts.most_common(1)[0][0]

    def bottom(self, thing: ObjectKey) -> float:
        """Return the height of an object's bottom in metres."""
        return float(self._contacts[thing][0, 2])

    def places(
        self, thing: ObjectKey, chance: random.Random, *, copied: bool = False
    ) -> Iterator[Shift]:
        """Yield the shifts that move an object to a free place on its support, followed by those on the floor.

        Results are cached, so that all questions about a room use the same places.

        Args:
            thing: The object.
            chance: Determines the order of the places.
            copied: True if the original stays in its place.

        Raises:
            NoCounterpartError: The object has no support.
        """
        support, key = self.support(thing), (thing, copied)
        if key not in self._places:
            self._places[key] = self._free_places(thing, support, chance, copied=copied)
        self._places[key], places = tee(self._places[key])
        return places

    def _free_places(
        self, thing: ObjectKey, support: ObjectKey | None, chance: random.Random, *, copied: bool
    ) -> Iterator[Shift]:
        centre = self.boxes[thing].centre
        areas: list[tuple[Array, float, ObjectKey | None]] = [
            (self.scene.bounds[:, :2] + self._origin[:2], self._floor, None)
        ]
        if support is not None:
            areas.insert(0, (self.boxes[support].bounds[:, :2], self.bottom(thing), support))
        gone = set() if copied else {thing}
        for (low, high), bottom, target in areas:
            xs, ys = (np.arange(a, b, STEP_METRES) for a, b in zip(low, high, strict=True))
            grid = [(float(x), float(y)) for x in xs for y in ys]
            chance.shuffle(grid)
            for x, y in grid:
                shift = x - float(centre[0]), y - float(centre[1]), bottom - self.bottom(thing)
                if math.hypot(*shift[:2]) >= LEAST_MOVE_METRES and self.fits(
                    thing, shift, gone, target
                ):
                    yield shift

    def swap(self, first: ObjectKey, second: ObjectKey) -> tuple[Shift, Shift] | None:
        """Return the shifts that move two objects to each other's place, or as near to it as they fit.

        Returns:
            The shift of each object; None if one of them does not fit.
        """
        if (first, second) not in self._swaps:
            self._swaps[first, second] = self._swap(first, second)
        return self._swaps[first, second]

    def _swap(self, first: ObjectKey, second: ObjectKey) -> tuple[Shift, Shift] | None:
        try:
            supports = self.support(first), self.support(second)
        except NoCounterpartError:  # one of them has no support
            return None
        if {first, second} & set(supports):
            return None
        if not (there := self._shifts_near(first, second, supports[1])):
            return None
        back = self._shifts_near(second, first, supports[0])
        return next(
            (
                shifts
                for shifts in product(there, back)
                if not boxes_overlap(
                    _shifted(self.boxes[first], shifts[0]).grown(GAP_METRES),
                    _shifted(self.boxes[second], shifts[1]),
                )
            ),
            None,
        )

    def _shifts_near(
        self, thing: ObjectKey, other: ObjectKey, support: ObjectKey | None
    ) -> list[Shift]:
        """Return the shifts that move an object to the place of another one, the nearest first."""
        x, y, _ = map(float, self.boxes[other].centre - self.boxes[thing].centre)
        z = self.bottom(other) - self.bottom(thing)
        shifts = [(x + right, y + forward, z) for right, forward in NUDGES]
        return [shift for shift in shifts if self.fits(thing, shift, {thing, other}, support)]

    def fits(
        self, thing: ObjectKey, shift: Shift, gone: set[ObjectKey], support: ObjectKey | None
    ) -> bool:
        """True if an object, moved by `shift`, touches nothing and rests on the surface of its support.

        Args:
            thing: The object.
            shift: The move.
            gone: Objects that have left their original place. Only their own faces are ignored.
            support: The object that it should rest on; None for the floor.
        """
        box = _shifted(self.boxes[thing], shift)
        grown = box.grown(GAP_METRES)
        low, high = grown.bounds
        near = ((self._bounds[:, 0] < high) & (self._bounds[:, 1] > low)).all(1)
        for other, obstacle in (entry for entry, is_near in zip(self._obstacles, near, strict=True) if is_near):  # fmt: skip
            if other not in gone and other != support and boxes_overlap(grown, obstacle):
                return False
        return self._rests(self._contacts[thing] + shift, support) and not self._hits(box, gone)

    @cached_property
    def _obstacles(self) -> list[tuple[ObjectKey, OrientedBox]]:
        """The boxes of all objects; those of doors include the space around them."""
        margins = {thing: DOOR_METRES if thing[0].lower() == "door" else 0.0 for thing in self.boxes}  # fmt: skip
        return [(thing, box.grown(margins[thing])) for thing, box in self.boxes.items()]

    @cached_property
    def _bounds(self) -> Array:
        """The bounds of the obstacles, (n, 2, 3) metres."""
        return np.array([box.bounds for _, box in self._obstacles])

    def _rests(self, contacts: Array, support: ObjectKey | None) -> bool:
        """True if all contacts, (k, 3) metres, are on the surface of a support."""
        owner = NOBODY if support is None else self._numbers[support]
        below = self._mesh.owners_at(contacts, SUPPORT_METRES)
        return all(owner in owners for owners in below)

    def _hits(self, box: OrientedBox, gone: set[ObjectKey]) -> bool:
        """True if a face of anything that is still in its place reaches into a box above its bottom."""
        lift = min(SUPPORT_METRES, float(box.size[2]) / 4)
        half = np.array([0, 0, lift / 2])
        above = replace(box, centre=box.centre + half, size=box.size - 2 * half)
        return bool(self._mesh.owners_inside(above) - {self._numbers[thing] for thing in gone})

    @cached_property
    def _numbers(self) -> dict[ObjectKey, int]:
        """The owner number of each object's faces in `_mesh`."""
        return {thing: number for number, thing in enumerate(self.boxes)}

    @cached_property
    def _mesh(self) -> MeshContact:
        """The faces of the room. Those of an object that cannot be separated are the remaining ones inside its box."""
        points = self.scene.points.astype(np.float64) + self._origin
        assert self.scene.faces is not None
        owner = np.full(len(points), NOBODY)
        for thing, vertices in self.parts.items():
            owner[vertices] = self._numbers[thing]
        for thing in self.boxes.keys() - self.parts.keys():
            box = self.boxes[thing].grown(GAP_METRES)
            is_inside = (np.abs(box.local(points)) <= box.size / 2).all(1)
            owner[is_inside & (owner == NOBODY)] = self._numbers[thing]
        of_corners = owner[self.scene.faces]
        is_shared = (of_corners != of_corners[:, :1]).any(1)
        return MeshContact(points[self.scene.faces], np.where(is_shared, NOBODY, of_corners[:, 0]))

    @cached_property
    def _contacts(self) -> dict[ObjectKey, Array]:
        """Where each object touches what it stands on, (k, 3) metres: its outermost lowest vertices.

        For an object that cannot be separated, these are the corners of its box.
        """
        points = self.scene.points.astype(np.float64) + self._origin
        contacts = {}
        for thing, box in self.boxes.items():
            vertices = points[self.parts[thing]] if thing in self.parts else box.corners
            bottom = vertices[:, 2].min()
            lowest = vertices[vertices[:, 2] <= bottom + CONTACT_METRES, :2]
            outermost = lowest[np.unique((lowest @ DIRECTIONS.T).argmax(0))]
            contacts[thing] = np.column_stack([outermost, np.full(len(outermost), bottom)])
        return contacts

    @cached_property
    def _supports(self) -> dict[ObjectKey, Counter[ObjectKey]]:
        """The objects below each one that is above the floor, with the number of contacts."""
        names = {number: thing for thing, number in self._numbers.items()}
        return {
            thing: Counter(
                names[owner]
                for owners in self._mesh.owners_at(contacts, LEVEL_METRES)
                for owner in owners - {NOBODY, self._numbers[thing]}
            )
            for thing, contacts in self._contacts.items()
            if self.bottom(thing) > self._floor + LEVEL_METRES
        }

    @cached_property
    def _carriers(self) -> frozenset[ObjectKey]:
        """The objects that support another object."""
        return frozenset(support for counts in self._supports.values() for support in counts)

    @cached_property
    def _origin(self) -> Array:
        return np.array(self.scene.origin)

    @cached_property
    def _floor(self) -> float:
        return self.scene.floor + float(self._origin[2])


def _shifted(box: OrientedBox, shift: Shift) -> OrientedBox:
    return replace(box, centre=box.centre + shift)
