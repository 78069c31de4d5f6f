"""Ground truth of scenes: object boxes, counts and room sizes, from annotations or the file next to a scan."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError, UsageError
from render_agent.options import RunConfig
from render_agent.scans.box_files.reader import box_file_parts
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.edits import Edit, edit_boxes
from render_agent.tasks.boxes.annotations import (
    BoxedObject,
    find_annotation_files,
    is_annotation_file,
    read_annotations,
)
from render_agent.tasks.boxes.own_boxes import SUFFIX, own_box_file, own_boxes
from render_agent.tasks.boxes.room_ground_truth import (
    AnnotatedObject,
    ground_truth_file,
    polygon_area,
    read_ground_truth,
)

UNKNOWN_AREA = 0.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Facts:
    counts: Mapping[str, int]
    room_size: float  # floor area in square metres; UNKNOWN_AREA if it is not given
    boxes: Mapping[str, Sequence[OrientedBox]]  # category -> boxes in the frame of the scene's file


def load_facts(
    questions: Iterable[Question],
    config: RunConfig | None = None,  # names annotations and boxes, and the frame of the scans
    skip: Collection[Path] | None = None,
) -> dict[str, Facts]:
    """Return the ground truth of the questions' scenes, by scene. That of edited rooms includes the edits.

    Sources are the file of `--boxes`, the official annotations, including those from which a scene is built, and the
    files next to a scan: boxes of a user, and what `make-rooms` writes. The first that has the scene counts.
    """
    questions = list(questions)
    scans = {question.unchanged.scene: question.scan for question in questions}
    paths = _annotation_paths(scans.values(), config)
    is_optional = skip is not None
    if is_optional:
        paths = [path for path in paths if path.exists()]
    skip = skip or ()
    facts: dict[str, Facts] = {}
    has_own_file = config is not None and config.boxes is not None
    if has_own_file:
        _refuse_several(scans.values())
        facts |= _own_facts(scans, config, skip, is_optional=is_optional)
    for path in paths:
        with _tolerate_damage(is_optional):
            for file in find_annotation_files(path):
                if file not in skip:
                    with _tolerate_damage(is_optional):
                        file_facts = annotated_facts(file)
                        facts = {
                            scene: file_facts[scene] for scene in file_facts.keys() & scans.keys()
                        } | facts
    if not has_own_file:
        facts = _own_facts(scans, config, skip, is_optional=is_optional) | facts
    for scene, scan in scans.items():
        truth_file = None if scan is None else ground_truth_file(scan)
        if scene not in facts and truth_file is not None and truth_file not in skip:
            with _tolerate_damage(is_optional):
                truth = read_ground_truth(truth_file)
                facts[scene] = Facts(truth.counts, truth.area, _by_label(truth.objects))
    for question in questions:
        if (change := question.change) is not None and change.scene in facts:
            facts.setdefault(question.scene, edited_facts(facts[change.scene], change.edits))
    return facts


@contextmanager
def _tolerate_damage(is_tolerated: bool) -> Iterator[None]:
    """Log a QuestionsError as a warning instead of raising it, if `is_tolerated`."""
    try:
        yield
    except QuestionsError as error:
        if not is_tolerated:
            raise
        logger.warning("%s; object boxes of its scenes are ignored", error)


def annotated_facts(path: Path) -> dict[str, Facts]:
    """Read the official annotations in a file or folder, by scene."""
    return {
        scene: Facts(annotation.counts, annotation.room_size, _by_label(annotation.objects))
        for scene, annotation in read_annotations(path).items()
    }


def edited_facts(facts: Facts, edits: Sequence[Edit]) -> Facts:
    """Return the ground truth of a scene after edits."""
    counts = Counter(facts.counts)
    for edit in edits:
        if edit.label is not None and edit.verb in ("remove", "copy"):
            counts[edit.label] += 1 if edit.verb == "copy" else -1
    return Facts(counts, facts.room_size, edit_boxes(facts.boxes, edits))


def facts_files(questions: Iterable[Question], config: RunConfig | None = None) -> list[Path]:
    """Return the distinct files that `load_facts` may read."""
    scans = {question.scan for question in questions}
    paths = _annotation_paths(scans, config)
    files = [file for path in paths for file in find_annotation_files(path)]
    next_to_scans = (ground_truth_file(scan) for scan in scans if scan is not None)
    own_files = (own_box_file(scan, config) for scan in scans if scan is not None)
    parts = {part for file in filter(None, own_files) for part in box_file_parts(file)}
    return list(dict.fromkeys([*files, *sorted(filter(None, next_to_scans)), *sorted(parts)]))


def check_own_boxes(questions: Iterable[Question], config: RunConfig) -> None:
    """Raise SetupError if boxes of a user cannot be read, or do not fit their scan."""
    scans = dict.fromkeys(question.scan for question in questions)
    if config.boxes is not None:
        _refuse_several(scans)
    for scan in scans:
        if scan is not None and (file := own_box_file(scan, config)) is not None:
            own_boxes(file, scan, config).warn_of_unused(file)


def _own_facts(
    scans: Mapping[str, Path | None],
    config: RunConfig | None,
    skip: Collection[Path],
    *,
    is_optional: bool,
) -> dict[str, Facts]:
    """Return the facts of scenes whose scan has boxes of the user's."""
    facts = {}
    for scene, scan in scans.items():
        file = None if scan is None else own_box_file(scan, config)
        if scan is None or file is None or file in skip:
            continue
        with _tolerate_damage(is_optional):
            if boxes := (own := own_boxes(file, scan, config)).by_label:
                counts = {label: len(group) for label, group in boxes.items()}
                facts[scene] = Facts(
                    counts, sum(map(polygon_area, own.floors), UNKNOWN_AREA), boxes
                )
    return facts


def _refuse_several(scans: Iterable[Path | None]) -> None:
    if len(names := sorted({str(scan) for scan in scans if scan is not None})) > 1:
        raise UsageError(
            f"--boxes names the boxes of one scan, but the questions are about {len(names)}, such as {names[0]} and"
            f" {names[1]}. Put NAME{SUFFIX} next to each scan."
        )


def _annotation_paths(scans: Iterable[Path | None], config: RunConfig | None) -> list[Path]:
    """Return the official annotations: files that scenes are built from, and the path of `--annotations`."""
    annotations = None if config is None else config.annotations
    files = {scan for scan in scans if scan is not None and is_annotation_file(scan)}
    return [*sorted(files), *([] if annotations is None else [Path(annotations)])]


class SceneFrame(Protocol):
    """The relation between a scene's coordinates and those of its file, as in `Scene`."""

    @property
    def origin(self) -> tuple[float, float, float]:
        """Metres subtracted from the file's coordinates."""
        ...

    @property
    def mirrored_at(self) -> float | None:
        """The x coordinate of the mirror plane in metres; None if the scene is not mirrored."""
        ...


def place_facts(
    facts: Facts,  # ground truth in the frame of the file
    scene: SceneFrame,
) -> Facts:
    """Transform boxes from the frame of the file to that of the loaded scene, which may be shifted and mirrored."""
    boxes = {
        label: [_transform_box(box, scene.origin, scene.mirrored_at) for box in group]
        for label, group in facts.boxes.items()
    }
    return replace(facts, boxes=boxes)


def _transform_box(
    box: OrientedBox, origin: tuple[float, float, float], mirrored_at: float | None
) -> OrientedBox:
    centre, axes = box.centre - np.array(origin), box.axes
    if mirrored_at is not None:
        centre = centre * (-1, 1, 1) + (2 * mirrored_at, 0, 0)
        # Flip the third axis too: the box is symmetric, and the axes stay right-handed.
        axes = axes * (-1, 1, 1) * np.array([[1], [1], [-1]])
    return OrientedBox(centre, box.size, axes)


def _by_label(objects: Iterable[AnnotatedObject | BoxedObject]) -> dict[str, list[OrientedBox]]:
    boxes: dict[str, list[OrientedBox]] = {}
    for entry in objects:
        boxes.setdefault(entry.label, []).append(OrientedBox(entry.centre, entry.size, entry.axes))
    return boxes
