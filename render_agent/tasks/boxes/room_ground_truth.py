"""Ground truth of a generated home: boxes, counts and distances of its objects, its rooms and areas.

It is stored as JSON next to the scan, with VSI-Bench's names for annotations (`object_bbox`,
`centroid`, `axesLengths`, `normalizedAxes`, `object_counts`, `room_size`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

from render_agent.errors import QuestionsError
from render_agent.scans.boxes import Array, OrientedBox, distance
from render_agent.util.safe_parse import Count, decode_json, read_bounded

DATASET = "rooms"

Box2 = tuple[float, float, float, float]
"""Rectangle: x low, y low, x high, y high, in metres."""

Metres = Annotated[float, Meta(ge=-1e6, le=1e6)]
Point = tuple[Metres, Metres, Metres]
UnitAxes = Annotated[
    list[Annotated[float, Meta(ge=-1.001, le=1.001)]], Meta(min_length=9, max_length=9)
]


class _Object(Struct):
    number: Count
    kind: str
    room: Count
    support: Count | None = field(name="on")
    centre: Point = field(name="centroid")
    size: Point = field(name="axesLengths")
    axes: UnitAxes = field(name="normalizedAxes")


class _Room(Struct):
    purpose: str
    polygon: list[tuple[Metres, Metres]]


class _Home(Struct):
    """The fields read from a ground truth file."""

    scene: str
    kind: str
    height: Metres
    rooms: list[_Room]
    ways: list[tuple[Metres, Metres, Metres, Metres]]
    boxes: dict[str, list[_Object]] = field(name="object_bbox")


def polygon_area(corners: Array) -> float:
    """Return the area of a polygon, (k, 2) metres, in square metres (shoelace formula)."""
    x, y = corners.T
    return float(abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)


@dataclass(frozen=True, eq=False)
class Room:
    """A room: its purpose, and its floor as a counter-clockwise polygon, (k, 2) in metres."""

    purpose: str
    corners: Array

    @property
    def area(self) -> float:
        """Floor area in square metres."""
        return polygon_area(self.corners)

    @property
    def box(self) -> Box2:
        (a, b), (c, d) = self.corners.min(0), self.corners.max(0)
        return float(a), float(b), float(c), float(d)

    def holds(self, points: Array) -> NDArray[np.bool_]:
        """Return which points (n, 2) are inside, (n,) bool. Points on the edge may count as either."""
        inside = np.zeros(len(points), bool)
        x, y = points.T
        for (ax, ay), (bx, by) in zip(self.corners, np.roll(self.corners, -1, axis=0), strict=True):
            if ay != by:
                crosses = (ay > y) != (by > y)
                inside ^= crosses & (x < ax + (y - ay) * (bx - ax) / (by - ay))
        return inside


@dataclass(frozen=True, eq=False)
class AnnotatedObject:
    """An object and its tight oriented box."""

    label: str
    centre: Array  # centre of the box, (3,) metres, world frame
    size: Array  # extent along each axis, (3,) metres
    axes: Array  # (3, 3) unit vectors, one per row
    kind: str  # kind of furniture that the generator placed
    room: int
    support: int | None = None
    """Index of the object that it stands on; None if it stands on the floor."""

    @cached_property
    def box(self) -> OrientedBox:
        return OrientedBox(self.centre, self.size, self.axes)

    @property
    def longest(self) -> float:
        """Longest dimension in centimetres."""
        return float(self.size.max()) * 100


@dataclass(frozen=True, eq=False)
class RoomGroundTruth:
    scene: str
    kind: str
    area: float  # floor area of all rooms in square metres
    height: float  # ceiling height in metres
    rooms: list[Room]
    ways: list[Box2]  # floor rectangles of doors and passages between rooms, in metres
    objects: list[AnnotatedObject]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(entry.label for entry in self.objects)

    def apart(self, first: AnnotatedObject, second: AnnotatedObject) -> float:
        """Return the distance in metres between the closest points of two objects' boxes."""
        key = frozenset((id(first), id(second)))
        if key not in self._distances:
            self._distances[key] = distance(first.box, second.box)
        return self._distances[key]

    @cached_property
    def _distances(self) -> dict[frozenset[int], float]:
        return {}

    def only(self, label: str) -> AnnotatedObject:
        """Return the only object with a label. Raises ValueError if there are none or several."""
        (single,) = (entry for entry in self.objects if entry.label == label)
        return single


def to_json(truth: RoomGroundTruth) -> dict[str, Any]:
    """Return the ground truth as JSON data.

    `normalizedAxes` has the nine numbers of `axes` row by row. `on` and `number` are indices into the objects.
    `distances` has the distance in metres between the boxes of every pair of objects with unique labels.
    """
    boxes: dict[str, list[dict[str, Any]]] = {}
    for number, entry in enumerate(truth.objects):
        low, high = entry.box.bounds
        boxes.setdefault(entry.label, []).append(
            {
                "number": number,
                "kind": entry.kind,
                "room": entry.room,
                "on": entry.support,
                "centroid": entry.centre.tolist(),
                "axesLengths": entry.size.tolist(),
                "normalizedAxes": entry.axes.ravel().tolist(),
                "min": np.round(low, 5).tolist(),
                "max": np.round(high, 5).tolist(),
                "longest_cm": round(entry.longest, 1),
            }
        )
    corners = np.concatenate([room.corners for room in truth.rooms])
    middle = (corners.min(0) + corners.max(0)) / 2
    return {
        "dataset": DATASET,
        "scene": truth.scene,
        "kind": truth.kind,
        "room_size": round(truth.area, 4),
        "room_center": [round(float(value), 4) for value in (*middle, truth.height / 2)],
        "height": truth.height,
        "rooms": [
            {"purpose": room.purpose, "area": round(room.area, 4), "polygon": room.corners.tolist()}
            for room in truth.rooms
        ],
        "ways": [[round(value, 4) for value in way] for way in truth.ways],
        "object_counts": dict(sorted(truth.counts.items())),
        "object_bbox": boxes,
        "distances": _distances(truth),
    }


def _distances(truth: RoomGroundTruth) -> list[list[Any]]:
    unique = sorted(label for label, count in truth.counts.items() if count == 1)
    return [
        [first, second, round(truth.apart(truth.only(first), truth.only(second)), 4)]
        for index, first in enumerate(unique)
        for second in unique[index + 1 :]
    ]


def ground_truth_file(scan: Path) -> Path | None:
    """Return the ground truth file next to a scan; None if there is none, or if it is a JSON file of another program."""
    path = scan.with_suffix(".json")
    try:
        is_ours = path.is_file() and b'"object_bbox"' in read_bounded(path)
    except (OSError, ValueError):
        return None
    return path if is_ours else None


def read_ground_truth(path: Path) -> RoomGroundTruth:
    """Read the ground truth file of a generated room. Raises QuestionsError if it is not one."""
    try:
        home: _Home = decode_json(read_bounded(path), _Home)
    except (OSError, ValueError) as error:
        raise QuestionsError(
            f"{path} is not a ground truth file written by make-rooms: {error}"
        ) from error
    numbers = Counter(box.number for boxes in home.boxes.values() for box in boxes)
    if repeated := [number for number, count in numbers.items() if count > 1]:
        raise QuestionsError(
            f"{path}: several objects have the number {repeated[0]}; give each its own"
        )
    objects_by_number = {
        box.number: AnnotatedObject(
            label,
            np.array(box.centre, float),
            np.array(box.size, float),
            np.array(box.axes, float).reshape(3, 3),
            box.kind,
            box.room,
            box.support,
        )
        for label, boxes in home.boxes.items()
        for box in boxes
    }
    rooms = [Room(room.purpose, np.array(room.polygon, float)) for room in home.rooms]
    return RoomGroundTruth(
        home.scene,
        home.kind,
        sum(room.area for room in rooms),
        home.height,
        rooms,
        list(home.ways),
        [objects_by_number[number] for number in sorted(objects_by_number)],
    )
