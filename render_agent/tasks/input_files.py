"""The input files of a run (scans, alignments, annotations, …), and the base class of the components that read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from render_agent.dialogue.question import Question
from render_agent.errors import SceneError
from render_agent.options import RunConfig
from render_agent.scans.formats.axis_alignment import alignment_file
from render_agent.scans.instances import instance_files
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import facts_files
from render_agent.util.file_digests import digests_of, sha256

# keys below `sha256` in config.json
Section = Literal["questions", "annotations", "scans", "verifiers", "models", "policies"]

Digests = Mapping[str, str | None]
"""SHA-256 by path or name; None for a file that does not exist."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """The current state of a file that a run depends on."""

    section: Section
    name: str  # path, or a name for a group of files
    digest: str | None  # SHA-256; None if the file is missing
    may_appear: bool = False
    """True if a run can be resumed even if the file was missing or unrecorded before."""

    def differs(self, digests: Digests) -> bool:
        """Return True if the file differs from its record."""
        recorded = digests.get(self.name)
        return recorded != self.digest and not (self.may_appear and recorded is None)

    def __str__(self) -> str:
        if self.digest is None:
            return f"{self.name} is missing"
        return f"{self.name} has changed since the run started (different SHA-256)"


class Choice:
    """A component that validates itself before a run, lists its input files, and describes itself.

    Subclasses add a method that creates the working object, such as `build` or `open`.
    """

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Check that all requirements are met. Must be fast and must not load models."""

    def check_at_hand(self, config: RunConfig) -> None:
        """Check that models and clusters used by this process are available."""

    def reads_boxes(self, config: RunConfig) -> bool:
        """Return True if the component reads the object boxes of the scenes."""
        return False

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the other files that the component reads, with their current digests."""
        return ()

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the facts that `config.json` records about the component in addition to the options.

        Must be fast and must not load models.
        """
        return {}


def scan_paths(scan: Path) -> list[Path]:
    """Return a scan and its alignment, whether or not they exist."""
    alignment = alignment_file(scan)
    return [scan] if alignment is None else [scan, alignment]


def scan_files(questions: Iterable[Question]) -> list[InputFile]:
    """Return the scans and their alignments. The turn log records the other files that reading a scan opens.

    A missing scan may be added later. An alignment may not, because it would change scenes that were already rendered.
    """
    scans = {question.scan for question in questions if question.scan is not None}
    paths = {path for scan in scans for path in scan_paths(scan)}
    return [
        InputFile("scans", str(path), digest, may_appear=path in scans)
        for path, digest in digests_of(sorted(paths)).items()
    ]


def instance_labels(questions: Iterable[Question]) -> list[InputFile]:
    """Return the instance label files next to the scans."""
    scans = {question.scan for question in questions if question.scan is not None}
    files = sorted(file for scan in scans for file in instance_files(scan))
    return [InputFile("scans", str(file), sha256(file)) for file in files]


def annotation_files(config: RunConfig, questions: Sequence[Question]) -> list[InputFile]:
    """Return the files with object boxes of the questions' scenes."""
    files = facts_files(questions, config)
    return [InputFile("annotations", str(file), sha256(file)) for file in files]


def changed_files(section: Section, digests: Digests) -> list[InputFile]:
    """Return the files of a section that differ from their record; files that were missing are ignored."""
    paths = [Path(name) for name, digest in digests.items() if digest is not None]
    files = [InputFile(section, str(path), digest) for path, digest in digests_of(paths).items()]
    return [file for file in files if file.differs(digests)]


def check_scene(scene: Scene, files: Iterable[Path], digests: Digests) -> None:
    """Raise SceneError if `files`, or others that reading the scene opened, differ from their record, if they have one.

    Call it after reading the scene, so that the SHA-256 is that of the bytes that were read.
    """
    current = digests_of(file for file in files if str(file) in digests)
    for name, digest in [*((str(file), current[file]) for file in current), *scene.files.items()]:
        if digests.get(name, digest) != digest:
            raise SceneError(
                f"{name} has changed since the run started (different SHA-256). Restore it, or start a new run."
            )
