"""The answer that follows from a model's own map, by the same exact solver that knows the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import OrientedBox
from render_agent.score.beliefs.matching import Boxes, assigned, distances
from render_agent.tasks.exact_solver import true_answer
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.mentions import kind_of, named_categories
from render_agent.tasks.question_types import COUNTING_TYPE, ROOM_SIZE_TYPE

SIZE_TYPE = "object_size_estimation"
"""The type of question that is answered by the length that the model gave, not by a place."""

SOLVED_TYPES = (
    COUNTING_TYPE,
    SIZE_TYPE,
    "object_abs_distance",
    "object_rel_distance",
    "object_rel_direction",
    ROOM_SIZE_TYPE,
)
"""The types whose answer follows from a map; that of a route, or of the order in a video, does not."""

UNKNOWN_LENGTH_METRES = 0.5
"""Of an object whose size nobody told, where no true box lends it one."""


def own_answer(question: Question, belief: Belief, boxes: Boxes) -> str | None:
    """Return the answer to a question that follows from a belief's map, None where none follows.

    boxes: the true ones of the named categories. A map has middles and lengths alone, while distances between objects
    are those of their closest points: so every believed object has the shape of the true one of its category that
    it is nearest to, moved to where it is believed. Then what differs from the truth is places alone.
    """
    kind = kind_of(question)
    if kind not in SOLVED_TYPES:
        return None
    if kind == ROOM_SIZE_TYPE:
        return None if belief.area is None else true_answer(question, Facts({}, belief.area, {}))
    counted = belief.counts is not None
    if belief.objects is None and not (counted and kind == COUNTING_TYPE):
        return None
    names = named_categories(question)
    counts = {name: belief.count(name) if counted else len(belief.of(name)) for name in names}
    if kind == SIZE_TYPE:
        shapes = {
            name: [_cube(thing, thing.length) for thing in belief.of(name) if thing.length]
            for name in names
        }
    else:
        shapes = {name: _shaped(belief.of(name), boxes.get(name, ())) for name in names}
    return true_answer(question, Facts(counts, belief.area or 0.0, shapes))


def _shaped(believed: Sequence[BelievedObject], boxes: Sequence[OrientedBox]) -> list[OrientedBox]:
    """Return believed objects as boxes: shapes are lent one to one first, then by who is nearest."""
    if not boxes:
        return [_cube(thing, thing.length or UNKNOWN_LENGTH_METRES) for thing in believed]
    apart = distances(believed, boxes)
    lender = apart.argmin(axis=1)
    rows, columns = assigned(apart, float(apart.max(initial=0.0)))
    lender[rows] = columns
    return [
        replace(boxes[which], centre=np.array([*thing.position, boxes[which].centre[2]]))
        for thing, which in zip(believed, lender, strict=True)
    ]


def _cube(thing: BelievedObject, length: float) -> OrientedBox:
    return OrientedBox(np.array([*thing.position, 0.0]), np.full(3, length), np.eye(3))
