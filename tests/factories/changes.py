"""A small room with known object boxes, and a question of every type that can be answered from them."""

import json
from pathlib import Path

import numpy as np

from factories.scenes import BLUE, GREEN, RED, box, joined, write_ply
from render_agent.tasks.boxes.room_ground_truth import (
    AnnotatedObject,
    Room,
    RoomGroundTruth,
    to_json,
)

PURPLE = (150, 40, 160)

# Label, lower and upper corner in metres, colour.
OBJECTS = (
    ("chair", (0.6, 0.6, 0), (1.0, 1.0, 0.8), RED),
    ("chair", (2.6, 0.5, 0), (3.0, 0.9, 0.8), RED),
    ("shelf", (4.4, 0.4, 0), (4.9, 1.0, 1.2), GREEN),
    ("sofa", (0.3, 3.0, 0), (1.3, 3.7, 0.5), BLUE),
    ("lamp", (4.3, 3.2, 0), (4.6, 3.5, 1.4), PURPLE),
    ("clock", (2.3, 3.93, 1.5), (2.7, 4.0, 1.9), GREEN),
)

QUESTIONS = (
    ("count", "object_counting", "How many chair(s) are in this room?", None, "2"),
    ("size", "object_size_estimation", "What is the length of the longest dimension (length, width, or height) of the shelf, measured in centimeters?", None, "120"),
    ("far", "object_abs_distance", "Measuring from the closest point of each object, what is the distance between the sofa and the lamp (in meters)?", None, "3.0"),
    ("near", "object_rel_distance", "Measuring from the closest point of each object, which of these objects (sofa, lamp, clock) is the closest to the shelf?", ["A. sofa", "B. lamp", "C. clock"], "B"),
    ("side", "object_rel_direction_easy", "If I am standing by the sofa and facing the shelf, is the lamp to the left or the right of the shelf?", ["A. left", "B. right"], "A"),
    ("area", "room_size_estimation", "What is the size of this room (in square meters)?", None, "20.0"),
    ("way", "route_planning", "You are a robot beginning at the sofa and facing the lamp. You want to navigate to the shelf.", ["A. Turn Left", "B. Turn Right"], "B"),
)  # fmt: skip


def changeable_room(folder: Path) -> Path:
    """Write the room, its ground truth and its questions to a folder; return the question file."""
    shell = box((0, 0, 0), (5, 4, 2.5), (200, 196, 188), cells=10)
    write_ply(
        folder / "room.ply", *joined(shell, *(box(low, high, rgb) for _, low, high, rgb in OBJECTS))
    )
    objects = [
        AnnotatedObject(
            label,
            (np.array(low, float) + high) / 2,
            np.array(high, float) - low,
            np.eye(3),
            label,
            0,
        )
        for label, low, high, _ in OBJECTS
    ]
    floor = Room("room", np.array([(0, 0), (5, 0), (5, 4), (0, 4)], float))
    truth = RoomGroundTruth("room", "room", 20.0, 2.5, [floor], [], objects)
    (folder / "room.json").write_text(json.dumps(to_json(truth)))
    names = ("id", "question_type", "question", "options", "ground_truth")
    rows = [
        dict(zip(names, row, strict=True)) | {"dataset": "rooms", "scene_name": "room"}
        for row in QUESTIONS
    ]
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
