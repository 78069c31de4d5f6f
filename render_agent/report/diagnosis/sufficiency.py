"""Decide whether a dialogue has shown everything that its question is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from render_agent.dialogue.question import Question
from render_agent.tasks.mentions import base_question_type, named_categories
from render_agent.tasks.question_types import COUNTING_TYPE, ORDER, ROOM_SIZE_TYPE

# Minimum share of the room's visible surface for room-size questions. A full turn at the centre of
# a bundled room covers 0.35 to 0.4, and 0.15 to 0.25 of a flat with several rooms.
MIN_ROOM_COVERAGE = 0.3


def first_shown(
    question: Question, categories: Sequence[str], when: Mapping[int, int]
) -> dict[str, int | None]:
    """Return the first turn by which each category was seen clearly, or None if it never was.

    A category counts as seen if one of its boxes was; counting questions require all of them.

    Args:
        question: The question.
        categories: Category of each named box.
        when: First turn in which each clearly seen box was clearly visible, by index in `categories`.
    """
    first_turns: dict[str, int | None] = {}
    for category in dict.fromkeys(categories):
        boxes = [index for index, name in enumerate(categories) if name == category]
        turns = [when[index] for index in boxes if index in when]
        if base_question_type(question) == COUNTING_TYPE:
            first_turns[category] = max(turns) if len(turns) == len(boxes) else None
        else:
            first_turns[category] = min(turns, default=None)
    return first_turns


def saw_all_objects(
    question: Question, first: Mapping[str, int | None], coverage: float | None
) -> bool | None:
    """Return whether all objects of the question were seen clearly.

    Args:
        question: The question.
        first: As returned by `first_shown`.
        coverage: Share of the room's visible surface that was seen, 0 to 1; None if not measured.

    Returns:
        None if unknown: a named object has no boxes, or the question is about the order in a video.
    """
    kind = base_question_type(question)
    if kind == ROOM_SIZE_TYPE:
        return None if coverage is None else coverage >= MIN_ROOM_COVERAGE
    if kind == ORDER:
        return None
    if any(turn is None for turn in first.values()):
        return False
    named = named_categories(question)
    return True if named and len(first) == len(named) else None
