"""The input files of a run (scans, alignments, annotations) and their SHA-256."""

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

# Key below `sha256` in config.json.
Section = Literal["questions", "annotations", "scans", "verifiers"]


@dataclass(frozen=True, slots=True)
class InputFile:
    """The current state of a file that a run depends on.

    Attributes:
        section: Where `config.json` records it.
        name: Path, or a name for a group of files.
        kind: Noun for error messages, such as "scan".
        digest: SHA-256; None if the file is missing.
        may_appear: True if a run can be resumed although the file was missing or not recorded before.
    """

    section: Section
    name: str
    kind: str
    digest: str | None
    may_appear: bool = False

    def differs(self, recorded: Mapping[str, str | None]) -> bool:
        """True if the file differs from that at the start of the run.

        Args:
            recorded: Digests at the start of the run, by name.
        """
        previous = recorded.get(self.name)
        if self.may_appear and previous is None:
            return False
        return previous != self.digest


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file.

    Raises:
        SetupError: The file cannot be read.
    """
    with os_errors(SetupError, f"read {path}"), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def scan_files(questions: Iterable[Question]) -> list[InputFile]:
    """Return the files that scenes are read from: scans and their alignments.

    A missing scan may be added later. An alignment may not: it would rotate scenes that were already rendered.
    """
    scans = {question.scan for question in questions if question.scan is not None}
    alignments = {file for scan in scans if (file := alignment_file(scan)) is not None}
    return [
        InputFile(
            "scans",
            str(file),
            "scan" if file in scans else "alignment",
            sha256(file) if file.is_file() else None,
            may_appear=file in scans,
        )
        for file in sorted(scans | alignments)
    ]


def instance_labels(questions: Iterable[Question]) -> list[InputFile]:
    """Return the instance label files next to the scans."""
    scans = {question.scan for question in questions if question.scan is not None}
    files = sorted(file for scan in scans for file in instance_files(scan))
    return [InputFile("scans", str(file), "label file", sha256(file)) for file in files]


def annotation_files(config: RunConfig, questions: Sequence[Question]) -> list[InputFile]:
    """Return the files with object boxes of the questions' scenes."""
    return [
        InputFile("annotations", str(file), "annotation file", sha256(file))
        for file in facts_files(questions, config.annotations)
    ]
