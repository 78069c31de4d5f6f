"""Ground truth of rooms of the user's own, from the boxes of their objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.errors import QuestionsError
from render_agent.options import RunConfig
from render_agent.scans.boxes import Array, OrientedBox
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.boxes.own_boxes import own_box_file, place_boxes
from render_agent.tasks.boxes.room_ground_truth import (
    AnnotatedObject,
    Room,
    RoomGroundTruth,
    ground_truth_file,
    read_ground_truth,
)
from render_agent_lab.room_generator.floor_plan.walkway import footprint_distance

# Heights above the floor, in metres, whose clearances together cover a walking person.
BODY_METRES = (0.3, 0.6, 0.9, 1.2, 1.5, 1.7)

# An object stands on another if its bottom is at most this far from the other's top.
SUPPORT_METRES = 0.1


@dataclass(frozen=True, eq=False)
class OwnRoom(RoomGroundTruth):
    """The boxes of a scan. Its rooms are the floors in the file of boxes."""

    free_floor: tuple[Array, NDArray[np.bool_]]
    """Grid of places, (x, y, 2) metres in the frame of the scan file, and which are free to walk, (x, y)."""


def truth_of(scan: Path, config: RunConfig) -> RoomGroundTruth:
    """Return the ground truth of a scan: that of `make-rooms`, or the boxes next to it. Raises QuestionsError."""
    boxes_file = own_box_file(scan, config)
    if boxes_file is None:
        if (file := ground_truth_file(scan)) is not None:
            return read_ground_truth(file)
        raise QuestionsError(
            f"{scan} has no object boxes. Write {scan.stem}.boxes.json next to it, or draw them with render-agent boxes."
        )
    up, unit = config.frame
    scene = load_scene(scan, up=up, unit=unit)
    own = place_boxes(boxes_file, scene, config.boxes_up, config.boxes_unit)
    own.warn_of_unused(boxes_file)
    places, free = FreeSpace.of(scene).walkable_floor(BODY_METRES)
    boxes = [entry.box for entry in own.objects]
    objects = [
        AnnotatedObject(
            entry.label,
            entry.box.centre,
            entry.box.size,
            entry.box.axes,
            entry.label,
            0,
            _support(entry.box, boxes),
        )
        for entry in own.objects
    ]
    rooms = [Room("room", polygon) for polygon in own.floors]
    return OwnRoom(
        scan.stem,
        "scan",
        sum(room.area for room in rooms),
        scene.ceiling - scene.floor,
        rooms,
        [],
        objects,
        (places + np.array(scene.origin)[:2], free),
    )


def _support(box: OrientedBox, others: Sequence[OrientedBox]) -> int | None:
    """Return the number of the box on which a box stands; None if it stands on the floor or hangs."""
    for number, other in enumerate(others):
        touches = abs(other.bounds[1, 2] - box.bounds[0, 2]) <= SUPPORT_METRES
        if touches and other is not box and footprint_distance(other, box.centre[None, :2])[0] == 0:
            return number
    return None
