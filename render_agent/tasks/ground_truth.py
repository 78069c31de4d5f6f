"""What is known of scenes: the boxes, counts and sizes in annotations or in the truth beside a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.edits import Edit, edited_boxes
from render_agent.scans.room_truth import TrueObject, read_truth
from render_agent.scans.stand_in.annotations import (
    BoxedObject,
    annotation_files,
    is_annotations,
    read_annotations,
)


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of a scene.

    counts: objects by category. room_size: square metres. boxes: those of every category.
    """

    counts: Mapping[str, int]
    room_size: float
    boxes: Mapping[str, Sequence[OrientedBox]]


def known_facts(questions: Iterable[Question], annotations: str | None = None) -> dict[str, Facts]:
    """Return the known boxes and measures of the scenes of some questions, by scene; unknown scenes are left out.

    Of a changed room it is what is true once it was changed.

    It is read from the official annotations (`annotations`, or those that a scene is built from),
    or from the truth that `make-rooms` writes beside a scan. Errors: QuestionsError where a file is
    in neither format.
    """
    questions = list(questions)
    scans = {question.unchanged.scene: question.scan for question in questions}
    official = _official(scans.values(), annotations)
    facts = {
        scene: known
        for file in official
        for scene, known in annotated_facts(file).items()
        if scene in scans
    }
    for scene, scan in scans.items():
        if scene not in facts and scan is not None and scan.with_suffix(".json").is_file():
            truth = read_truth(scan.with_suffix(".json"))
            facts[scene] = Facts(truth.counts, truth.area, _by_label(truth.objects))
    for question in questions:
        if (change := question.change) is not None and change.scene in facts:
            facts.setdefault(question.scene, edited_facts(facts[change.scene], change.edits))
    return facts


def annotated_facts(path: Path) -> dict[str, Facts]:
    """Return what official annotations, a file or a folder of them, tell of every scene. QuestionsError as there."""
    return {
        scene: Facts(annotation.counts, annotation.room_size, _by_label(annotation.objects))
        for scene, annotation in read_annotations(path).items()
    }


def edited_facts(facts: Facts, edits: Sequence[Edit]) -> Facts:
    """Return the facts of a scene after edits."""
    counts, area = Counter(facts.counts), facts.room_size
    for edit in edits:
        if edit.moves_all:
            area *= edit.factor**2
        elif edit.label is not None and edit.verb in ("remove", "copy"):
            counts[edit.label] += 1 if edit.verb == "copy" else -1
    return Facts(counts, area, edited_boxes(facts.boxes, edits))


def facts_files(questions: Iterable[Question], annotations: str | None = None) -> list[Path]:
    """Return the files that `known_facts` may read, each once. QuestionsError as there."""
    scans = {question.scan for question in questions}
    files = [file for path in _official(scans, annotations) for file in annotation_files(path)]
    beside = sorted(scan.with_suffix(".json") for scan in scans if scan is not None)
    return list(dict.fromkeys([*files, *(file for file in beside if file.is_file())]))


def _official(scans: Iterable[Path | None], annotations: str | None) -> list[Path]:
    """Return the official annotations: files that scenes are built from, and what was given."""
    files = {scan for scan in scans if scan is not None and is_annotations(scan)}
    return [*sorted(files), *([] if annotations is None else [Path(annotations)])]


class Frame(Protocol):
    """How the coordinates of a file were moved and mirrored, as a `Scene` tells it, or a `Probe` of one."""

    @property
    def origin(self) -> tuple[float, float, float]:
        """Metres taken off the file's coordinates."""
        ...

    @property
    def mirrored_at(self) -> float | None:
        """The plane x that it is mirrored at, None where it is not."""
        ...


def placed(facts: Facts, scene: Frame) -> Facts:
    """Return the facts of a scene with their boxes in the frame of the loaded scene.

    Coordinates of a file may have been moved, and the scene may be mirrored: then its boxes are too,
    and what follows from them (left and right) holds for the mirrored room.
    """
    boxes = {
        label: [_placed(box, scene.origin, scene.mirrored_at) for box in some]
        for label, some in facts.boxes.items()
    }
    return replace(facts, boxes=boxes)


def _placed(
    box: OrientedBox, origin: tuple[float, float, float], mirrored_at: float | None
) -> OrientedBox:
    centre, axes = box.centre - np.array(origin), box.axes
    if mirrored_at is not None:
        centre = centre * (-1, 1, 1) + (2 * mirrored_at, 0, 0)
        axes = axes * (-1, 1, 1)
        axes = axes * np.array(
            [[1], [1], [-1]]
        )  # a box is its own mirror image; axes stay right-handed
    return OrientedBox(centre, box.size, axes)


def _by_label(objects: Iterable[TrueObject | BoxedObject]) -> dict[str, list[OrientedBox]]:
    boxes: dict[str, list[OrientedBox]] = {}
    for thing in objects:
        boxes.setdefault(thing.label, []).append(OrientedBox(thing.centre, thing.size, thing.axes))
    return boxes
