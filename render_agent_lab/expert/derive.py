"""Writes the expert's reasoning: object positions and derivations in a terse, fixed language, from known boxes.

Positions are in metres in the map's frame, rounded to one decimal. Anything computed from centres uses the rounded
positions, so that a reader of the text can follow every step. A bearing or distance is preceded by the start, end and
difference along x, then along y. The derivation ends with the words of the chosen option. Distances between closest
points come from the boxes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.scans.boxes import OrientedBox, distance
from render_agent.scans.camera import wrap_degrees
from render_agent.tasks.box_answers import DIRECTION_NAMES, side, side_or_back
from render_agent.tasks.question_types import base_question_type, named_categories, type_of

UNKNOWN = "?"  # replaces the position of an object that has not been seen yet

# Bearings are rounded to this many steps per turn. Ten steps are written as 1.0.
BEARING_STEPS = 100

BEARING_STEP_DEGREES = 360 / BEARING_STEPS  # degrees per step

# The actions of a route: a turn to fill in, or a leg with its goal.
LEG_PATTERN = r"\d\. (?:(\[please fill in\])|[Gg]o forward until the (.{1,100}?)(?=\.| \d+\.|,|$))"

NameTurn = Callable[[float], str]  # names a turn given in degrees, positive to the left


class PlanPoint(NamedTuple):
    """Position of an object on the floor plan in metres, rounded to one decimal."""

    x: float
    y: float


@dataclass(frozen=True, eq=False)
class Knowledge:
    """The known facts of a scene: all of them, or those that the views have shown so far."""

    boxes: Mapping[str, Sequence[OrientedBox]] = field(default_factory=dict)
    """Boxes in the scene's frame, by lower-case category."""
    extents: Sequence[tuple[float, float]] = ()
    """Size along x and y in metres of the bounding rectangle of each room, largest first."""

    def spots(self) -> dict[str, list[PlanPoint]]:
        """Return the positions of the objects by category, sorted by x, then y."""
        return {name: sorted(map(spot_of, boxes)) for name, boxes in self.boxes.items()}


class Reasoning(NamedTuple):
    """The reasoning of a reply in two parts: what was seen, and what follows from it."""

    places: str
    rest: str


def spot_of(box: OrientedBox) -> PlanPoint:
    """Return the centre of a box, rounded."""
    return plan_point(*box.centre[:2])


def plan_point(x: float, y: float) -> PlanPoint:
    """Round a position on the floor plan, given in metres."""
    return PlanPoint(round(float(x), 1) + 0.0, round(float(y), 1) + 0.0)  # no -0.0


def question_categories(question: Question) -> tuple[str, ...]:
    """Return the categories a question is about, in the order of its text."""
    names = named_categories(question)
    if base_question_type(question) == "object_rel_distance":
        return (*names[1:], *names[:1])  # the text names the options before the target
    return names


def format_positions(question: Question, spots: Mapping[str, Sequence[PlanPoint]]) -> str:
    """Describe where the named objects are, e.g. `sofa 1.2 3.4; clock ?`."""
    return "; ".join(
        f"{name} {format_places(spots.get(name, ()))}" for name in question_categories(question)
    )


def format_rooms(extents: Sequence[tuple[float, float]]) -> str:
    """Describe the room sizes, e.g. `room 4.2 x 4.0, 3.1 x 2.2`, or `room ?` if unknown."""
    if not extents:
        return f"room {UNKNOWN}"
    return "room " + ", ".join(f"{across:.1f} x {along:.1f}" for across, along in extents)


def derive_answer(question: Question, knowledge: Knowledge) -> str:
    """Derive the answer from the known facts; return an empty string if something is missing.

    Bearings are tenths of a full turn, 0.0 to 9.9, counter-clockwise from +x.
    """
    names = question_categories(question)
    if not names or not all(knowledge.boxes.get(name) for name in names):
        return ""
    kind = base_question_type(question)
    if type_of(question).needs == "every object":
        return f"{len(knowledge.boxes[names[0]])} seen"
    if kind == "object_size_estimation":
        return "size"
    if kind == "object_rel_distance":
        return derive_nearest(names, knowledge)
    spots = {name: boxes[0] for name, boxes in knowledge.spots().items() if len(boxes) == 1}
    if not all(name in spots for name in names):
        return ""
    if kind == "object_abs_distance" and len(names) == 2:
        start, end = (spots[name] for name in names)
        return f"apart {format_way(start, end)} {math.dist(start, end):.1f}"
    if kind == "object_rel_direction" and len(names) == 3:
        return derive_direction(names, spots, DIRECTION_NAMES.get(question.type, side))
    return _derive_route(question, spots) if kind == "route_planning" else ""


def make_reasoning(question: Question, knowledge: Knowledge, *, final: bool) -> Reasoning:
    """Return the reasoning of a reply. A final reply includes the derivation of its answer."""
    if type_of(question).needs == "room":
        return Reasoning(format_rooms(knowledge.extents), "")
    places = format_positions(question, knowledge.spots())
    derivation = derive_answer(question, knowledge) if final else ""
    return Reasoning(places, f". {derivation}" if derivation else "")


def final_reply(question: Question, knowledge: Knowledge, answer: str) -> tuple[str, str]:
    """Return the text of a final reply, split after the positions."""
    parts = make_reasoning(question, knowledge, final=True)
    reply = make_answer_reply("".join(parts), question, answer)
    split_index = len(json.dumps({"reasoning": parts.places})) - len('"}')
    return reply[:split_index], reply[split_index:]


def make_answer_reply(reasoning: str, question: Question, answer: str) -> str:
    """Return a reply that ends the dialogue. A letter is replaced by the words of its option."""
    words = options_by_letter(question.options).get(answer, answer)
    return json.dumps({"reasoning": reasoning, "answer": words, "done": True})


def omniscient_reply(question: Question, knowledge: Knowledge) -> tuple[str, str]:
    """Return the final reply of an expert that knows the whole scene, split as by `final_reply`.

    Raises ValueError if the question has no ground truth.
    """
    if question.ground_truth is None:
        raise ValueError(f"question {question.id} has no ground truth")
    return final_reply(question, knowledge, question.ground_truth)


def bearing_of(start: PlanPoint, end: PlanPoint) -> float:
    """Return the bearing from one position to another in tenths of a full turn, 0.0 to 9.9, from +x."""
    turns = math.atan2(end.y - start.y, end.x - start.x) / (2 * math.pi)
    return round(turns * BEARING_STEPS) % BEARING_STEPS / 10


def format_way(start: PlanPoint, end: PlanPoint) -> str:
    """Write the way between two positions: start, end and difference along x, then along y."""
    return " ".join(_format_step(a, b) for a, b in zip(start, end, strict=True))


def _format_step(start: float, end: float) -> str:
    """Write two numbers and their difference, each with one decimal."""
    return f"{start:.1f} {end:.1f} {round(end - start, 1) + 0.0:.1f}"


def turn_between(start: float, end: float) -> float:
    """Return the turn from one bearing to another in degrees, -180.0 to 176.4, positive to the left."""
    return wrap_degrees(round(10 * (end - start)) * BEARING_STEP_DEGREES)


def format_turn(start: float, end: float, word: NameTurn) -> str:
    """Write the turn from one bearing to another: both bearings, their difference, and its name."""
    return f"turn {_format_step(start, end)}: {word(turn_between(start, end))}"


def format_places(spots: Iterable[PlanPoint]) -> str:
    """Write the positions of a category, or `?` if there are none."""
    return ", ".join(f"{x:.1f} {y:.1f}" for x, y in spots) or UNKNOWN


def derive_nearest(names: Sequence[str], knowledge: Knowledge) -> str:
    """Write the way and the closest-point distance in metres of each category to the last, then the nearest one."""
    *options, target = names
    distances = {name: _separation(knowledge, target, name) for name in options}
    nearest_name = min(options, key=lambda name: distances[name].metres)
    parts = (
        f"{name} {separation.way} {separation.metres:.1f}" for name, separation in distances.items()
    )
    return f"{', '.join(parts)}: {nearest_name}"


class Separation(NamedTuple):
    """The closest pair of objects of two categories: the way between them, and their closest-point distance in metres."""

    way: str
    metres: float


def _separation(knowledge: Knowledge, start: str, end: str) -> Separation:
    pairs = [(box_a, box_b) for box_a in knowledge.boxes[start] for box_b in knowledge.boxes[end]]
    distances = [distance(*pair) for pair in pairs]
    index = min(range(len(pairs)), key=distances.__getitem__)
    return Separation(format_way(*map(spot_of, pairs[index])), distances[index])


def derive_direction(names: Sequence[str], spots: Mapping[str, PlanPoint], word: NameTurn) -> str:
    """Write the way and bearing to the faced object and to the target, then the name of the turn between them."""
    stand, facing, target = names
    start_bearing = bearing_of(spots[stand], spots[facing])
    target_bearing = bearing_of(spots[stand], spots[target])
    ways = [format_way(spots[stand], spots[name]) for name in (facing, target)]
    places = f"{facing} {ways[0]} {start_bearing:.1f}, {target} {ways[1]} {target_bearing:.1f}"
    return f"{places}, {format_turn(start_bearing, target_bearing, word)}"


def _derive_route(question: Question, spots: Mapping[str, PlanPoint]) -> str:
    """Write every turn to fill in, with the bearings of both legs; then the list of all turns."""
    legs = re.findall(LEG_PATTERN, question.text)
    names = question_categories(question)
    if len(names) < 2 or any(goal and goal.lower() not in spots for _, goal in legs):
        return ""
    place, leg = names[0], (spots[names[0]], spots[names[1]])
    turns, has_blank = [], False
    for blank, goal in legs:
        if blank:
            has_blank = True
            continue
        before, leg = leg, (spots[place], spots[goal.lower()])
        place = goal.lower()
        if has_blank:
            turns.append(derive_turn(place, before, leg))
        has_blank = False
    words = (f"Turn {turn.rsplit(maxsplit=1)[-1].capitalize()}" for turn in turns)
    return f"{'; '.join(turns)}. {', '.join(words)}" if turns else ""


def derive_turn(
    goal: str, before: tuple[PlanPoint, PlanPoint], leg: tuple[PlanPoint, PlanPoint]
) -> str:
    """Write the turn between two legs of a route, with the bearing of each; the second leg leads to `goal`."""
    start, end = bearing_of(*before), bearing_of(*leg)
    way, next_way = format_way(*before), format_way(*leg)
    return f"facing {way} {start:.1f}, {goal} {next_way} {end:.1f}, {format_turn(start, end, side_or_back)}"
