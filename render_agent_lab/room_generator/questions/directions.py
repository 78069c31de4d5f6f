"""Questions about relative directions, with VSI-Bench's text: easy, medium and hard.

The observer stands at the centre of one object and faces the centre of another. Angles are horizontal, in degrees
counter-clockwise from that direction, so positive angles are to the left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations

import numpy as np

from render_agent.tasks.box_answers import BACK_DEGREES, bearing, quadrant, side
from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth
from render_agent_lab.room_generator.questions.draft import Draft, is_overhead, only_labels

MARGIN_DEGREES = 15.0  # minimum degrees between the answer and the border to another answer
MIN_GAP_METRES = 0.3  # minimum metres between the closest points of any two of the three objects
MIN_CENTRE_METRES = (
    0.8  # minimum metres between the centres of any two of the three objects on the floor plan
)
MAX_SIDE_DEGREES = 120.0  # degrees beyond which a direction is not asked for as left or right

LEADS = "If I am standing by the {0} and facing the {1}, is the {2} to "
EASY = LEADS + "the left or the right of the {1}?"
MEDIUM = (
    LEADS + "my left, right, or back?\n"
    "An object is to my back if I would have to turn at least 135 degrees in order to face it."
)
HARD = (
    LEADS + "my front-left, front-right, back-left, or back-right?\n"
    "The directions refer to the quadrants of a Cartesian plane (if I am standing at the origin and"
    " facing along the positive y-axis)."
)

# The options of the three difficulties.
SIDES = "left", "right"
SIDES_AND_BACK = *SIDES, "back"
QUADRANTS = "front-left", "front-right", "back-left", "back-right"


def easy_directions(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return every question about left or right with an unambiguous answer."""
    return _drafts(truth, "easy", EASY, _clear_side, SIDES)


def medium_directions(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return every question about left, right or back with an unambiguous answer."""
    return _drafts(truth, "medium", MEDIUM, _clear_side_or_back, SIDES_AND_BACK)


def hard_directions(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return every question about the quadrant with an unambiguous answer."""
    return _drafts(truth, "hard", HARD, _clear_quadrant, QUADRANTS)


def _drafts(
    truth: RoomGroundTruth,
    kind: str,
    text: str,
    clear_answer: Callable[[float], str | None],  # angle in degrees -> answer; None if ambiguous
    options: tuple[str, ...],
) -> list[Draft]:
    return [
        Draft(f"object_rel_direction_{kind}", text.format(*names), answer, options, names)
        for names, angle in _triples(truth)
        if (answer := clear_answer(angle)) is not None
    ]


def _clear_side(angle: float) -> str | None:
    """Return left or right; None if ambiguous."""
    return side(angle) if MARGIN_DEGREES <= abs(angle) <= MAX_SIDE_DEGREES else None


def _clear_side_or_back(angle: float) -> str | None:
    """Return left, right or back; None if ambiguous."""
    return "back" if abs(angle) >= BACK_DEGREES + MARGIN_DEGREES else _clear_side(angle)


def _clear_quadrant(angle: float) -> str | None:
    """Return the quadrant; None near a border."""
    is_near_border = min(abs(abs(angle) - border) for border in (0, 90, 180)) < MARGIN_DEGREES
    return None if is_near_border else quadrant(angle)


def _triples(truth: RoomGroundTruth) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Yield three names and the bearing of the third, for objects that are far enough apart."""
    names = only_labels(truth)
    objects = {name: truth.only(name) for name in names}
    distant_pairs = {
        (start, end)
        for start, end in permutations(names, 2)
        if float(np.hypot(*(objects[start].centre - objects[end].centre)[:2])) >= MIN_CENTRE_METRES
        and truth.apart(objects[start], objects[end]) >= MIN_GAP_METRES
    }
    overhead = {name for name in names if is_overhead(truth, name)}
    for standing, facing, target in permutations(names, 3):
        if (
            standing not in overhead
            and {(standing, facing), (standing, target), (facing, target)} <= distant_pairs
        ):
            yield (
                (standing, facing, target),
                bearing(objects[standing].centre, objects[facing].centre, objects[target].centre),
            )
