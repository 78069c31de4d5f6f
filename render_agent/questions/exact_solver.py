"""Answers from the truth: what a benchmark's questions come to where the boxes of a scene are known."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question
from render_agent.geometry.boxes import OrientedBox, distance
from render_agent.questions.directions import DIRECTION_NAMES, bearing, side
from render_agent.questions.ground_truth import Facts
from render_agent.questions.mentions import subjects


def true_answer(question: Question, facts: Facts) -> str | None:
    """Return the answer that the boxes of the scene give, None where they do not tell.

    Sizes are the longest axis of a box, distances those between the closest points of two boxes,
    directions those between their centres. The way a route takes and the order of a video are in
    no box.
    """
    kind = question.type
    if kind == "room_size_estimation":
        return f"{facts.room_size:.1f}"
    names = subjects(question)
    if kind == "object_counting":
        return str(facts.counts.get(names[0], 0)) if names[0] else None
    boxes = [facts.boxes.get(name, ()) for name in names]
    if not boxes or not all(boxes):
        return None
    if kind == "object_size_estimation":
        return str(round(100 * max(float(box.size.max()) for box in boxes[0])))
    if kind == "object_abs_distance":
        return f"{_apart(*boxes):.1f}"
    if kind == "object_rel_distance":
        return _closest(question, facts, boxes[0])
    return _direction(question, [some[0] for some in boxes])


def _closest(question: Question, facts: Facts, target: Sequence[OrientedBox]) -> str | None:
    """Return the letter of the nearest of the options that have boxes."""
    apart = {
        letter: _apart(boxes, target)
        for letter, name in letters(question.options).items()
        if (boxes := facts.boxes.get(name))
    }
    return min(apart, key=lambda letter: apart[letter]) if apart else None


def _direction(question: Question, boxes: Sequence[OrientedBox]) -> str | None:
    called = DIRECTION_NAMES.get(question.type, side)(bearing(*(box.centre for box in boxes)))
    options = letters(question.options)
    return next((letter for letter, text in options.items() if text == called), None)


def _apart(some: Sequence[OrientedBox], others: Sequence[OrientedBox]) -> float:
    return min(distance(box, other) for box in some for other in others)
