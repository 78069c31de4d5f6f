"""Route-planning questions, with VSI-Bench's text: turns to fill in between straight, unobstructed legs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from render_agent.scans.boxes import Array, OrientedBox
from render_agent.tasks.box_answers import bearing
from render_agent.tasks.boxes.room_ground_truth import AnnotatedObject, RoomGroundTruth
from render_agent_lab.room_generator.floor_plan.walkway import (
    CLEARANCE,
    Walkway,
    footprint_distance,
    is_obstacle,
)
from render_agent_lab.room_generator.questions.draft import Draft, is_overhead, only_labels
from render_agent_lab.room_generator.questions.own_rooms import OwnRoom

ARRIVAL_METRES = 0.4  # metres from an object's footprint that count as having arrived
MIN_LEG_METRES = 0.7  # metres, shortest leg
SQUARE_TOLERANCE_DEGREES = 32.0  # maximum deviation of a left or right turn from 90 degrees
BACK_DEGREES = 152.0  # degrees from which a turn is a turn back
TURNS = ("Turn Left", "Turn Right", "Turn Back")
# Labels of objects that are not destinations.
EXCLUDED_LABELS = {
    "ceiling light",
    "picture",
    "clock",
    "curtain",
    "rug",
    "exhaust fan",
    "towel",
    "mirror",
}

TEXT = (
    "You are a robot beginning at the {start} and facing the {facing}. You want to navigate to the"
    " {goal}. You will perform the following actions (Note: for each [please fill in], choose either"
    " 'turn back,' 'turn left,' or 'turn right.'): {actions}. You have reached the final destination."
)
FILL = "[please fill in]"


@dataclass(frozen=True, eq=False)
class RouteStop:
    """The state of a walk after a leg."""

    position: Array  # (2,) metres
    reached: AnnotatedObject
    heading: Array  # (2,) direction of the leg
    turns: tuple[str, ...]
    passed: tuple[AnnotatedObject, ...]
    """Start object, object faced at the start, and the objects reached since."""
    actions: tuple[str, ...]  # actions so far, as in the question


def turn_of(angle: float) -> str | None:
    """Return the turn for an angle in degrees (positive to the left); None if ambiguous."""
    if abs(angle) >= BACK_DEGREES:
        return "Turn Back"
    if abs(abs(angle) - 90) <= SQUARE_TOLERANCE_DEGREES:
        return "Turn Left" if angle > 0 else "Turn Right"
    return None


def route_questions(
    truth: RoomGroundTruth, rng: np.random.Generator, max_drafts: int = 40
) -> list[Draft]:
    """Return routes of one to three turns with straight legs that are free of furniture."""
    walks = _Walks(truth, rng)
    drafts: dict[str, Draft] = {}
    for start in walks.starts():
        frontier = [start]
        for _leg in range(3):
            stops = [stop for origin in frontier for stop in walks.legs(origin)]
            for stop in stops:
                is_sensible = stop.turns.count("Turn Back") <= 1
                if stop.turns and is_sensible and (len(stop.turns) > 1 or rng.random() < 0.1):
                    drafts.setdefault(
                        "; ".join(stop.actions) + stop.passed[0].label, _draft(stop, rng)
                    )
            indices = rng.permutation(len(stops))[:4]
            frontier = [stops[int(index)] for index in indices if len(stops[int(index)].turns) < 3]
        if len(drafts) >= max_drafts:
            break
    return list(drafts.values())


class _Walks:
    """The free floor of a home and the possible destinations."""

    def __init__(self, truth: RoomGroundTruth, rng: np.random.Generator) -> None:
        self.rng = rng
        self.destinations = [
            truth.only(label)
            for label in only_labels(truth)
            if label not in EXCLUDED_LABELS and not is_overhead(truth, label)
        ]
        self.destinations = [entry for entry in self.destinations if entry.support is None]
        self.is_own = isinstance(truth, OwnRoom)
        if isinstance(truth, OwnRoom):
            self.centres, self.free = truth.free_floor
        else:
            walkway = Walkway(truth.rooms, truth.ways)
            self.centres, self.free = walkway.centres, walkway.free[CLEARANCE]
        for entry in truth.objects:
            if is_obstacle(entry.box, entry.kind, entry.support is not None):
                self.free = self.free & (self._distance_to(entry.box) >= CLEARANCE)
        self.cell = float(np.hypot(*(self.centres[1, 1] - self.centres[0, 0])) / np.sqrt(2))

    def _distance_to(self, box: OrientedBox) -> Array:
        flat = footprint_distance(box, self.centres.reshape(-1, 2))
        return flat.reshape(self.centres.shape[:2])

    def starts(self) -> Iterator[RouteStop]:
        """Yield positions next to objects, facing other objects of the same room, in random order."""
        pairs = [
            (first, second)
            for first, second in permutations(self.destinations, 2)
            if first.room == second.room
        ]
        for index in self.rng.permutation(len(pairs)):
            entry, facing = pairs[int(index)]
            is_near = self.free & (self._distance_to(entry.box) <= ARRIVAL_METRES)
            positions = self.centres[is_near]
            if not len(positions):
                continue
            position = positions[int(self.rng.integers(len(positions)))]
            ahead = facing.centre[:2] - position
            by_centres = facing.centre[:2] - entry.centre[:2]
            # The rooms of an own scan are unknown, so one faces only what one can walk to.
            is_in_view = not self.is_own or self._walk(position, facing) is not None
            if np.hypot(*by_centres) > 0.8 and np.hypot(*ahead) > 0.5 and is_in_view:
                yield RouteStop(position, entry, ahead, (), (entry, facing), ())

    def legs(self, stop: RouteStop) -> list[RouteStop]:
        """Return the stops reachable from a stop, straight on or after one unambiguous turn."""
        reachable = []
        for goal in self.destinations:
            if goal is stop.reached or goal in stop.passed[:1] + stop.passed[2:]:
                continue
            end = self._walk(stop.position, goal)
            if end is None:
                continue
            heading = end - stop.position
            is_straight = not stop.actions and goal is stop.passed[1]
            turn = None if is_straight else self._turn(stop, heading, goal)
            if not is_straight and turn is None:
                continue
            actions = (
                *stop.actions,
                *([] if is_straight else [FILL]),
                f"Go forward until the {goal.label}",
            )
            turns = stop.turns if turn is None else (*stop.turns, turn)
            reachable.append(RouteStop(end, goal, heading, turns, (*stop.passed, goal), actions))
        return reachable

    def _turn(self, stop: RouteStop, heading: Array, goal: AnnotatedObject) -> str | None:
        """Return the turn from the current heading to the next; None unless it agrees with the objects' centres."""
        origin = np.zeros(2)
        turn = turn_of(bearing(origin, stop.heading, heading))
        previous = stop.passed[1] if not stop.actions else stop.passed[-2]
        if not stop.actions:
            old_heading = previous.centre - stop.reached.centre
        elif len(stop.passed) == 3:
            old_heading = stop.reached.centre - stop.passed[0].centre
        else:
            old_heading = stop.reached.centre - previous.centre
        by_centres = turn_of(
            bearing(origin, old_heading[:2], (goal.centre - stop.reached.centre)[:2])
        )
        return turn if turn == by_centres else None

    def _walk(self, start: Array, goal: AnnotatedObject) -> Array | None:
        """Return the end of a straight walk towards an object; None if it is not next to the object."""
        offset = goal.centre[:2] - start
        length = float(np.hypot(*offset))
        steps = np.arange(0, length, self.cell / 2)
        points = start + steps[:, None] * offset / max(length, 1e-9)
        cells = np.floor((points - self.centres[0, 0]) / self.cell + 0.5).astype(int)
        cells = np.clip(cells, 0, np.array(self.free.shape) - 1)
        is_free = self.free[tuple(cells.T)]
        stop = len(points) if is_free.all() else int(np.argmin(is_free))
        if stop == 0 or steps[stop - 1] < MIN_LEG_METRES:
            return None
        end: Array = points[stop - 1]
        distances = {
            id(entry): float(footprint_distance(entry.box, end[None])[0])
            for entry in self.destinations
        }
        nearest = min(distances.values())
        return end if distances[id(goal)] <= min(ARRIVAL_METRES, nearest + 1e-6) else None


def _draft(stop: RouteStop, rng: np.random.Generator) -> Draft:
    actions = " ".join(f"{number}. {action}" for number, action in enumerate(stop.actions, 1))
    text = TEXT.format(
        start=stop.passed[0].label,
        facing=stop.passed[1].label,
        goal=stop.reached.label,
        actions=actions,
    )
    answer = ", ".join(stop.turns)
    others = [", ".join(turns) for turns in product(TURNS, repeat=len(stop.turns))]
    others.remove(answer)
    wrong = [others[int(index)] for index in rng.permutation(len(others))[:3]]
    labels = tuple(dict.fromkeys(entry.label for entry in stop.passed))
    return Draft("route_planning", text, answer, (answer, *wrong), labels)
