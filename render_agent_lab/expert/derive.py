"""What the expert says: places and derivations in a terse, fixed language, from the boxes that are known.

Positions are metres in the map's frame with one decimal. What is computed from centres is computed from
the positions as they are said, so that a reader of the text can follow it, step by step: before a bearing or
a distance stand the two places along x and how far it is between them, then the same along y; at the end stands
the answer in the words of its option. Distances between closest points come from the boxes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import OrientedBox, distance
from render_agent.scans.camera import wrapped
from render_agent.tasks.exact_solver import DIRECTION_NAMES, side, side_or_back
from render_agent.tasks.mentions import kind_of, named_categories
from render_agent.tasks.question_types import COUNTING_TYPE, ROOM_SIZE_TYPE

UNKNOWN = "?"
"""Stands for the place of what was not yet seen."""

FULL = 100
"""Steps of a full turn to which bearings are rounded; ten of them are said as 1.0."""

STEP = 360 / FULL
"""Degrees of such a step."""

LEG = r"\d\. (?:(\[please fill in\])|[Gg]o forward until the (.+?)(?=\.| \d+\.|,|$))"
"""The actions of a route: a turn to fill in, or a leg with its goal."""

Turn = Callable[[float], str]
"""Names a turn in degrees, left positive."""


class Spot(NamedTuple):
    """The place of an object on the floor plan, metres, as it is said: with one decimal."""

    x: float
    y: float


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What is known of a scene, all of it or what views have shown so far.

    boxes: of objects by category in lower case, in the scene's frame. extents: metres along x and along
    y of the rectangle around each room, the largest first.
    """

    boxes: Mapping[str, Sequence[OrientedBox]] = field(default_factory=dict)
    extents: Sequence[tuple[float, float]] = ()

    def spots(self) -> dict[str, list[Spot]]:
        """Return the places of the objects by category, from lower x to higher, then y."""
        return {name: sorted(map(spot_of, some)) for name, some in self.boxes.items()}


class Reasoning(NamedTuple):
    """A reasoning in two parts: what was seen, and what follows from it."""

    places: str
    rest: str


def spot_of(box: OrientedBox) -> Spot:
    """Return the place of a box: its centre, rounded to a decimal."""
    return spot_at(*box.centre[:2])


def spot_at(x: float, y: float) -> Spot:
    """Return a place on the floor plan as it is said, from metres."""
    return Spot(round(float(x), 1) + 0.0, round(float(y), 1) + 0.0)  # no -0.0


def things(question: Question) -> tuple[str, ...]:
    """Return the categories that a question is about, in the order in which its text names them."""
    names = named_categories(question)
    if kind_of(question) == "object_rel_distance":
        return (*names[1:], *names[:1])  # its text names the options before what they are near to
    return names


def places_text(question: Question, spots: Mapping[str, Sequence[Spot]]) -> str:
    """Return where the things of a question are, such as `sofa 1.2 3.4; clock ?`."""
    return "; ".join(f"{name} {places_of(spots.get(name, ()))}" for name in things(question))


def rooms_text(extents: Sequence[tuple[float, float]]) -> str:
    """Return how large the rooms are, such as `room 4.2 x 4.0, 3.1 x 2.2`, or `room ?`."""
    if not extents:
        return f"room {UNKNOWN}"
    return "room " + ", ".join(f"{across:.1f} x {along:.1f}" for across, along in extents)


def derivation(question: Question, known: Knowledge) -> str:
    """Return the derivation of the answer from what is known, empty where something is missing.

    Bearings are tenths of a full turn, 0.0 … 9.9, counter-clockwise, 0.0 along +x.
    """
    names = things(question)
    if not names or not all(known.boxes.get(name) for name in names):
        return ""
    kind = kind_of(question)
    if kind == COUNTING_TYPE:
        return f"{len(known.boxes[names[0]])} seen"
    if kind == "object_size_estimation":
        return "size"
    if kind == "object_rel_distance":
        return nearness(names, known)
    spots = {name: some[0] for name, some in known.spots().items() if len(some) == 1}
    if not all(name in spots for name in names):
        return ""
    if kind == "object_abs_distance" and len(names) == 2:
        one, other = (spots[name] for name in names)
        return f"apart {way_text(one, other)} {math.dist(one, other):.1f}"
    if kind == "object_rel_direction" and len(names) == 3:
        return direction(names, spots, DIRECTION_NAMES.get(question.type, side))
    return _route(question, spots) if kind == "route_planning" else ""


def reasoning_of(question: Question, known: Knowledge, *, final: bool) -> Reasoning:
    """Return the reasoning of a reply; final: whether it answers, so that a derivation may follow."""
    if question.type == ROOM_SIZE_TYPE:
        return Reasoning(rooms_text(known.extents), "")
    places = places_text(question, known.spots())
    follows = derivation(question, known) if final else ""
    return Reasoning(places, f". {follows}" if follows else "")


def final_reply(question: Question, known: Knowledge, answer: str) -> tuple[str, str]:
    """Return a final reply's text in two parts: up to and with the places, and the rest."""
    parts = reasoning_of(question, known, final=True)
    whole = answering("".join(parts), question, answer)
    cut = len(json.dumps({"reasoning": parts.places})) - len('"}')
    return whole[:cut], whole[cut:]


def answering(reasoning: str, question: Question, answer: str) -> str:
    """Return a reply that ends the dialogue; answer: in canonical form, a letter is said as its option's words."""
    words = letters(question.options).get(answer, answer)
    return json.dumps({"reasoning": reasoning, "answer": words, "done": True})


def known_reply(question: Question, known: Knowledge) -> tuple[str, str]:
    """Return the final reply of one who knows everything, in two parts as `final_reply` has them.

    ValueError where nobody knows the truth.
    """
    if question.truth is None:
        raise ValueError(f"nobody knows the truth of question {question.id}")
    return final_reply(question, known, question.truth)


def bearing_of(start: Spot, end: Spot) -> float:
    """Return the way from one place to another in tenths of a full turn, 0.0 … 9.9; 0.0 lies along +x."""
    turns = math.atan2(end.y - start.y, end.x - start.x) / (2 * math.pi)
    return round(turns * FULL) % FULL / 10


def way_text(start: Spot, end: Spot) -> str:
    """Return the words for the way between two places: along x from, to, and metres between; then along y."""
    return " ".join(_step(a, b) for a, b in zip(start, end, strict=True))


def _step(start: float, end: float) -> str:
    """Return two numbers and how far it is from the first to the second, each with one decimal."""
    return f"{start:.1f} {end:.1f} {round(end - start, 1) + 0.0:.1f}"


def turn_between(first: float, other: float) -> float:
    """Return the turn from one bearing to another in degrees, -180.0 … 176.4, left positive."""
    return wrapped(round(10 * (other - first)) * STEP)


def turn_text(ahead: float, there: float, word: Turn) -> str:
    """Return the words for a turn from one bearing to another: their difference, and its name."""
    return f"turn {_step(ahead, there)}: {word(turn_between(ahead, there))}"


def places_of(spots: Iterable[Spot]) -> str:
    """Return the words for the places of a category, `?` without any."""
    return ", ".join(f"{x:.1f} {y:.1f}" for x, y in spots) or UNKNOWN


def nearness(names: Sequence[str], known: Knowledge) -> str:
    """Say how far each category is from the last named, and which is nearest.

    The way to each, then metres between closest points.
    """
    *options, target = names
    distances = {name: _apart(known, target, name) for name in options}
    nearest = min(options, key=lambda name: distances[name].metres)
    parts = (f"{name} {apart.way} {apart.metres:.1f}" for name, apart in distances.items())
    return f"{', '.join(parts)}: {nearest}"


class Apart(NamedTuple):
    """How far apart two categories are where they are nearest: the way, and metres between closest points."""

    way: str
    metres: float


def _apart(known: Knowledge, start: str, end: str) -> Apart:
    pairs = [(one, other) for one in known.boxes[start] for other in known.boxes[end]]
    apart = [distance(*pair) for pair in pairs]
    nearest = min(range(len(pairs)), key=apart.__getitem__)
    return Apart(way_text(*map(spot_of, pairs[nearest])), apart[nearest])


def direction(names: Sequence[str], spots: Mapping[str, Spot], word: Turn) -> str:
    """Say the two ways and bearings from where one stands, and what the turn between them is called."""
    stand, faced, target = names
    ahead = bearing_of(spots[stand], spots[faced])
    there = bearing_of(spots[stand], spots[target])
    ways = [way_text(spots[stand], spots[name]) for name in (faced, target)]
    places = f"{faced} {ways[0]} {ahead:.1f}, {target} {ways[1]} {there:.1f}"
    return f"{places}, {turn_text(ahead, there, word)}"


def _route(question: Question, spots: Mapping[str, Spot]) -> str:
    """Say every turn to fill in, with the way one faces and the bearing of the next goal; then all of them."""
    legs = re.findall(LEG, question.text)
    names = things(question)
    if len(names) < 2 or any(goal and goal.lower() not in spots for _, goal in legs):
        return ""
    here, leg = names[0], (spots[names[0]], spots[names[1]])
    turns, asked = [], False
    for blank, goal in legs:
        if blank:
            asked = True
            continue
        before, leg = leg, (spots[here], spots[goal.lower()])
        here = goal.lower()
        if asked:
            turns.append(turning(here, before, leg))
        asked = False
    words = (f"Turn {turn.rsplit(maxsplit=1)[-1].capitalize()}" for turn in turns)
    return f"{'; '.join(turns)}. {', '.join(words)}" if turns else ""


def turning(goal: str, before: tuple[Spot, Spot], leg: tuple[Spot, Spot]) -> str:
    """Say the turn between two legs of a walk, of which the second leads to a goal, and how it follows."""
    ahead, there = bearing_of(*before), bearing_of(*leg)
    way, on = way_text(*before), way_text(*leg)
    return f"facing {way} {ahead:.1f}, {goal} {on} {there:.1f}, {turn_text(ahead, there, side_or_back)}"
