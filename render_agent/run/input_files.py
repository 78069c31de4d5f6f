"""The files that a run reads, by their SHA-256: recorded at its start, compared when it goes on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from render_agent import registry as plugins
from render_agent.config import OPTIONS, RunConfig
from render_agent.dialogue.reply import KINDS
from render_agent.dialogue.state import Question
from render_agent.engines.transformers.model.locate import describe_model
from render_agent.errors import SetupError
from render_agent.models import bundled_model
from render_agent.questions.ground_truth import facts_files
from render_agent.questions.plugins import OWN, is_brought
from render_agent.questions.sufficiency import boxes_hold
from render_agent.run.log.folder import RunFolder
from render_agent.scene.formats.axis_alignment import alignment_file

KNOWING = ("oracle", "witness", "seeker", "expert", "stumbler")
"""The scripted models that answer from what is known of the scenes."""

MODEL_FILES = ("weights", "processor")
"""The fingerprints that a run records of a model that lies on disk."""

UNREAD = (".md", ".csv")
"""Endings of files beside a learned verifier that people read, and no run does."""


def packages(config: RunConfig) -> dict[str, str]:
    """Return the package, with its version, of every part of a run that is none of the program's own.

    By what it is, such as "engine mine". SetupError where one is not installed or cannot be imported.
    """
    own: dict[plugins.Kind, tuple[Sequence[str], Sequence[str]]] = {
        "engine": ([config.engine], OPTIONS["engine"].metadata["choices"]),
        "renderer": ([config.renderer], OPTIONS["renderer"].metadata["choices"]),
        "kind of view": (config.kinds, KINDS),
        "benchmark": ([config.benchmark] if is_brought(config) else [], OWN),
    }
    found = {}
    for kind, (asked, known) in own.items():
        for name in (name for name in asked if name not in known):
            plugins.load(kind, name, known)
            found[f"{kind} {name}"] = plugins.package(kind, name, known)
    return found


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file. SetupError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror}") from error


def scan_hashes(questions: Iterable[Question]) -> dict[str, str | None]:
    """Return the SHA-256 of every file that a scene is read from, None where it is not there."""
    scans = {question.scan for question in questions if question.scan is not None}
    alignments = {alignment_file(scan) for scan in scans}
    files = sorted(scans | {file for file in alignments if file is not None})
    return {str(file): sha256(file) if file.is_file() else None for file in files}


def facts_hashes(config: RunConfig, questions: Sequence[Question]) -> dict[str, str]:
    """Return the SHA-256 of every file that tells the boxes of the questions' scenes."""
    return {str(file): sha256(file) for file in facts_files(questions, config.annotations)}


def chooses_by_boxes(config: RunConfig) -> bool:
    """Whether moves are chosen by boxes, where they are known."""
    return boxes_hold(config) and any(plan.label == "geometry" for plan in config.verifiers)


def verifier_hashes(config: RunConfig) -> dict[str, str]:
    """Return the SHA-256 of every file that a learned verifier or the judge's own rubric is read from.

    A judge by a bundled model is one entry, under its own name. SetupError where one cannot be read.
    """
    folders = [Path(plan.argument or "") for plan in config.verifiers if plan.name == "learned"]
    files = [file for folder in folders if folder.is_dir() for file in sorted(folder.iterdir())]
    judged = any(plan.name == "judge" for plan in config.verifiers)
    rubric = Path(config.rubric)
    files += [rubric] if judged and rubric.is_absolute() else []
    hashes = {str(file): sha256(file) for file in files if file.suffix not in UNREAD}
    asked = {plan.label: plan.argument or "" for plan in config.verifiers if plan.name == "judge"}
    bundled = {label: model for label, model in asked.items() if bundled_model(model)}
    for label, model in bundled.items():
        described = describe_model(model)
        hashes[label] = " ".join(described[name] for name in MODEL_FILES)
    return hashes


def check_verifier_files(folder: RunFolder, config: RunConfig) -> None:
    """SetupError where a verifier's files are not those that a run began with."""
    known = folder.record["sha256"].get("verifiers", {})
    found = verifier_hashes(config)
    for file in sorted(known.keys() | found.keys()):
        if found.get(file) != known.get(file):
            kind = "verifier" if file.startswith("judge:") else "file of a verifier"
            raise SetupError(_differs(file, kind, folder))


def check_model(folder: RunFolder, config: RunConfig) -> None:
    """SetupError where the files of a model that lies on disk are not those that a run began with."""
    engine = folder.record["engine"]
    known = {name: engine[name] for name in MODEL_FILES if engine.get(name) is not None}
    if known and known != {name: describe_model(config.model_name)[name] for name in known}:
        raise SetupError(_differs(config.model_name, "model", folder))


def check_scans(folder: RunFolder, questions: Sequence[Question]) -> None:
    """SetupError where a scan or alignment is not the one that a run began with."""
    known = folder.record["sha256"]["scans"]
    scans = {str(question.scan) for question in questions}
    for file, digest in scan_hashes(questions).items():
        # A scan that was not there may be put there; an alignment would turn what was drawn before.
        was_there = known.get(file) is not None or file not in scans
        if file in known and was_there and digest != known[file]:
            kind = "scan" if file in scans else "alignment"
            raise SetupError(_differs(file, kind, folder))


def check_facts(folder: RunFolder, config: RunConfig, questions: Sequence[Question]) -> None:
    """SetupError where views, answers or moves rest on boxes that are not those that a run began with."""
    known = folder.record["sha256"].get("annotations")
    knowing = config.engine == "scripted" and config.model in KNOWING
    if known is None or not (knowing or config.views == "oracle" or chooses_by_boxes(config)):
        return
    for file, digest in facts_hashes(config, questions).items():
        if digest != known.get(file):
            raise SetupError(_differs(file, "file of boxes", folder))


def _differs(file: str, kind: str, folder: RunFolder) -> str:
    return (
        f"{file} is not the {kind} that {folder.name} began with (its SHA-256 differs): restore it, or"
        " start a new run"
    )
