"""Faulty instruments: measurements, scene graphs and reported poses with a controlled error (`--tools`, `--feedback`).

Errors depend only on seed, question and turn.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action, Place
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Reading, Turn
from render_agent.errors import UsageError
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.tasks.box_answers import METRES, length_unit
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_types import base_question_type, true_answer
from render_agent.util.reasons import short_repr
from render_agent.visibility.measurement import Measurement

# A wrong box of a scene graph is moved horizontally by this many metres, or has another category.
WRONG_METRES = 1.0, 2.0

SILENT = "silent"

# fault -> its form in an option
_FORMS = {"noise": "noise=0.1", "bias": "bias=0.2", "stale": "stale", "wrong": "wrong=20%", "drift": "drift:0.05"}  # fmt: skip

_FAULT = re.compile(r"(noise|bias|wrong|drift)=(-?\d+(?:\.\d+)?|-?\.\d+)(%?)")


@dataclass(frozen=True)
class Faults:
    """How an instrument errs."""

    noise: float = 0.0  # standard deviation of the relative error of each reading
    bias: float = 0.0  # relative error of every length
    stale: bool = False  # True if each reading is that of the previous request
    wrong: float = 0.0  # share of the boxes of a scene graph that are moved or relabelled
    drift: float = 0.0  # error of the reported pose per metre moved and per degree turned
    is_silent: bool = False  # True if the prompt omits that readings may be wrong

    @property
    def any(self) -> bool:
        """True if readings can differ from the truth."""
        return replace(self, is_silent=False) != EXACT


EXACT = Faults()


def parse_faults(flag: str, text: str, names: Sequence[str]) -> Faults:
    """Parse the faults in the value of an option, separated by colons; `names` are those that it can have."""
    values: dict[str, Any] = {}
    for part in filter(None, text.split(":")):
        if part == SILENT:
            values["is_silent"] = True
        elif part == "stale" and part in names:
            values[part] = True
        elif (match := _FAULT.fullmatch(part)) and match[1] in names:
            values[match[1]] = float(match[2]) / (100 if match[3] else 1)
        else:
            raise UsageError(
                f"{flag}: there is no fault {short_repr(part)}. Use {' or '.join(map(_FORMS.__getitem__, names))}; add"
                f" {SILENT} to leave the fault out of the prompt. Separate them by colons."
            )
    faults = Faults(**values)
    if min(faults.noise, faults.wrong, faults.drift) < 0 or faults.wrong > 1 or faults.bias <= -1:
        raise UsageError(
            f"{flag}: {short_repr(text)} is out of range. Use 0 to 100% for wrong, above -1 for bias, else 0 or more."
        )
    return faults


def chance_of(seed: int, question: Question, turn: int) -> random.Random:
    """Return the random generator of a question's instruments in a turn. A counterpart shares that of its question."""
    key = f"{seed} {question.seed_id} {turn} instruments".encode("utf-8", "backslashreplace")
    return random.Random(hashlib.sha256(key).digest())


def last_request(turns: Sequence[Turn]) -> tuple[Sequence[Place], Camera] | None:
    """Return the places of the last request for a measurement, and where the camera stood; None if there is none."""
    for turn in reversed(turns):
        if isinstance(turn.action, Action) and turn.action.measure:
            return turn.action.measure, turn.camera_before
    return None


def implied_answers(question: Question, measurement: Measurement) -> tuple[str, ...]:
    """Return the answers to a question that single measured lengths give; empty for questions about other things."""
    lengths, default = {
        "object_abs_distance": (measurement.distances, "meters"),
        "object_size_estimation": (measurement.sizes, "centimeters"),
    }.get(base_question_type(question), ((), "meters"))
    unit, _ = length_unit(question) or (default, False)
    return tuple(f"{metres / METRES[unit]:.4g}" for metres in lengths)


def wrong_facts(facts: Facts, share: float, chance: random.Random) -> Facts:
    """Return facts in which a share of the boxes, rounded to a whole number, is moved or has another category."""
    entries = [(label, box) for label, boxes in sorted(facts.boxes.items()) for box in boxes]
    labels = sorted(facts.boxes)
    counts = Counter(facts.counts)
    boxes: dict[str, list[OrientedBox]] = {label: [] for label in labels}
    chosen = set(chance.sample(range(len(entries)), round(share * len(entries))))
    for number, (label, box) in enumerate(entries):
        others = [other for other in labels if other != label]
        if number in chosen and others and chance.random() < 0.5:
            counts[label] -= 1
            label = chance.choice(others)
            counts[label] += 1
        elif number in chosen:
            box = _moved(box, chance)
        boxes[label].append(box)
    return replace(facts, counts=counts, boxes={k: group for k, group in boxes.items() if group})


def _moved(box: OrientedBox, chance: random.Random) -> OrientedBox:
    metres, angle = chance.uniform(*WRONG_METRES), chance.uniform(0, 2 * math.pi)
    step = np.array([math.cos(angle), math.sin(angle), 0.0])
    return replace(box, centre=box.centre + metres * step)


def graph_reading(question: Question, told: str, true: str, told_facts: Facts) -> Reading:
    """Return the record of a faulty scene graph."""
    answer = true_answer(question, told_facts)
    return Reading("graph", told, true, implied=() if answer is None else (answer,))


def drifted_pose(state: QuestionState, camera: Camera, drift: float, seed: int) -> Camera:
    """Return the reported pose, in which every move so far has added an error to position and heading.

    The error of a move is `drift` times its metres, in a random horizontal direction, and `drift` times its degrees.
    """
    if not drift:
        return camera
    x, y, z = camera.position
    yaw = camera.yaw
    for turn in state.turns:
        chance = chance_of(seed, state.question, turn.number)
        metres = drift * math.dist(turn.camera_before.position, turn.camera.position)
        degrees = drift * wrap_degrees(turn.camera.yaw - turn.camera_before.yaw)
        angle = chance.uniform(0, 2 * math.pi)
        x, y = x + metres * math.cos(angle), y + metres * math.sin(angle)
        yaw += chance.choice((-1, 1)) * degrees
    return replace(camera, position=(x, y, z), yaw=wrap_degrees(yaw))


def pose_reading(told: Camera, true: Camera) -> Reading | None:
    """Return the record of a reported pose; None if it is the true one."""
    if told == true:
        return None
    metres = math.dist(told.position, true.position)
    return Reading("pose", _pose_text(told), _pose_text(true), metres=round(metres, 4))


def _pose_text(camera: Camera) -> str:
    x, y, z = camera.position
    return f"[{x:.2f}, {y:.2f}, {z:.2f}], yaw {camera.yaw:.0f}"
