"""The scans, alignments and boxes of questions as files that a run reads, by their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from render_agent.dialogue.question import Question
from render_agent.errors import SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.scans.formats.axis_alignment import alignment_file
from render_agent.scans.instances import instance_files
from render_agent.tasks.ground_truth import facts_files

Section = Literal["questions", "annotations", "scans", "verifiers"]
"""The key of `sha256` in `config.json` under which a file is recorded."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a run depends on, as it is now.

    Attributes:
        section: Where `config.json` records it.
        name: Its path, or a name for several files.
        kind: What it is, in words.
        digest: Its SHA-256; None if it is missing.
        may_appear: Whether a run may go on if it was missing, or not recorded, before.
    """

    section: Section
    name: str
    kind: str
    digest: str | None
    may_appear: bool = False

    def differs(self, recorded: Mapping[str, str | None]) -> bool:
        """Return True if it is not the file that a run began with; recorded: digests by name."""
        known = recorded.get(self.name)
        if self.may_appear and known is None:
            return False
        return known != self.digest


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. SetupError if it cannot be read."""
    with os_errors(SetupError, f"read {path}"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
