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

from render_agent.tasks.box_answers import DIRECTION_NAMES, quadrant
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
    """A question and its reply."""

    question: str
    prefix: str  # beginning of the reply, which is not learned
    completion: str  # rest of the reply, which is learned


def drills(knowledge: Knowledge, rng: random.Random) -> Iterator[Drill]:
    """Yield one drill of each kind about a room: one per entry of DERIVATIONS, and one that names turns.

    Derivations use at most MAX_OBJECTS objects that are the only ones of their category, redrawn for each drill. Yields
    nothing if a room has fewer than MIN_OBJECTS such objects.
    """
    spots = _unique_spots(knowledge)
    if len(spots) < MIN_OBJECTS:
        return
    for question, derive in DERIVATIONS.items():
        names = rng.sample(sorted(spots), min(len(spots), MAX_OBJECTS))
        places = "; ".join(f"{name} {format_places([spots[name]])}" for name in names)
        prefix = json.dumps({"reasoning": f"{places}. "}).removesuffix('"}')
        completion = f'{derive(names, knowledge)}", "answer": null, "done": false}}'
        yield Drill(question, prefix, completion)
    labels = sorted(knowledge.boxes)
    yield _turn_name_drill(rng.choice(list(DIRECTION_NAMES)), labels, rng)


def _turn_name_drill(question_type: str, labels: Sequence[str], rng: random.Random) -> Drill:
    """Ask for the names of the turns between given bearings, as used by a question type."""
    bearings = [
        (rng.choice(labels), rng.randrange(BEARING_STEPS) / 10) for _ in range(2 * TURNS_PER_DRILL)
    ]
    listed_bearings = "; ".join(f"{name} {bearing}" for name, bearing in bearings)
    reasoning = "; ".join(
        f"{first} {ahead}, {second} {there}, {format_turn(ahead, there, DIRECTION_NAMES[question_type])}"
        for (first, ahead), (second, there) in zip(bearings[::2], bearings[1::2], strict=True)
    )
    kind = question_type.rsplit("_", 1)[1]
    reply = {"reasoning": reasoning, "answer": None, "done": False}
    return Drill(f"Which sides, {kind}? {listed_bearings}", "", json.dumps(reply))


def _unique_spots(knowledge: Knowledge) -> Mapping[str, PlanPoint]:
    return {name: group[0] for name, group in knowledge.spots().items() if len(group) == 1}


def _directions(names: Sequence[str], knowledge: Knowledge) -> str:
    """Derive the quadrants of all other objects, in pairs, seen from the first."""
    spots = _unique_spots(knowledge)
    viewpoint, *others = names
    pairs = zip(others[::2], others[1::2], strict=False)
    return "; ".join(
        derive_direction((viewpoint, first, second), spots, quadrant) for first, second in pairs
    )


def _turns(names: Sequence[str], knowledge: Knowledge) -> str:
    """Derive every turn of a walk through the objects in order."""
    spots = _unique_spots(knowledge)
    legs = [(spots[start], spots[end]) for start, end in pairwise(names)]
    turns = zip(names[2:], pairwise(legs), strict=True)
    return "; ".join(derive_turn(name, *pair) for name, pair in turns)


# Derivation by question text.
DERIVATIONS: Mapping[str, Derive] = {
    "Which way?": _directions,
    "Which turns?": _turns,
    "How near?": derive_nearest,
}
