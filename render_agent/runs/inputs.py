"""Compares the inputs of runs by SHA-256: finds those that have changed since a run started, and those that differ
between runs.

Different inputs are an error when results are combined, and a caveat when something is derived from them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.make_engine import model_digest
from render_agent.options import RunConfig
from render_agent.score.comparison import QuestionInputs
from render_agent.tasks.input_files import Digests, digests_of, files_of_scan
from render_agent.tasks.selection import undivided_questions
from render_agent.util.display import first_names

QUESTIONS = "questions.jsonl"  # key of the SHA-256 of the questions in the run folder

# Section of `sha256` in `config.json` -> noun for an input of the section.
INPUT_NOUNS = {
    "questions": "question file",
    "annotations": "annotation file",
    "scans": "scan",
    "verifiers": "verifier",
    "models": "model",
    "policies": "policy",
    "packages": "package",
    "prompt": "prompt",
}


@dataclass(frozen=True, slots=True)
class ChangedInput:
    """An input file that has changed since the run started."""

    section: str  # its key under `sha256` in `config.json`
    name: str
    is_missing: bool = False  # True if the file no longer exists

    def __str__(self) -> str:
        if self.is_missing:
            return f"{self.name} is missing"
        return f"{self.name} has changed since the run started (different SHA-256)"


def recorded_inputs(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SHA-256 of the inputs of a run by section and name, from its `config.json`."""
    digests: dict[str, Any] = dict(record["sha256"])
    engine = record["engine"]
    if "models" not in digests and (digest := model_digest(engine)) is not None:
        digests["models"] = {str(engine["model"]): digest}
    return digests


def changed_inputs(section: str, digests: Digests, names: Iterable[str]) -> list[ChangedInput]:
    """Return the named files of a section that differ from their recorded SHA-256."""
    paths = [Path(name) for name in names if digests.get(name) is not None]
    return [
        ChangedInput(section, str(path), digest is None)
        for path, digest in digests_of(paths).items()
        if digest != digests[str(path)]
    ]


def scene_notes(changes: Sequence[ChangedInput]) -> list[str]:
    """Return the caveats about scene-based results for scene files that have changed."""
    notes = []
    for section, results in (
        ("scans", "plans, 3D views and visibility of their scenes are omitted"),
        ("annotations", "object boxes of their scenes are omitted"),
    ):
        names = [file.name for file in changes if file.section == section and not file.is_missing]
        if names:
            notes.append(
                f"{first_names(names)} changed since the run started (different SHA-256): {results}"
            )
    return notes


def differing_inputs(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the inputs in which two runs differ, as (section, name), ignoring unrecorded ones.

    Files with the same name must be equal. Question files may have different names on different machines.
    """
    differing: list[tuple[str, str]] = []
    for section in [name for name in INPUT_NOUNS if name != "prompt"]:
        digests_a, digests_b = a.get(section), b.get(section)
        if digests_a is None or digests_b is None:  # an old run
            continue
        if section == "questions":
            if sorted(digests_a.values()) != sorted(digests_b.values()):
                names = [n for n in digests_a if digests_b.get(n) != digests_a[n]]
                differing.append((section, [*names, *digests_b, *digests_a][0]))
            continue
        common_names = [name for name in digests_a if name in digests_b]
        differing += [
            (section, name) for name in common_names if digests_a[name] != digests_b[name]
        ]
    if a.get("prompt") != b.get("prompt"):
        differing.append(("prompt", "prompt"))
    return differing


def differing_files(inputs_of_runs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the files of parts, such as policies and models, that differ between runs although they have the same
    name.
    """
    names = {
        section_and_name
        for runs in combinations(inputs_of_runs, 2)
        for section_and_name in differing_inputs(*runs)
        if section_and_name[0] in ("annotations", "verifiers", "models", "policies", "packages")
    }
    return [
        {
            f"{INPUT_NOUNS[section]} {name}": f"SHA-256 {run[section][name].removeprefix('sha256:')[:12]}"
            for section, name in sorted(names)
            if run.get(section, {}).get(name)
        }
        for run in inputs_of_runs
    ]


def scan_parts(questions: Iterable[Question]) -> dict[str, list[str]]:
    """Return the files that a scene is read from besides its scan, by scan. Scans without such files are omitted."""
    scans = sorted({question.scan for question in questions if question.scan is not None})
    parts = {str(scan): [str(file) for file in files_of_scan(scan)[1:]] for scan in scans}
    return {scan: files for scan, files in parts.items() if files}


def question_inputs(record: Mapping[str, Any], question: Question) -> QuestionInputs:
    """Return the identity of a question of a run: its text, and the SHA-256 of the files of its scene."""
    text = (question.text, *question.options, *question.answers, str(question.metric))
    scans, scan = record["sha256"].get("scans", {}), str(question.scan)
    if scans.get(scan) is None:  # a run without views, or a missing scan
        return QuestionInputs(text)
    parts = record.get("scan_parts", {}).get(scan, ())
    return QuestionInputs(text, {name: scans[name] for name in (scan, *parts) if name in scans})


def selection(config: RunConfig) -> list[str]:
    """Return the ids of all questions of the undivided run that a shard (`--shard`) is part of."""
    return [question.id for question in undivided_questions(config)]
