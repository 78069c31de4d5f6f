"""The words of the pages for types of questions and their outcomes, and the order of the types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from render_agent.score.comparison import RIGHT
from render_agent.score.means import DIRECTION
from render_agent.score.official import TYPES

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


def type_words(name: str) -> str:
    """Return the words for a type or task; a type that is not VSI-Bench's keeps its name."""
    return TYPE_WORDS.get(name, name.replace("_", " "))


def outcome(row: Mapping[str, Any] | None) -> str:
    """Return `right`, `wrong` or `open` (not scored, or not there) of a row of the results."""
    if row is None or row["score"] is None:
        return "open"
    return "right" if row["score"] >= RIGHT else "wrong"


def in_order(types: Iterable[str]) -> list[str]:
    """Return some types, those of VSI-Bench first and in its order."""
    types = set(types)
    return [*(kind for kind in TYPES if kind in types), *sorted(types.difference(TYPES))]
