"""Answers from the truth: what a benchmark's questions come to where the boxes of a scene are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from render_agent.annotations import BoxedObject, is_annotations, read_annotations
from render_agent.answer import letters
from render_agent.rooms.boxes import OrientedBox, distance
from render_agent.rooms.directions import bearing
from render_agent.rooms.truth import TrueObject, read_truth
from render_agent.state import Question

BACK = 135
"""Degrees from which on the medium direction questions call an object behind; the others end at 90."""

PATTERNS = {
    "object_counting": r"How many (.+)\(s\) are in",
    "object_size_estimation": r"dimension \(length, width, or height\) of the (.+), measured",
    "object_abs_distance": r"the distance between the (.+) and the (.+) \(in",
    "object_rel_distance": r"of these objects \(.+\) is the closest to the (.+)\?",
    "object_rel_direction": r"standing by the (.+) and facing the (.+), is the (.+) to (?:my|the left)",
}
"""How VSI-Bench names the objects that its questions are about."""


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a scene.

    counts: objects by category. room_size: square metres. boxes: those of every category.
    """

    counts: Mapping[str, int]
    room_size: float
    boxes: Mapping[str, Sequence[OrientedBox]]


def known_facts(questions: Iterable[Question], annotations: str | None = None) -> dict[str, Facts]:
    """Return what is known of the scenes of some questions, by scene; others are left out.

    It is read from the official annotations (`annotations`, or those that a scene is built from),
    or from the truth that `make-rooms` writes beside a scan. Errors: QuestionsError where a file is
    in neither format.
    """
    scans = {question.scene: question.scan for question in questions}
    files = {scan for scan in scans.values() if scan is not None and is_annotations(scan)}
    official = [*sorted(files), *([] if annotations is None else [Path(annotations)])]
    found = {
        scene: Facts(annotation.counts, annotation.room_size, _by_label(annotation.objects))
        for file in official
        for scene, annotation in read_annotations(file).items()
        if scene in scans
    }
    for scene, scan in scans.items():
        if scene not in found and scan is not None and scan.with_suffix(".json").is_file():
            truth = read_truth(scan.with_suffix(".json"))
            found[scene] = Facts(truth.counts, truth.area, _by_label(truth.objects))
    return found


def true_answer(question: Question, facts: Facts) -> str | None:
    """Return the answer that the boxes of the scene give, None where they do not tell.

    Sizes are the longest axis of a box, distances those between the closest points of two boxes,
    directions those between their centres. The way a route takes and the order of a video are in
    no box.
    """
    kind = question.type
    if kind == "room_size_estimation":
        return f"{facts.room_size:.1f}"
    names = _named(question)
    if kind == "object_counting":
        return str(facts.counts.get(names[0], 0)) if names[0] else None
    boxes = [facts.boxes.get(name, ()) for name in names]
    if not boxes or not all(boxes):
        return None
    if kind == "object_size_estimation":
        return str(round(100 * max(float(box.size.max()) for box in boxes[0])))
    if kind == "object_abs_distance":
        return f"{_apart(*boxes):.1f}"
    if kind == "object_rel_distance":
        return _closest(question, facts, boxes[0])
    return _direction(question, [some[0] for some in boxes])


def _named(question: Question) -> list[str]:
    """Return the categories that the question is about; an empty name where it is worded otherwise."""
    kind = question.type.removesuffix("_easy").removesuffix("_medium").removesuffix("_hard")
    found = re.search(PATTERNS.get(kind, "$^"), question.text)
    return list(found.groups()) if found else [""]


def _closest(question: Question, facts: Facts, target: Sequence[OrientedBox]) -> str | None:
    """Return the letter of the nearest of the options that have boxes."""
    apart = {
        letter: _apart(boxes, target)
        for letter, name in letters(question.options).items()
        if (boxes := facts.boxes.get(name))
    }
    return min(apart, key=lambda letter: apart[letter]) if apart else None


def _direction(question: Question, boxes: Sequence[OrientedBox]) -> str | None:
    angle = bearing(*(box.centre for box in boxes))
    side = "left" if angle > 0 else "right"
    if question.type.endswith("_hard"):
        side = f"{'front' if abs(angle) < 90 else 'back'}-{side}"
    elif question.type.endswith("_medium") and abs(angle) >= BACK:
        side = "back"
    options = letters(question.options)
    return next((letter for letter, text in options.items() if text == side), None)


def _apart(some: Sequence[OrientedBox], others: Sequence[OrientedBox]) -> float:
    return min(distance(one, other) for one in some for other in others)


def _by_label(objects: Iterable[TrueObject | BoxedObject]) -> dict[str, list[OrientedBox]]:
    boxes: dict[str, list[OrientedBox]] = {}
    for thing in objects:
        boxes.setdefault(thing.label, []).append(OrientedBox(thing.centre, thing.size, thing.axes))
    return boxes
