"""The diagnosis of a question: its cause, its turns, and how each named box was seen in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from msgspec import Struct

from render_agent.beliefs.belief_summary import ScoredProbe
from render_agent.geometry.boxes import OrientedBox
from render_agent.geometry.camera import Vector
from render_agent.render.visibility.object_visibility import Sighting


class Cause(StrEnum):
    """Why a question went as it did, as far as its log and the boxes of its scene tell."""

    RIGHT = "right"
    """The answer scores at least half."""
    MISJUDGED = "misjudged"
    """All that the question names was seen well, and the answer is wrong. Not that the views could not
    have been better: a way between two places, say, has no box."""
    STOPPED_EARLY = "stopped early"
    """It said done with turns left while something named was never seen well."""
    NEVER_LOOKED = "never looked"
    """It used its turns, and something named was never seen well."""
    NO_ANSWER = "no answer"
    """No answer could be read."""
    ERROR = "error"
    """The question failed, or its scan is missing: nothing is said of the model."""
    UNKNOWN = "unknown"
    """It is wrong, and no box says what it would have had to look at; so it is for the order in which a
    video showed things, too, which no scan can tell."""
    OPEN = "open"
    """It is not finished, or nobody knows its truth."""


class Failure(StrEnum):
    """The first thing that broke on the way from views over a belief to an answer, where beliefs were asked for."""

    RIGHT = "right"
    """The answer scores at least half."""
    NEVER_SEEN = "never seen"
    """Something that the question names was never seen well."""
    PERCEPTION = "perception"
    """It was seen well, and never came onto the map, or to a place or size from which no right answer follows."""
    MEMORY = "memory"
    """It was on the map, or the map was right, and at the end it no longer was."""
    REASONING = "reasoning"
    """The last map is right: the right answer follows from it, and another one was given."""
    NOT_READABLE = "not readable"
    """No answer, or no belief, could be read."""
    UNKNOWN = "unknown"
    """The boxes of the scene do not tell what had to be on the map, or no map was asked for."""


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

    failure: what broke first, None where the question failed or has no truth. words: which object, and when. probes:
    each set against the truth. answer: what follows from the last map, worth: its official score, 0 to 1; None where
    nothing follows. follows: whether the given answer is about that one.
    """

    failure: Failure | None
    words: str
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
    Cause. premature: whether it said done with turns left before that. belief: what broke first, None
    where it was not asked what it believes.
    """

    question_id: str
    cause: Cause
    named: tuple[str, ...]
    boxes: tuple[NamedBox, ...]
    turns: tuple[TurnDiagnosis, ...]
    first_seen: dict[str, int | None]
    shown: bool | None = None
    premature: bool = False
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
