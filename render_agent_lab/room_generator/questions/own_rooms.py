"""Questions about rooms of the user's own, from the boxes of their objects."""

from __future__ import annotations

import pkgutil
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.errors import QuestionsError
from render_agent.options import RunConfig
from render_agent.scans.boxes import OrientedBox
from render_agent.scans.room_ground_truth import (
    AnnotatedObject,
    RoomGroundTruth,
    ground_truth_file,
    read_ground_truth,
)
from render_agent.tasks.own_boxes import own_box_file, own_boxes
from render_agent.tasks.question_type import QuestionType
from render_agent_lab.room_generator.questions.balanced import Balancer


def truth_of(scan: Path, config: RunConfig) -> RoomGroundTruth:
    """Return the ground truth of a scan: that of `make-rooms`, or the boxes next to it. Raises QuestionsError."""
    if (file := ground_truth_file(scan)) is not None:
        return read_ground_truth(file)
    boxes_file = own_box_file(scan, config)
    if boxes_file is None:
        raise QuestionsError(
            f"{scan} has no object boxes. Write {scan.stem}.boxes.json next to it, or draw them with render-agent boxes."
        )
    objects = [
        _object(label, box)
        for label, boxes in own_boxes(boxes_file, scan, config).items()
        for box in boxes
    ]
    return RoomGroundTruth(scan.stem, "scan", 0.0, 0.0, [], [], objects)


def _object(label: str, box: OrientedBox) -> AnnotatedObject:
    return AnnotatedObject(label, box.centre, box.size, box.axes, label, 0)


def questions_about(
    truths: Sequence[RoomGroundTruth],
    types: Sequence[QuestionType],
    seed: int,
    per_type: int,  # maximum number of questions per room and type
) -> tuple[list[dict[str, Any]], Mapping[str, Counter[str]]]:
    """Return questions in VSI-Bench's row format, and by room the number of drafts of each type.

    Each room and type has a random stream and balanced answers of its own, so that its questions do not depend on the other
    types.
    """
    balancer, rows = Balancer(), []
    drafted: dict[str, Counter[str]] = {}
    for number, truth in enumerate(truths):
        drafted[truth.scene] = Counter()
        for kind in types:
            rng = np.random.default_rng((seed, number, zlib.crc32(kind.name.encode())))
            drafts = pkgutil.resolve_name(str(kind.generator))(truth, rng)
            drafted[truth.scene][kind.name] = len(drafts)
            for place, draft in enumerate(balancer.choose({kind.name: drafts}, per_type, rng)):
                row = balancer.row_of(truth.scene, draft, rng)
                name = f"{truth.scene}-{kind.name}-{place}"
                rows.append({"id": name, **row, "dataset": "own"})
    return rows, drafted
