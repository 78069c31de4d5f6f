"""Had a dialogue been shown what its question is about? One rule for all who ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from render_agent.dialogue.question import Question
from render_agent.tasks.mentions import kind_of, named_categories
from render_agent.tasks.question_types import COUNTING_TYPE, ORDER, ROOM_SIZE_TYPE

MIN_ROOM_COVERAGE = 0.3
"""Of the room's visible surface: who saw less has not looked at the size of the room. A look all around
from the middle shows 0.35 to 0.4 of a single bundled room, and 0.15 to 0.25 of a flat."""


def first_shown(
    question: Question, categories: Sequence[str], when: Mapping[int, int]
) -> dict[str, int | None]:
    """Return the first turn by which each category with boxes was seen well, None for those never seen well.

    categories: that of every box that the question names. when: for the boxes that were seen well, by
    their place among these, the first turn in which they were. A category counts as seen with the first
    of its boxes, for counting with the last.
    """
    first_turns: dict[str, int | None] = {}
    for category in dict.fromkeys(categories):
        own = [index for index, name in enumerate(categories) if name == category]
        turns = [when[index] for index in own if index in when]
        if kind_of(question) == COUNTING_TYPE:
            first_turns[category] = max(turns) if len(turns) == len(own) else None
        else:
            first_turns[category] = min(turns, default=None)
    return first_turns


def was_shown(
    question: Question, first: Mapping[str, int | None], coverage: float | None
) -> bool | None:
    """Return whether all objects of the question were seen well, None where that cannot be known.

    first: as `first_shown` has it. coverage: the share of the room's visible surface that was seen. Nobody
    can tell where something named has no boxes, and of what a video showed first, which is in no scan.
    """
    kind = kind_of(question)
    if kind == ROOM_SIZE_TYPE:
        return None if coverage is None else coverage >= MIN_ROOM_COVERAGE
    if kind == ORDER:
        return None
    if any(turn is None for turn in first.values()):
        return False
    named = named_categories(question)
    return True if named and len(first) == len(named) else None
