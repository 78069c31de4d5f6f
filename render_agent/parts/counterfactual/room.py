"""A room that can be edited: its objects, their supports, and free places for them."""

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

# Categories that are part of the building. They are never edited, because that would leave a hole or a loose pipe.
BUILT_IN = frozenset(
    "door doorframe window wall floor ceiling stairs shower bathtub toilet sink heater radiator".split()
)

STEP_METRES = 0.2  # spacing of the grid of candidate places
LEVEL_METRES = 0.06  # tolerance for standing on the floor or on another object
CONTACT_METRES = 0.01  # vertices at most this far above an object's lowest vertex touch its support
SUPPORT_METRES = 0.02  # largest gap between a placed object and its support
GAP_METRES = 0.03  # minimum distance between a placed object and all others
DOOR_METRES = 0.5  # free space kept around doors
MIN_MOVE_METRES = 0.6  # minimum horizontal move of an object

# Unit vectors in 16 directions. An object's contacts are its farthest points in each of them.
DIRECTIONS = np.array([(math.cos(n * math.pi / 8), math.sin(n * math.pi / 8)) for n in range(16)])

# Horizontal offsets in metres by which a swapped object may miss the other's place, in the order tried.
NUDGES = sorted(product(np.linspace(-0.3, 0.3, 5).round(2).tolist(), repeat=2), key=lambda offset: math.hypot(*offset))  # fmt: skip

BUILDING = -1  # owner of the building's faces

Shift = tuple[float, float, float]  # metres


class NoCounterpartError(Exception):
    """Raised if a question has no counterpart. The message is a clause that is counted in reports."""


class UnsolvableError(NoCounterpartError):
    """Raised if the question's own answer cannot be computed, so that no edit yields a counterpart."""


class ChangeableRoom:
    """A scene and its object boxes, read on first use."""

    def __init__(
        self,
        facts: Facts | None,  # the boxes in the frame of the scene's file; None if unknown
        read_scene: Callable[[], Scene],
    ) -> None:
        self.facts = facts
        self._read = read_scene
        self._places: dict[tuple[ObjectKey, bool], Iterator[Shift]] = {}
        self._swaps: dict[tuple[ObjectKey, ObjectKey], tuple[Shift, Shift] | None] = {}

    @cached_property
    def boxes(self) -> dict[ObjectKey, OrientedBox]:
        """The boxes of all objects, in the frame of the scene's file."""
        by_label = {} if self.facts is None else self.facts.boxes
        return {(label, n): box for label, boxes in by_label.items() for n, box in enumerate(boxes)}

    @cached_property
    def scene(self) -> Scene:
        """The scene. Raises NoCounterpartError."""
        try:
            return self._read()
        except SceneError as error:
            raise NoCounterpartError("the scan cannot be read") from error

    @cached_property
    def parts(self) -> Mapping[ObjectKey, NDArray[np.intp]]:
        """The vertex indices of the objects whose faces can be separated from the rest of the mesh."""
        try:
            return ObjectParts(self.scene, self.facts.boxes if self.facts else {}).things
        except SceneError as error:
            raise NoCounterpartError("the scan is not a mesh with vertex colours") from error

    def loose(self, label: str) -> list[ObjectKey]:
        """Return the objects of a category that can be edited independently. Raises NoCounterpartError."""
        of_label = [key for key in self.boxes if key[0] == label]
        if not of_label:
            raise NoCounterpartError(f"the room has no {label}")
        if label.lower() in BUILT_IN:
            raise NoCounterpartError(f"a {label} is part of the building")
        if not (without_load := [key for key in of_label if key not in self._carriers]):
            raise NoCounterpartError(f"every {label} supports another object")
        if not (separable := [key for key in without_load if key in self.parts]):
            raise NoCounterpartError(
                f"the mesh of the {label} cannot be separated from its surroundings"
            )
        return separable

    def support(self, key: ObjectKey) -> ObjectKey | None:
        """Return the object that supports `key`; None for the floor. Raises NoCounterpartError."""
        if self.bottom(key) <= self._floor + LEVEL_METRES:
            return None
        if not (counts := self._supports[key]):
            raise NoCounterpartError(f"the {key[0]} is not standing on anything")
        return counts.most_common(1)[0][0]

    def bottom(self, key: ObjectKey) -> float:
        """Return the height of an object's bottom in metres."""
        return float(self._contacts[key][0, 2])

    def places(
        self, key: ObjectKey, chance: random.Random, *, is_copy: bool = False
    ) -> Iterator[Shift]:
        """Yield the shifts that move an object to free places, first on its support, then on the floor.

        Results are cached, so that all questions about a room use the same places.
        """
        support, cache_key = self.support(key), (key, is_copy)
        if cache_key not in self._places:
            self._places[cache_key] = self._free_places(key, support, chance, is_copy=is_copy)
        self._places[cache_key], places = tee(self._places[cache_key])
        return places

    def _free_places(
        self, key: ObjectKey, support: ObjectKey | None, chance: random.Random, *, is_copy: bool
    ) -> Iterator[Shift]:
        centre = self.boxes[key].centre
        areas: list[tuple[Array, float, ObjectKey | None]] = [
            (self.scene.bounds[:, :2] + self._origin[:2], self._floor, None)
        ]
        if support is not None:
            areas.insert(0, (self.boxes[support].bounds[:, :2], self.bottom(key), support))
        departed = set() if is_copy else {key}
        for (low, high), bottom, target in areas:
            xs, ys = (np.arange(a, b, STEP_METRES) for a, b in zip(low, high, strict=True))
            grid = [(float(x), float(y)) for x in xs for y in ys]
            chance.shuffle(grid)
            for x, y in grid:
                shift = x - float(centre[0]), y - float(centre[1]), bottom - self.bottom(key)
                if math.hypot(*shift[:2]) >= MIN_MOVE_METRES and self.fits(
                    key, shift, departed, target
                ):
                    yield shift

    def swap(self, first: ObjectKey, second: ObjectKey) -> tuple[Shift, Shift] | None:
        """Return the shifts that move two objects to each other's places, or as close as they fit; None if they do not."""
        if (first, second) not in self._swaps:
            self._swaps[first, second] = self._swap(first, second)
        return self._swaps[first, second]

    def _swap(self, first: ObjectKey, second: ObjectKey) -> tuple[Shift, Shift] | None:
        try:
            supports = self.support(first), self.support(second)
        except NoCounterpartError:  # one of the objects has no support
            return None
        if {first, second} & set(supports):
            return None
        if not (shifts_to_second := self._shifts_near(first, second, supports[1])):
            return None
        back = self._shifts_near(second, first, supports[0])
        return next(
            (
                shifts
                for shifts in product(shifts_to_second, back)
                if not boxes_overlap(
                    _shift_box(self.boxes[first], shifts[0]).grown(GAP_METRES),
                    _shift_box(self.boxes[second], shifts[1]),
                )
            ),
            None,
        )

    def _shifts_near(
        self, key: ObjectKey, target: ObjectKey, support: ObjectKey | None
    ) -> list[Shift]:
        """Return the shifts that move an object to the place of another one, nearest first."""
        x, y, _ = map(float, self.boxes[target].centre - self.boxes[key].centre)
        z = self.bottom(target) - self.bottom(key)
        shifts = [(x + right, y + forward, z) for right, forward in NUDGES]
        return [shift for shift in shifts if self.fits(key, shift, {key, target}, support)]

    def fits(
        self,
        key: ObjectKey,
        shift: Shift,
        departed: set[ObjectKey],
        support: ObjectKey | None,  # the object to rest on; None for the floor
    ) -> bool:
        """Return True if an object, after a shift, touches nothing and rests on its support."""
        box = _shift_box(self.boxes[key], shift)
        padded_box = box.grown(GAP_METRES)
        low, high = padded_box.bounds
        near = ((self._bounds[:, 0] < high) & (self._bounds[:, 1] > low)).all(1)
        for other_key, obstacle in (entry for entry, is_near in zip(self._obstacles, near, strict=True) if is_near):  # fmt: skip
            if (
                other_key not in departed
                and other_key != support
                and boxes_overlap(padded_box, obstacle)
            ):
                return False
        return self._rests(self._contacts[key] + shift, support) and not self._hits(box, departed)

    @cached_property
    def _obstacles(self) -> list[tuple[ObjectKey, OrientedBox]]:
        """The boxes of all objects; those of doors include the space around the door."""
        margins = {key: DOOR_METRES if key[0].lower() == "door" else 0.0 for key in self.boxes}  # fmt: skip
        return [(key, box.grown(margins[key])) for key, box in self.boxes.items()]

    @cached_property
    def _bounds(self) -> Array:
        """The bounds of the obstacles, (n, 2, 3) metres."""
        return np.array([box.bounds for _, box in self._obstacles])

    def _rests(self, contacts: Array, support: ObjectKey | None) -> bool:
        """Return True if all contacts, (k, 3) metres, are on the surface of a support."""
        owner = BUILDING if support is None else self._numbers[support]
        below = self._mesh.owners_at(contacts, SUPPORT_METRES)
        return all(owner in owners for owners in below)

    def _hits(self, box: OrientedBox, departed: set[ObjectKey]) -> bool:
        """Return True if a face of anything still in its place reaches into a box above the box's bottom."""
        lift = min(SUPPORT_METRES, float(box.size[2]) / 4)
        half = np.array([0, 0, lift / 2])
        above = replace(box, centre=box.centre + half, size=box.size - 2 * half)
        return bool(self._mesh.owners_inside(above) - {self._numbers[key] for key in departed})

    @cached_property
    def _numbers(self) -> dict[ObjectKey, int]:
        """Each object's owner number in `_mesh`."""
        return {key: number for number, key in enumerate(self.boxes)}

    @cached_property
    def _mesh(self) -> MeshContact:
        """The faces of the room. Objects that cannot be separated own the remaining faces inside their boxes."""
        points = self.scene.points.astype(np.float64) + self._origin
        assert self.scene.faces is not None
        owner = np.full(len(points), BUILDING)
        for key, vertices in self.parts.items():
            owner[vertices] = self._numbers[key]
        for key in self.boxes.keys() - self.parts.keys():
            box = self.boxes[key].grown(GAP_METRES)
            is_inside = (np.abs(box.local(points)) <= box.size / 2).all(1)
            owner[is_inside & (owner == BUILDING)] = self._numbers[key]
        of_corners = owner[self.scene.faces]
        is_shared = (of_corners != of_corners[:, :1]).any(1)
        return MeshContact(
            points[self.scene.faces], np.where(is_shared, BUILDING, of_corners[:, 0])
        )

    @cached_property
    def _contacts(self) -> dict[ObjectKey, Array]:
        """The points at which each object touches its support, (k, 3) metres: its outermost lowest vertices.

        For an object that cannot be separated, these are the corners of its box.
        """
        points = self.scene.points.astype(np.float64) + self._origin
        contacts = {}
        for key, box in self.boxes.items():
            vertices = points[self.parts[key]] if key in self.parts else box.corners
            bottom = vertices[:, 2].min()
            base = vertices[vertices[:, 2] <= bottom + CONTACT_METRES, :2]
            outermost = base[np.unique((base @ DIRECTIONS.T).argmax(0))]
            contacts[key] = np.column_stack([outermost, np.full(len(outermost), bottom)])
        return contacts

    @cached_property
    def _supports(self) -> dict[ObjectKey, Counter[ObjectKey]]:
        """For each object above the floor, the objects below it and the number of contacts with each."""
        names = {number: key for key, number in self._numbers.items()}
        return {
            key: Counter(
                names[owner]
                for owners in self._mesh.owners_at(contacts, LEVEL_METRES)
                for owner in owners - {BUILDING, self._numbers[key]}
            )
            for key, contacts in self._contacts.items()
            if self.bottom(key) > self._floor + LEVEL_METRES
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


def _shift_box(box: OrientedBox, shift: Shift) -> OrientedBox:
    return replace(box, centre=box.centre + shift)
