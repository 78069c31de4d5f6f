"""Drills: many bearings, turns or distances from one list of places, in the words of the expert's derivations.

A question of the benchmark asks for one direction between three objects; here all objects of a room that are
alone of their kind take part, so that an example teaches ten times as much arithmetic.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from render_agent.expert.derive import (
    Knowledge,
    Spot,
    direction,
    nearness,
    places_of,
    turning,
)

TYPE = "drill"

MOST = 11
"""Objects that take part at the most."""

LEAST = 3
"""Objects that a drill needs."""

Said = Callable[[Sequence[str], Knowledge], str]


def drills(known: Knowledge, chance: random.Random) -> Iterator[tuple[str, str, str]]:
    """Give one drill of each kind about a room, in three parts: what is asked, what is given, what is learned.

    The objects are those alone of their kind, at most MOST, drawn anew for each drill. Nothing where there
    are fewer than LEAST.
    """
    spots = _alone(known)
    if len(spots) < LEAST:
        return
    for asked, said in KINDS.items():
        names = chance.sample(sorted(spots), min(len(spots), MOST))
        places = "; ".join(f"{name} {places_of([spots[name]])}" for name in names)
        given = json.dumps({"reasoning": f"{places}. "}).removesuffix('"}')
        rest = f'{said(names, known)}", "answer": null, "done": false}}'
        yield asked, given, rest


def _alone(known: Knowledge) -> Mapping[str, Spot]:
    return {name: some[0] for name, some in known.spots().items() if len(some) == 1}


def _directions(names: Sequence[str], known: Knowledge) -> str:
    """Say turns between all others, two by two, for whoever stands at the first named."""
    spots = _alone(known)
    stand, *others = names
    twos = zip(others[::2], others[1::2], strict=False)
    return "; ".join(direction((stand, one, other), spots) for one, other in twos)


def _turns(names: Sequence[str], known: Knowledge) -> str:
    """Say every turn of a walk from each to the next."""
    spots = _alone(known)
    legs = [(spots[start], spots[end]) for start, end in pairwise(names)]
    turns = zip(names[2:], pairwise(legs), strict=True)
    return "; ".join(turning(name, *some) for name, some in turns)


KINDS: Mapping[str, Said] = {
    "Which way?": _directions,
    "Which turns?": _turns,
    "How near?": nearness,
}
"""What is said of the places, by what is asked."""
