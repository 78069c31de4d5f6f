"""The words of the pages: one table of the names of types, statuses, outcomes and causes, and what they mean.

Text, logs and exports have the same names: those of `Cause` and `Status`, word for word.
"""

from __future__ import annotations

from collections.abc import Iterable

from render_agent.dialogue.state import Status
from render_agent.report.diagnosis.model import Cause
from render_agent.runs.log.row import Row
from render_agent.score.comparison import RIGHT
from render_agent.tasks.question_types import DIRECTION, TYPES

TYPE_WORDS = {
    "object_counting": "object count",
    "object_abs_distance": "absolute distance",
    "object_size_estimation": "object size",
    "room_size_estimation": "room size",
    "object_rel_distance": "relative distance",
    DIRECTION: "relative direction",
    "object_rel_direction_easy": "direction, easy",
    "object_rel_direction_medium": "direction, medium",
    "object_rel_direction_hard": "direction, hard",
    "route_planning": "route plan",
    "obj_appearance_order": "appearance order",
}
"""The tasks and types in the words of VSI-Bench's paper."""


STATUS_WORDS = {
    Status.ACTIVE: "not finished",
    Status.ANSWERED: "answered: it said done",
    Status.EXHAUSTED: "exhausted: out of turns, its last answer counts",
    Status.FAILED: "failed",
    Status.MISSING: "missing: its scan was not found",
}
"""What a status means."""

CAUSE_WORDS = {
    Cause.MISJUDGED: "all that the question names was seen well, and the answer is wrong",
    Cause.NEVER_LOOKED: "it used its turns, and something that the question names was never seen well",
    Cause.STOPPED_EARLY: "something that the question names was never seen well, with turns left",
    Cause.PERCEPTION: "seen well, and never on its map, or not where it is",
    Cause.MEMORY: "on its map, and later lost",
    Cause.REASONING: "the right answer follows from its last map, and another was given",
    Cause.NO_ANSWER: "none could be read",
    Cause.ERROR: "the question failed, or its scan is missing",
    Cause.UNKNOWN: "the answer is wrong, and nothing tells what it would have had to see",
    Cause.OPEN: "not finished, or without a known truth",
}
"""What a cause means."""

NEVER_SHOWN = {
    Cause.NEVER_LOOKED: "something that the question names was never shown well, and the model did not choose its views"
}
"""What that cause means where the views were chosen for the model."""


def causes_meant(causes: Iterable[Cause], *, passive: bool = False) -> str:
    """Return what some causes mean, a sentence each; passive: whether the views were chosen for the model."""
    words = CAUSE_WORDS | (NEVER_SHOWN if passive else {})
    return " ".join(f"{c.capitalize()}: {words[c]}." for c in causes if c in words)


def type_words(name: str) -> str:
    """Return the words for a type or task; a type that is not VSI-Bench's keeps its name."""
    return TYPE_WORDS.get(name, name.replace("_", " "))


def outcome(row: Row | None) -> str:
    """Return `right`, `wrong` or `open` (not scored, or not there) of a row of the results."""
    if row is None or row.score is None:
        return "open"
    return "right" if row.score >= RIGHT else "wrong"


def in_order(types: Iterable[str]) -> list[str]:
    """Return some types, those of VSI-Bench first and in its order."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]
