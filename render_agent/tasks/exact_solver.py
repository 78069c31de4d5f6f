"""Answers from the truth: what a benchmark's questions come to where the boxes of a scene are known.

Horizontal directions are named as VSI-Bench's questions name them: one stands at one point and faces another; angles are
degrees counter-clockwise from there, so that positive ones lie to the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import Array, OrientedBox, distance
from render_agent.scans.camera import wrapped
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.mentions import LIST_PATTERNS, NO_MATCH, subjects

BACK_DEGREES = 135.0
"""From this angle on a target is at the back, as the medium question says."""


def bearing(position: Array, facing: Array, target: Array) -> float:
    """Return the angle from the way one faces to a target, degrees in -180 … 180, left positive.

    position, facing, target: (2,) or (3,) points in metres.
    """
    ahead, there = (facing - position)[:2], (target - position)[:2]
    cross = ahead[0] * there[1] - ahead[1] * there[0]
    return math.degrees(math.atan2(float(cross), float(ahead @ there)))


def side(angle: float) -> str:
    """Return left or right for an angle in degrees, left positive."""
    return "left" if angle > 0 else "right"


def side_or_back(angle: float) -> str:
    """Return left, right or back for an angle in degrees, left positive."""
    return "back" if abs(angle) >= BACK_DEGREES else side(angle)


def quadrant(angle: float) -> str:
    """Return front-left, front-right, back-left or back-right for an angle in degrees, left positive."""
    return f"{'front' if abs(angle) < 90 else 'back'}-{side(angle)}"


DIRECTION_NAMES: Mapping[str, Callable[[float], str]] = {
    "object_rel_direction_easy": side,
    "object_rel_direction_medium": side_or_back,
    "object_rel_direction_hard": quadrant,
}
"""By type of question, what it calls an angle."""


METRES = {"meters": 1.0, "centimeters": 0.01, "feet": 0.3048}
"""By unit of length that a question may ask for, how long it is."""

UNIT = re.compile(rf"(?<=in )(square )?({'|'.join(METRES)})\b")
"""Where a question names its unit."""

APART_METRES = 0.15
"""The nearest of the options is this much nearer than the next one where it is clear which."""

MARGIN_DEGREES = 15.0
"""A direction that is this far from any border between two words is clear."""

LEAST_METRES = 0.4
"""A distance below it is no distance to ask for; two objects as near as that have no direction."""


def true_answer(question: Question, facts: Facts) -> str | None:
    """Return the answer that the boxes of the scene give, None where they do not tell.

    Sizes are the longest axis of a box, distances those between the closest points of two boxes,
    directions those between their centres. The way a route takes and the order of a video are in
    no box. Lengths and areas are in the unit that the question names; without options it is the word.
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
        return _in_unit(question, _apart(*boxes), 1)
    if kind == "object_rel_distance":
        apart = _distances(question, facts, boxes[0])
        return min(apart, key=lambda letter: apart[letter]) if apart else None
    called = DIRECTION_NAMES.get(kind, side)(bearing(*(some[0].centre for some in boxes)))
    if not question.options:
        return called
    texts = letters(question.options).items()
    return next((letter for letter, text in texts if text == called), None)


def is_clear(question: Question, facts: Facts) -> bool:
    """Whether what the boxes answer would be the same were they a little elsewhere, as a fair question needs."""
    boxes = [facts.boxes.get(name, ()) for name in subjects(question)]
    if not boxes or not all(boxes):
        return True
    if question.type == "object_abs_distance":
        return _apart(*boxes) >= LEAST_METRES
    if question.type == "object_rel_distance":
        near = sorted(_distances(question, facts, boxes[0]).values())
        return len(near) < 2 or near[1] - near[0] >= APART_METRES
    if question.type in DIRECTION_NAMES:
        first = [some[0] for some in boxes]
        pairs = [(first[0], first[1]), (first[0], first[2]), (first[1], first[2])]
        angle = bearing(*(box.centre for box in first))
        called = DIRECTION_NAMES[question.type]
        same = all(
            called(wrapped(angle + turn)) == called(angle)
            for turn in (-MARGIN_DEGREES, MARGIN_DEGREES)
        )
        return same and all(distance(a, b) >= LEAST_METRES for a, b in pairs)
    return True


def length_unit(question: Question) -> tuple[str, bool] | None:
    """Return the unit that a question asks for and whether it is squared, None where it names none."""
    match = UNIT.search(question.text)
    return None if match is None else (match[2], bool(match[1]))


def _in_unit(question: Question, metres: float, digits: int) -> str:
    """Return metres or square metres as the question wants them, whole where it wants centimetres.

    digits: behind the point, of metres and feet.
    """
    default = ("centimeters" if question.type == "object_size_estimation" else "meters"), False
    unit, _ = length_unit(question) or default
    power = 2 if question.type == "room_size_estimation" else 1
    return f"{metres / METRES[unit] ** power:.{0 if unit == 'centimeters' else digits}f}"


def _distances(question: Question, facts: Facts, target: Sequence[OrientedBox]) -> dict[str, float]:
    """Return the distances in metres from an object to the options with boxes, by letter, or by name without letters."""
    texts = letters(question.options)
    if not texts and (
        match := re.search(LIST_PATTERNS.get(question.type, NO_MATCH), question.text)
    ):
        texts = {name.strip(): name.strip() for name in match[1].split(",")}
    return {
        letter: _apart(boxes, target)
        for letter, name in texts.items()
        if (boxes := facts.boxes.get(name))
    }


def _apart(some: Sequence[OrientedBox], others: Sequence[OrientedBox]) -> float:
    return min(distance(box, other) for box in some for other in others)
