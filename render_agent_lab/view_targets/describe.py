"""Describes a view by the objects that it shows, so that the description fits only this place."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, FloatArray, wrap_degrees
from render_agent.score.metrics import ViewSuccess
from render_agent_lab.view_targets.target_room import SIZE, TargetRoom

MIN_METRES, MAX_METRES = 1.0, 4.0  # level distance to the object in the middle
MIN_DEGREES = 12.0  # angle between the two objects, so that the side is clear
ROUNDING_METRES = 0.15  # places whose distances differ by less fit the description too
PITCH = 0.0  # degrees; a described camera looks level
EXCLUDED = ("ceiling", "floor", "wall")  # labels without a place


@dataclass(frozen=True, slots=True)
class Landmark:
    """An object whose label is unique in its room, and its number among the boxes."""

    label: str
    box: OrientedBox
    number: int


def landmarks(room: TargetRoom) -> list[Landmark]:
    """Return the objects of a room with unique labels."""
    boxes = [] if room.facts is None else list(room.facts.boxes.items())
    numbers = np.cumsum([0, *(len(group) for _, group in boxes)])
    return [
        Landmark(label, group[0], int(number))
        for (label, group), number in zip(boxes, numbers, strict=False)
        if len(group) == 1 and label.lower() not in EXCLUDED
    ]


def describe_view(
    room: TargetRoom, camera: Camera, rng: np.random.Generator
) -> tuple[Camera, str] | None:
    """Turn a camera to an object; return it with a description of what it shows. None if none fits only this place."""
    known = landmarks(room)
    if len(known) < 2:
        return None
    middle = known[rng.integers(len(known))]
    distance = float(_distances(middle, np.array([camera.position]))[0])
    if not MIN_METRES <= distance <= MAX_METRES:
        return None
    camera = replace(camera.looking_at(middle.box.centre), pitch=PITCH)
    sightings = room.objects.look(camera, [landmark.number for landmark in known])
    clear = [mark for mark, s in zip(known, sightings, strict=True) if s.is_clear(SIZE)]
    if middle not in clear:
        return None
    others = [mark for mark in clear if abs(_angle(camera.position, middle, mark)) >= MIN_DEGREES]
    for index in rng.permutation(len(others)):
        other = others[index]
        if _is_unique(room, camera, middle, other):
            side = "left" if _angle(camera.position, middle, other) > 0 else "right"
            other_distance = float(_distances(other, np.array([camera.position]))[0])
            return camera, (
                f"the {middle.label} horizontally centred, {distance:.1f} metres away, and the {other.label} to its"
                f" {side}, {other_distance:.1f} metres away; do not tilt the camera"
            )
    return None


def _distances(landmark: Landmark, places: FloatArray) -> FloatArray:
    """Return the level distances of places, (n, 3) metres, from the middle of an object."""
    distances: FloatArray = np.linalg.norm(places[:, :2] - landmark.box.centre[:2], axis=1)
    return distances


def _angle(place: tuple[float, float, float], middle: Landmark, other: Landmark) -> float:
    """Return how many degrees one object is to the left of another from a place."""
    (x, y), (u, v) = (mark.box.centre[:2] - np.array(place[:2]) for mark in (middle, other))
    return wrap_degrees(math.degrees(math.atan2(v, u) - math.atan2(y, x)))


def _is_unique(room: TargetRoom, camera: Camera, middle: Landmark, other: Landmark) -> bool:
    """Return True if the description fits only places that count as the camera's."""
    place = np.array([camera.position])
    fits = np.ones(len(room.places), bool)
    for mark in (middle, other):
        difference = _distances(mark, room.places) - _distances(mark, place)
        fits &= np.abs(difference) < ROUNDING_METRES
    side = _angle(camera.position, middle, other) > 0
    return all(
        math.dist(found, camera.position) <= ViewSuccess.limits[0]
        for found in room.places[fits]
        if (_angle(tuple(found), middle, other) > 0) == side
    )
