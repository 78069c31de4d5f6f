"""Drills: many instances of one kind of arithmetic at once, in the wording of the expert's derivations.

A benchmark question asks for one direction between three objects; a drill covers all unambiguous objects of a room, so an
example teaches ten times as much arithmetic. Another drill teaches a single step of a derivation: the name of the turn
between two bearings.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from render_agent.tasks.exact_solver import DIRECTION_NAMES, quadrant
from render_agent_lab.expert.derive import (
    BEARING_STEPS,
    Knowledge,
    PlanPoint,
    derive_direction,
    derive_nearest,
    derive_turn,
    format_places,
    format_turn,
)

TYPE = "drill"

MAX_OBJECTS = 11  # maximum objects per drill

MIN_OBJECTS = 3  # minimum objects for a drill

TURNS_PER_DRILL = 8  # turns named in one drill

Derive = Callable[[Sequence[str], Knowledge], str]


class Drill(NamedTuple):
    """The question, the given part of the reply, and the learned part."""

    asked: str
    given: str
    learned: str


def drills(knowledge: Knowledge, rng: random.Random) -> Iterator[Drill]:
    """Yield one drill of each kind about a room: those in KINDS, and naming turns.

    The former use at most MAX_OBJECTS objects that are the only ones of their category, redrawn for each drill. Yields
    nothing if there are fewer than MIN_OBJECTS.
    """
    spots = _unique_spots(knowledge)
    if len(spots) < MIN_OBJECTS:
        return
    for question, derive in KINDS.items():
        names = rng.sample(sorted(spots), min(len(spots), MAX_OBJECTS))
        places = "; ".join(f"{name} {format_places([spots[name]])}" for name in names)
        given = json.dumps({"reasoning": f"{places}. "}).removesuffix('"}')
        rest = f'{derive(names, knowledge)}", "answer": null, "done": false}}'
        yield Drill(question, given, rest)
    labels = sorted(knowledge.boxes)
    yield _turn_name_drill(rng.choice(list(DIRECTION_NAMES)), labels, rng)


def _turn_name_drill(type_: str, labels: Sequence[str], rng: random.Random) -> Drill:
    """Ask for the names of the turns between given bearings, as used by a question type."""
    ways = [
        (rng.choice(labels), rng.randrange(BEARING_STEPS) / 10) for _ in range(2 * TURNS_PER_DRILL)
    ]
    given_bearings = "; ".join(f"{name} {way}" for name, way in ways)
    reasoning = "; ".join(
        f"{first} {ahead}, {second} {there}, {format_turn(ahead, there, DIRECTION_NAMES[type_])}"
        for (first, ahead), (second, there) in zip(ways[::2], ways[1::2], strict=True)
    )
    kind = type_.rsplit("_", 1)[1]
    reply = {"reasoning": reasoning, "answer": None, "done": False}
    return Drill(f"Which sides, {kind}? {given_bearings}", "", json.dumps(reply))


def _unique_spots(knowledge: Knowledge) -> Mapping[str, PlanPoint]:
    return {name: group[0] for name, group in knowledge.spots().items() if len(group) == 1}


def _directions(names: Sequence[str], knowledge: Knowledge) -> str:
    """Derive the quadrants of all other objects, in pairs, seen from the first."""
    spots = _unique_spots(knowledge)
    stand, *others = names
    twos = zip(others[::2], others[1::2], strict=False)
    return "; ".join(
        derive_direction((stand, first, second), spots, quadrant) for first, second in twos
    )


def _turns(names: Sequence[str], knowledge: Knowledge) -> str:
    """Derive every turn of a walk through the objects in order."""
    spots = _unique_spots(knowledge)
    legs = [(spots[start], spots[end]) for start, end in pairwise(names)]
    turns = zip(names[2:], pairwise(legs), strict=True)
    return "; ".join(derive_turn(name, *pair) for name, pair in turns)


# Derivation by question.
KINDS: Mapping[str, Derive] = {
    "Which way?": _directions,
    "Which turns?": _turns,
    "How near?": derive_nearest,
}
