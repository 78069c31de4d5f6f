"""Computes the answers of VSI-Bench's question types from the object boxes of a scene.

As in VSI-Bench's questions, an observer stands at one point and faces another. Angles are in degrees, counter-clockwise
from the facing direction, so that positive angles are to the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import Array, OrientedBox, distance
from render_agent.scans.camera import wrap_degrees
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.mentions import LIST_PATTERNS, NO_MATCH, subjects

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

# Thresholds for an unambiguous answer.
MIN_LEAD_METRES = 0.15  # margin between the closest and the second closest option
MARGIN_DEGREES = 15.0  # minimum difference between an angle and the border between two directions
MIN_DISTANCE_METRES = 0.4  # minimum distance between two objects


def true_answer(question: Question, facts: Facts) -> str | None:
    """Return the answer computed from the boxes: a letter, a text without options, or a number in the unit asked for;
    None if unclear.

    Sizes are the longest axes of boxes. Distances are between the closest points of two boxes, and directions between
    their centres. Routes and appearance orders cannot be computed from boxes.
    """
    kind = question.type
    if kind == "room_size_estimation":
        return _in_unit(question, facts.room_size, 1)
    names = subjects(question)
    if kind == "object_counting":
        return str(facts.counts.get(names[0], 0)) if names[0] else None
    boxes = [facts.boxes.get(name, ()) for name in names]
    if not boxes or not all(boxes):
        return None
    if kind == "object_size_estimation":
        return _in_unit(question, max(float(box.size.max()) for box in boxes[0]), 2)
    if kind == "object_abs_distance":
        return _in_unit(question, _min_distance(*boxes), 1)
    if kind == "object_rel_distance":
        distances = _distances(question, facts, boxes[0])
        return min(distances, key=lambda letter: distances[letter]) if distances else None
    direction = DIRECTION_NAMES.get(kind, side)(bearing(*(group[0].centre for group in boxes)))
    if not question.options:
        return direction
    texts = options_by_letter(question.options).items()
    return next((letter for letter, text in texts if text == direction), None)


def is_clear(question: Question, facts: Facts) -> bool:
    """Return True if the answer would stay the same if the boxes were slightly displaced."""
    boxes = [facts.boxes.get(name, ()) for name in subjects(question)]
    if not boxes or not all(boxes):
        return True
    if question.type == "object_abs_distance":
        return _min_distance(*boxes) >= MIN_DISTANCE_METRES
    if question.type == "object_rel_distance":
        distances = sorted(_distances(question, facts, boxes[0]).values())
        return len(distances) < 2 or distances[1] - distances[0] >= MIN_LEAD_METRES
    if question.type in DIRECTION_NAMES:
        first_boxes = [group[0] for group in boxes]
        pairs = [
            (first_boxes[0], first_boxes[1]),
            (first_boxes[0], first_boxes[2]),
            (first_boxes[1], first_boxes[2]),
        ]
        angle = bearing(*(box.centre for box in first_boxes))
        direction = DIRECTION_NAMES[question.type]
        is_stable = all(
            direction(wrap_degrees(angle + offset)) == direction(angle)
            for offset in (-MARGIN_DEGREES, MARGIN_DEGREES)
        )
        return is_stable and all(distance(a, b) >= MIN_DISTANCE_METRES for a, b in pairs)
    return True


def length_unit(question: Question) -> tuple[str, bool] | None:
    """Return the unit named in a question, and whether it is squared; None if it names no unit."""
    match = UNIT.search(question.text)
    return None if match is None else (match[2], bool(match[1]))


def _in_unit(
    question: Question,
    metres: float,
    digits: int,  # decimals for metres and feet; centimetres are rounded to integers
) -> str:
    """Convert metres (or square metres) to the question's unit."""
    default = ("centimeters" if question.type == "object_size_estimation" else "meters"), False
    unit, _ = length_unit(question) or default
    power = 2 if question.type == "room_size_estimation" else 1
    return f"{metres / METRES[unit] ** power:.{0 if unit == 'centimeters' else digits}f}"


def _distances(question: Question, facts: Facts, target: Sequence[OrientedBox]) -> dict[str, float]:
    """Return the distance in metres from an object to each option with known boxes.

    Keys are letters; names if the question has no options.
    """
    texts = options_by_letter(question.options)
    if not texts and (
        match := re.search(LIST_PATTERNS.get(question.type, NO_MATCH), question.text)
    ):
        texts = {name.strip(): name.strip() for name in match[1].split(",")}
    return {
        letter: _min_distance(boxes, target)
        for letter, name in texts.items()
        if (boxes := facts.boxes.get(name))
    }


def _min_distance(boxes: Sequence[OrientedBox], other_boxes: Sequence[OrientedBox]) -> float:
    return min(distance(box, other_box) for box in boxes for other_box in other_boxes)
