"""Computes the answers of VSI-Bench's question types from the object boxes of a scene.

As in VSI-Bench's questions, an observer stands at one point and faces another. Angles are in degrees, counter-clockwise
from the facing direction, so that positive angles are to the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import Array, OrientedBox, distance
from render_agent.scans.camera import wrap_degrees
from render_agent.tasks.ground_truth import UNKNOWN_AREA, Facts

BACK_DEGREES = (
    135.0  # minimum angle at which a target counts as behind, as defined in the medium question
)


def bearing(
    position: Array,  # where the observer stands, (2,) or (3,) metres
    facing: Array,  # the point that the observer faces, (2,) or (3,) metres
    target: Array,  # the target, (2,) or (3,) metres
) -> float:
    """Return the angle from the facing direction to a target in degrees, -180 to 180, left positive."""
    to_facing, to_target = (facing - position)[:2], (target - position)[:2]
    cross = to_facing[0] * to_target[1] - to_facing[1] * to_target[0]
    return math.degrees(math.atan2(float(cross), float(to_facing @ to_target)))


def side(angle: float) -> str:
    """Return left or right for an angle in degrees, left positive."""
    return "left" if angle > 0 else "right"


def side_or_back(angle: float) -> str:
    """Return left, right or back for an angle in degrees, left positive."""
    return "back" if abs(angle) >= BACK_DEGREES else side(angle)


def quadrant(angle: float) -> str:
    """Return front-left, front-right, back-left or back-right for an angle in degrees, left positive."""
    return f"{'front' if abs(angle) < 90 else 'back'}-{side(angle)}"


# Question type -> function that converts an angle to an option's text.
DIRECTION_NAMES: Mapping[str, Callable[[float], str]] = {
    "object_rel_direction_easy": side,
    "object_rel_direction_medium": side_or_back,
    "object_rel_direction_hard": quadrant,
}

METRES = {"meters": 1.0, "centimeters": 0.01, "feet": 0.3048}  # unit in a question -> metres

UNIT = re.compile(rf"(?<=in )(square )?({'|'.join(METRES)})\b")  # the unit in a question's text

# Bounded, because the pattern would otherwise take quadratic time in the length of a question.
NEAREST_LIST = r"of these objects \((.{1,1000})\) is the closest"

# Thresholds for an unambiguous answer.
MIN_LEAD_METRES = 0.15  # margin between the closest and the second closest option
MARGIN_DEGREES = 15.0  # minimum difference between an angle and the border between two directions
MIN_DISTANCE_METRES = 0.4  # minimum distance between two objects


def count_objects(question: Question, facts: Facts, subjects: list[str]) -> str | None:
    return str(facts.counts.get(subjects[0], 0)) if subjects[0] else None


def room_area(question: Question, facts: Facts, subjects: list[str]) -> str | None:
    return (
        None if facts.room_size == UNKNOWN_AREA else _in_unit(question, facts.room_size, 1, power=2)
    )


def longest_side(question: Question, facts: Facts, subjects: list[str]) -> str | None:
    """Return the longest axis of an object's box; centimetres unless the question names another unit."""
    boxes = _boxes_of(facts, subjects)
    if not boxes:
        return None
    longest = max(float(box.size.max()) for box in boxes[0])
    return _in_unit(question, longest, 2, default="centimeters")


def object_distance(question: Question, facts: Facts, subjects: list[str]) -> str | None:
    """Return the distance between the closest points of two objects."""
    boxes = _boxes_of(facts, subjects)
    return _in_unit(question, _min_distance(*boxes), 1) if boxes else None


def are_apart(question: Question, facts: Facts, subjects: list[str]) -> bool:
    """Return True if two objects are not too close for their distance to be asked."""
    boxes = _boxes_of(facts, subjects)
    return not boxes or _min_distance(*boxes) >= MIN_DISTANCE_METRES


def nearest(question: Question, facts: Facts, subjects: list[str]) -> str | None:
    """Return the letter of the option nearest to an object; its name if the question has no options."""
    boxes = _boxes_of(facts, subjects)
    distances = _distances(question, facts, boxes[0]) if boxes else {}
    return min(distances, key=lambda letter: distances[letter]) if distances else None


def has_lead(question: Question, facts: Facts, subjects: list[str]) -> bool:
    """Return True if the nearest option is clearly nearer than the next one."""
    boxes = _boxes_of(facts, subjects)
    distances = sorted(_distances(question, facts, boxes[0]).values()) if boxes else []
    return len(distances) < 2 or distances[1] - distances[0] >= MIN_LEAD_METRES


def direction(
    name_of: Callable[[float], str],  # angle in degrees -> the text of an option
    question: Question,
    facts: Facts,
    subjects: list[str],
) -> str | None:
    """Return the direction of the third object for an observer at the first who faces the second."""
    boxes = _boxes_of(facts, subjects)
    if not boxes:
        return None
    answer = name_of(bearing(*(group[0].centre for group in boxes)))
    if not question.options:
        return answer
    texts = options_by_letter(question.options).items()
    return next((letter for letter, text in texts if text == answer), None)


def is_clear_direction(
    name_of: Callable[[float], str], question: Question, facts: Facts, subjects: list[str]
) -> bool:
    """Return True if a direction is not near the border to another one, and its objects are apart."""
    boxes = _boxes_of(facts, subjects)
    if not boxes:
        return True
    first_boxes = [group[0] for group in boxes]
    angle = bearing(*(box.centre for box in first_boxes))
    is_stable = all(
        name_of(wrap_degrees(angle + offset)) == name_of(angle)
        for offset in (-MARGIN_DEGREES, MARGIN_DEGREES)
    )
    pairs = combinations(first_boxes, 2)
    return is_stable and all(distance(a, b) >= MIN_DISTANCE_METRES for a, b in pairs)


def _boxes_of(facts: Facts, names: Sequence[str]) -> list[Sequence[OrientedBox]]:
    """Return the boxes of each name; an empty list if a name has none."""
    boxes = [facts.boxes.get(name, ()) for name in names]
    return boxes if all(boxes) else []


def length_unit(question: Question) -> tuple[str, bool] | None:
    """Return the unit named in a question, and whether it is squared; None if it names no unit."""
    match = UNIT.search(question.text)
    return None if match is None else (match[2], bool(match[1]))


def _in_unit(
    question: Question,
    metres: float,
    digits: int,  # decimals for metres and feet; centimetres are rounded to integers
    *,
    default: str = "meters",
    power: int = 1,
) -> str:
    """Convert metres (or square metres) to the unit that the question names."""
    unit, _ = length_unit(question) or (default, False)
    return f"{metres / METRES[unit] ** power:.{0 if unit == 'centimeters' else digits}f}"


def _distances(question: Question, facts: Facts, target: Sequence[OrientedBox]) -> dict[str, float]:
    """Return the distance in metres from an object to each option with known boxes.

    Keys are letters; names if the question has no options but lists them.
    """
    listed = re.search(NEAREST_LIST, question.text)
    names = [name.strip() for name in listed[1].split(",")] if listed else []
    texts = options_by_letter(question.options) or dict(zip(names, names, strict=True))
    return {
        letter: _min_distance(boxes, target)
        for letter, name in texts.items()
        if (boxes := facts.boxes.get(name))
    }


def _min_distance(boxes: Sequence[OrientedBox], other_boxes: Sequence[OrientedBox]) -> float:
    return min(distance(box, other_box) for box in boxes for other_box in other_boxes)
