"""The diagnosis of a question: its cause, its turns, and how each named box was seen in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from msgspec import Struct

from render_agent.render.visibility.object_visibility import Sighting
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Vector
from render_agent.score.beliefs.scored_probe import ScoredProbe


class Cause(StrEnum):
    """Why a question went as it did, as far as its log, its beliefs and the boxes of its scene tell."""

    RIGHT = "right"
    """The answer scores at least half."""
    STOPPED_EARLY = "stopped early"
    """It said done with turns left while something named was never seen well."""
    NEVER_LOOKED = "never looked"
    """It used its turns, and something named was never seen well."""
    MISJUDGED = "misjudged"
    """All that the question names was seen well, and the answer is wrong. Not that the views could not
    have been better: a way between two places, say, has no box."""
    PERCEPTION = "perception"
    """Misjudged, and by its beliefs: something was seen well and never came onto its map, or to a wrong place or size."""
    MEMORY = "memory"
    """Misjudged, and by its beliefs: it was on its map, or the map was right, and at the end it no longer was."""
    REASONING = "reasoning"
    """The right answer follows from its last map, and another one was given."""
    NO_ANSWER = "no answer"
    """No answer could be read."""
    ERROR = "error"
    """The question failed, or its scan is missing: nothing is said of the model."""
    UNKNOWN = "unknown"
    """It is wrong, and no box says what it would have had to look at; so it is for the order in which a
    video showed things, too, which no scan can tell."""
    OPEN = "open"
    """It is not finished, or nobody knows its truth."""


class NamedBox(Struct, frozen=True, array_like=True):
    """One box of an object that a question names.

    number: of the box within its category, from 0. centre, size: metres, scene frame; axes: the unit
    vector of each axis.
    """

    category: str
    number: int
    centre: Vector
    size: Vector
    axes: tuple[Vector, Vector, Vector]

    @property
    def place(self) -> tuple[object, ...]:
        """What tells whether another box is of the same object, which stayed where it was."""
        return self.category, self.centre, self.size, self.axes

    @property
    def box(self) -> OrientedBox:
        """The box itself."""
        return OrientedBox(np.array(self.centre), np.array(self.size), np.array(self.axes))


@dataclass(frozen=True)
class TurnDiagnosis:
    """One turn.

    sightings: of every named box in every view that is new in this turn and taken by the camera; a
    box that is not in the picture has area 0. coverage: share of the room's visible surface seen up
    to here, 0 to 1. path: metres walked in this turn. turned: degrees. blocked: whether something
    stopped or limited the move. returned: whether it went back to where it had been.
    """

    turn: int
    sightings: tuple[Sighting, ...] = ()
    coverage: float | None = None
    path: float = 0.0
    turned: float = 0.0
    blocked: bool = False
    repaired: bool = False
    returned: bool = False


@dataclass(frozen=True)
class BeliefDiagnosis:
    """What one question's beliefs tell.

    probes: each set against the truth. answer: what follows from the last map, None if nothing does. worth: its
    official score, 0 to 1. follows: whether the given answer is about that one.
    """

    probes: tuple[ScoredProbe, ...]
    answer: str | None = None
    worth: float | None = None
    follows: bool | None = None


@dataclass(frozen=True)
class Diagnosis:
    """One question.

    named: the categories that it names. boxes: those of them that are known; without any there are no
    sightings. first_seen: for every named category that has boxes the turn in which one of them (for
    counting: the last of them) was first seen well, None where that never happened. shown: whether all
    that the question is about was seen well, None where nobody can tell; see `was_shown`. cause: see
    Cause. detail: of a cause found in its beliefs, which object it was and when. premature: whether it said done with
    turns left before that. belief: None if it was not asked what it believes.
    """

    question_id: str
    cause: Cause
    named: tuple[str, ...]
    boxes: tuple[NamedBox, ...]
    turns: tuple[TurnDiagnosis, ...]
    first_seen: dict[str, int | None]
    shown: bool | None = None
    premature: bool = False
    detail: str = ""
    belief: BeliefDiagnosis | None = None

    @property
    def never_seen(self) -> tuple[str, ...]:
        """The named categories with boxes that were never seen well."""
        return tuple(name for name, turn in self.first_seen.items() if turn is None)

    @property
    def coverage(self) -> float | None:
        """The share of the room's visible surface seen in all turns; None where it was not computed."""
        return self.turns[-1].coverage if self.turns else None

    @property
    def path(self) -> float:
        """Metres walked."""
        return sum(turn.path for turn in self.turns)

    @property
    def returns(self) -> int:
        """How often it went back to where it had been."""
        return sum(turn.returned for turn in self.turns)

    @property
    def blocked(self) -> int:
        """How many moves were stopped or limited."""
        return sum(turn.blocked for turn in self.turns)

    @property
    def repairs(self) -> int:
        """How many replies could not be read."""
        return sum(turn.repaired for turn in self.turns)


def name_of(box: NamedBox, boxes: Sequence[NamedBox]) -> str:
    """Return a box's category, with its number from 1 where there are several of them."""
    several = box.number > 0 or any(
        other.number == 1 and other.category == box.category for other in boxes
    )
    return f"{box.category} {box.number + 1}" if several else box.category
