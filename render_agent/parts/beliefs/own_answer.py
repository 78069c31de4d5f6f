"""Derives the answer implied by a model's map with the same exact solver that computes the ground truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.dialogue.question import Question
from render_agent.parts.beliefs.matching import Boxes, assign_pairs, plan_distances
from render_agent.scans.boxes import OrientedBox
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_types import named_categories, true_answer, type_of

UNKNOWN_LENGTH_METRES = 0.5  # assumed if neither the belief nor a true box gives a size


def own_answer(question: Question, belief: Belief, boxes: Boxes) -> str | None:
    """Return the answer implied by a belief's map; None if there is none.

    A map has only centres and lengths, but distances between objects are measured between their closest points. Each
    believed object therefore takes the shape of the nearest true object of its category, moved to the believed
    position. Errors then reflect positions only.
    """
    kind = type_of(question)
    if kind.solve is None:
        return None
    if kind.needs == "room":
        return None if belief.area is None else true_answer(question, Facts({}, belief.area, {}))
    has_counts = belief.counts is not None
    if belief.objects is None and not (has_counts and kind.needs == "every object"):
        return None
    names = named_categories(question)
    counts = {name: belief.count(name) if has_counts else len(belief.of(name)) for name in names}
    if kind.from_sizes:
        shapes = {
            name: [
                _cube(believed_object, believed_object.length)
                for believed_object in belief.of(name)
                if believed_object.length
            ]
            for name in names
        }
    else:
        shapes = {name: _with_true_shapes(belief.of(name), boxes.get(name, ())) for name in names}
    return true_answer(question, Facts(counts, belief.area or 0.0, shapes))


def _with_true_shapes(
    objects: Sequence[BelievedObject], boxes: Sequence[OrientedBox]
) -> list[OrientedBox]:
    """Return believed objects as boxes that have the shapes of true ones: matched one to one, then by nearest box."""
    if not boxes:
        return [
            _cube(believed_object, believed_object.length or UNKNOWN_LENGTH_METRES)
            for believed_object in objects
        ]
    distances_metres = plan_distances(objects, boxes)
    shape_index = distances_metres.argmin(axis=1)
    rows, columns = assign_pairs(distances_metres, float(distances_metres.max(initial=0.0)))
    shape_index[rows] = columns
    return [
        replace(boxes[index], centre=np.array([*believed_object.position, boxes[index].centre[2]]))
        for believed_object, index in zip(objects, shape_index, strict=True)
    ]


def _cube(believed_object: BelievedObject, length: float) -> OrientedBox:
    return OrientedBox(np.array([*believed_object.position, 0.0]), np.full(3, length), np.eye(3))
