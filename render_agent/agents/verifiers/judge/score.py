"""What a judge says of one picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from render_agent.dialogue.state import Tokens


class Fault(Enum):
    """Where the reason lies that a picture has no score; alone: no other is there to be compared with."""

    PICTURE = "picture"
    REPLY = "reply"
    ENGINE = "engine"
    ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a picture is found to be by one criterion: 0 to 1, and why."""

    value: float
    reason: str


@dataclass(frozen=True, slots=True)
class Score:
    """How well one picture helps, 0 to 1; None, never a number, where that could not be found out.

    reason: why there is no value; empty where there is one. fault: where that lies. criteria: by
    name, in mode json. support: what the value rests on: in mode yes the probability that a reply
    begins with yes or no at all, in mode pairwise the share of its comparisons in which both orders
    say the same. tokens: of all requests of which it is made; those of a comparison are shared by
    its two pictures. seconds: its share of their batches' time.
    """

    value: float | None
    reason: str = ""
    fault: Fault | None = None
    criteria: Mapping[str, Finding] = field(default_factory=dict)
    support: float | None = None
    tokens: Tokens = Tokens()
    seconds: float = 0.0


def counts(scores: Iterable[Score]) -> dict[str, int]:
    """Return how many pictures were judged, and how many were not, by where the reason lies."""
    found = {"judged": 0, **{fault.value: 0 for fault in Fault}}
    for score in scores:
        found["judged" if score.fault is None else score.fault.value] += 1
    return found
