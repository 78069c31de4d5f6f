"""Decides whether a dialogue has shown everything that its question is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from render_agent.dialogue.question import Question
from render_agent.tasks.question_types import named_categories, type_of

# Minimum share of the room's visible surface for room-size questions. A full turn at the centre covers 0.35 to 0.4 of a
# bundled room, and 0.15 to 0.25 of a flat with several rooms.
MIN_ROOM_COVERAGE = 0.3


def needed_objects(question: Question, categories: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return groups of named boxes, as indices: one box of every group must be seen clearly.

    This is the only rule for several objects with the same name: counting questions need all of them, other questions
    need one.
    """
    if type_of(question).needs == "every object":
        return tuple((index,) for index in range(len(categories)))
    groups: dict[str, tuple[int, ...]] = {}
    for index, category in enumerate(categories):
        groups[category] = (*groups.get(category, ()), index)
    return tuple(groups.values())


def first_shown(
    question: Question, categories: Sequence[str], when: Mapping[int, int]
) -> dict[str, int | None]:
    """Return the first turn by which each category was seen clearly; None if it never was.

    A category counts as seen once all its `needed_objects` were.
    """
    first_turns: dict[str, list[int | None]] = {}
    for group in needed_objects(question, categories):
        first_turn = min((when[index] for index in group if index in when), default=None)
        first_turns.setdefault(categories[group[0]], []).append(first_turn)
    return {
        name: None if None in turns else max(turn for turn in turns if turn is not None)
        for name, turns in first_turns.items()
    }


def saw_all_objects(
    question: Question,
    first_turns: Mapping[str, int | None],  # as returned by `first_shown`
    # share of the room's visible surface that was seen, 0 to 1; None if not measured
    coverage: float | None,
) -> bool | None:
    """Return whether all objects of the question were seen clearly; None if their boxes are unknown, or for an order in
    a video.
    """
    needs = type_of(question).needs
    if needs == "room":
        return None if coverage is None else coverage >= MIN_ROOM_COVERAGE
    if needs == "video":
        return None
    if any(turn is None for turn in first_turns.values()):
        return False
    categories = named_categories(question)
    return True if categories and len(first_turns) == len(categories) else None
