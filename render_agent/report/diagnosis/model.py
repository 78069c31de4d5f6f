"""Data of a diagnosis: the cause, the turns, and the visibility of each named box in every turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from msgspec import Struct

from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Vector
from render_agent.visibility.object_visibility import ObjectSighting

# The two groups of answers in plots and tables of all question types; RIGHT is the limit.
HIGH_SCORE, LOW_SCORE = "score at least 50 %", "score below 50 %"


class Cause(StrEnum):
    """Why an answer scores high or low, according to the log, the object boxes of the scene, and report parts.

    `sentences/labels.py` explains each.
    """

    RIGHT = "right"
    STOPPED_EARLY = "stopped early"
    NEVER_LOOKED = "never looked"
    MISJUDGED = (
        "misjudged"  # better views might still have helped: the path between places has no box
    )
    PERCEPTION = "perception"
    MEMORY = "memory"
    REASONING = "reasoning"
    FORM = "form"
    NO_ANSWER = "no answer"
    ERROR = "error"
    UNKNOWN = "unknown"  # includes appearance order, which depends on the video, not on the scan
    OPEN = "open"

    @property
    def label(self) -> str:
        """The cause for people; numbers have scores between right and wrong."""
        return HIGH_SCORE if self is Cause.RIGHT else str(self)


# causes that only report parts can reveal
BY_PARTS = (Cause.PERCEPTION, Cause.MEMORY, Cause.REASONING)

# causes of answers that can be compared with visibility
JUDGED = (Cause.RIGHT, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.MISJUDGED, *BY_PARTS)

WRONG = (*JUDGED[1:], Cause.FORM, Cause.NO_ANSWER, Cause.UNKNOWN)  # causes of wrong answers


class NamedBox(Struct, frozen=True, array_like=True):
    """Box of an object that a question names, in the scene frame."""

    category: str
    number: int
    """Within the category, from 0."""
    centre: Vector
    """Metres."""
    size: Vector
    """Metres along each axis."""
    axes: tuple[Vector, Vector, Vector]
    """Unit vectors."""

    @property
    def place(self) -> tuple[object, ...]:
        """Key that is equal for boxes of the same object if it has not moved."""
        return self.category, self.centre, self.size, self.axes

    @property
    def box(self) -> OrientedBox:
        """The box without its category."""
        return OrientedBox(np.array(self.centre), np.array(self.size), np.array(self.axes))


@dataclass(frozen=True)
class TurnDiagnosis:
    """Visibility and movement in one turn."""

    turn: int
    sightings: tuple[ObjectSighting, ...] = ()
    """One per named box and new camera view of this turn; area 0 if the box is not in the image."""
    coverage: float | None = None
    """Share of the room's visible surface seen up to this turn, 0 to 1."""
    path: float = 0.0
    """Distance moved, in metres."""
    turned: float = 0.0
    """Degrees."""
    blocked: bool = False
    """True if an obstacle or a limit shortened the move."""
    repaired: bool = False
    """True if the reply was unreadable."""
    returned: bool = False
    """True if the camera went back to an earlier pose."""


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Diagnosis of one question."""

    question_id: str
    cause: Cause
    named: tuple[str, ...]
    """Categories that the question names."""
    boxes: tuple[NamedBox, ...]
    """Known boxes of the named categories. Without boxes there are no sightings."""
    turns: tuple[TurnDiagnosis, ...]
    first_seen: dict[str, int | None]
    """Turn in which each category with boxes was first seen clearly (for counting questions, all its boxes), or None.
    """
    saw_all: bool | None = None
    """True if everything relevant was seen clearly; None if unknown. See `saw_all_objects`."""
    premature: bool = False
    """True if the model finished with turns left before everything relevant was seen clearly."""
    detail: str = ""
    """Explanation of a cause that a report part has refined."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Data of report parts, by name of the part."""
    needed: tuple[tuple[int, ...], ...] = ()
    """Groups of indices in `boxes`; one box of every group must be seen clearly. See `needed_objects`."""

    def __repr__(self) -> str:
        seen = [
            f"{name} {'never seen clearly' if turn is None else f'seen clearly in turn {turn}'}"
            for name, turn in self.first_seen.items()
        ]
        return f"<diagnosis of question {self.question_id}: {self.cause}; {', '.join(seen) or 'no known objects'}>"

    @property
    def never_seen(self) -> tuple[str, ...]:
        """Named categories that have boxes but were never seen clearly."""
        return tuple(name for name, turn in self.first_seen.items() if turn is None)

    @property
    def coverage(self) -> float | None:
        """Share of the room's visible surface seen in all turns; None if not measured."""
        return self.turns[-1].coverage if self.turns else None

    @property
    def path(self) -> float:
        """Distance moved, in metres."""
        return sum(turn.path for turn in self.turns)

    @property
    def returns(self) -> int:
        """Number of backtracks."""
        return sum(turn.returned for turn in self.turns)

    @property
    def blocked(self) -> int:
        """Number of moves that were shortened by an obstacle or a limit."""
        return sum(turn.blocked for turn in self.turns)

    @property
    def repairs(self) -> int:
        """Number of unreadable replies."""
        return sum(turn.repaired for turn in self.turns)


def group_name(group: Sequence[int], boxes: Sequence[NamedBox]) -> str:
    """Return the name of a group of boxes: the category, numbered if the group is one of several boxes of it."""
    box = boxes[group[0]]
    return name_of(box, boxes) if len(group) == 1 else box.category


def name_of(box: NamedBox, boxes: Sequence[NamedBox]) -> str:
    """Return the category of a box, followed by its number from 1 if the category has several boxes."""
    is_numbered = box.number > 0 or any(
        another.number == 1 and another.category == box.category for another in boxes
    )
    return f"{box.category} {box.number + 1}" if is_numbered else box.category
