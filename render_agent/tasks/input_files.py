"""The scans, alignments and boxes of questions as files that a run reads, by their SHA-256."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from render_agent.config import RunConfig
from render_agent.config.choice import InputFile, sha256
from render_agent.dialogue.question import Question
from render_agent.scans.formats.axis_alignment import alignment_file
from render_agent.scans.instances import instance_files
from render_agent.tasks.ground_truth import facts_files


def scan_files(questions: Iterable[Question]) -> list[InputFile]:
    """Return every file that a scene is read from.

    A scan that was not there may be put there; an alignment would turn what was drawn before.
    """
    scans = {question.scan for question in questions if question.scan is not None}
    turns = {file for scan in scans if (file := alignment_file(scan)) is not None}
    return [
        InputFile(
            "scans",
            str(file),
            "scan" if file in scans else "alignment",
            sha256(file) if file.is_file() else None,
            may_appear=file in scans,
        )
        for file in sorted(scans | turns)
    ]


def instance_labels(questions: Iterable[Question]) -> list[InputFile]:
    """Return every file of instance labels beside a scan."""
    scans = {question.scan for question in questions if question.scan is not None}
    files = sorted(file for scan in scans for file in instance_files(scan))
    return [InputFile("scans", str(file), "file of labels", sha256(file)) for file in files]


def annotation_files(config: RunConfig, questions: Sequence[Question]) -> list[InputFile]:
    """Return every file that tells the boxes of the questions' scenes."""
    return [
        InputFile("annotations", str(file), "file of boxes", sha256(file))
        for file in facts_files(questions, config.annotations)
    ]
