"""The manifest of a run, `sha256` in its `config.json`: everything that it was made from, by SHA-256.

Different inputs are an error when a run is resumed or combined with others, and a caveat when something is derived from
it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Turn
from render_agent.engines.make_engine import model_digest, model_file
from render_agent.errors import SetupError
from render_agent.options import RunConfig
from render_agent.runs.build import Parts
from render_agent.runs.run_part import run_parts
from render_agent.score.comparison import QuestionInputs
from render_agent.tasks.input_files import (
    Choice,
    InputFile,
    Section,
    annotation_files,
    scan_paths,
)
from render_agent.tasks.selection import question_files
from render_agent.util.display import first_names
from render_agent.util.file_digests import digests_of, sha256

QUESTIONS = "questions.jsonl"  # key of the SHA-256 of the questions in the run folder

# Section of `sha256` in `config.json` -> noun for an input of the section.
INPUT_NOUNS = {
    "questions": "question file",
    "annotations": "annotation file",
    "scans": "scan file",
    "verifiers": "verifier",
    "models": "model",
    "policies": "policy",
    "packages": "package",
    "prompt": "prompt",
}


def recorded_inputs(record: Mapping[str, Any], lines: Iterable[LogLine] = ()) -> dict[str, Any]:
    """Return the SHA-256 of the inputs of a run by section and name, from its `config.json` and its log."""
    digests: dict[str, Any] = dict(record["sha256"])
    engine = record["engine"]
    if "models" not in digests and (digest := model_digest(engine)) is not None:
        digests["models"] = {str(engine["model"]): digest}
    # versions instead of SHA-256
    digests["packages"] = {"render_agent": record["program"], **record.get("packages", {})}
    scans = dict(digests.get("scans", {}))
    for name, digest in (item for line in lines for item in scan_files_of(line).items()):
        # two workers read different files: no file is that of the run
        scans[name] = digest if scans.get(name, digest) == digest else "several"
    return digests | ({"scans": scans} if scans else {})


def scan_files_of(line: LogLine) -> dict[str, str | None]:
    """Return the SHA-256 of the files that a scan refers to, if they were opened in a turn."""
    return line.scan_files if isinstance(line, Turn) else {}


def part_inputs(
    parts: Parts, questions: Sequence[Question], choices: Sequence[Choice] | None = None
) -> Iterator[InputFile]:
    """Yield the current state of what the parts of a run read; `choices` limits them."""
    config, choices = parts.config, parts.choices if choices is None else choices
    for choice in choices:
        yield from choice.inputs(config, questions)
    if any(choice.reads_boxes(config) for choice in choices):
        yield from annotation_files(config, questions)
    if model := model_file(config, parts.recorded.get("models", {})):
        yield model


def find_changed(files: Iterable[InputFile], recorded: Mapping[str, Any]) -> InputFile | None:
    """Return the first file that differs from its record. Files of sections that an older run lacks are unchanged."""
    for file in files:
        if (digests := recorded.get(file.section)) is not None and file.differs(digests):
            return file
    return None


def input_hashes(
    parts: Parts, questions: Sequence[Question], engine: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, dict[str, str | None]]:
    """Return the SHA-256 of all input files by section and name, for `config.json`."""
    config = parts.config
    hashes: dict[str, dict[str, str | None]] = {section: {} for section in get_args(Section)}
    if (model := model_digest(engine)) is not None:
        hashes["models"][str(engine["model"])] = model
    boxes = annotation_files(config, questions)
    for file in (*_question_files(config), *boxes, *part_inputs(parts, questions)):
        hashes[file.section][file.name] = file.digest
    return hashes


def _question_files(config: RunConfig) -> list[InputFile]:
    return [InputFile("questions", str(file), sha256(file)) for file in question_files(config)]


def selection_inputs(parts: Parts) -> list[InputFile]:
    """Return the files that questions are read from, before they are read.

    The result is empty if a file is missing, which is an error when the questions are chosen.
    """
    with suppress(SetupError):
        added = (file for part in run_parts() for file in part.question_inputs(parts))
        return [*_question_files(parts.config), *added]
    return []


def refuse_replaced(files: Iterable[InputFile], recorded: Mapping[str, Any]) -> None:
    """Raise SetupError if a file was replaced since the run started."""
    if file := find_changed(files, recorded):
        raise SetupError(
            f"{file.name} was replaced while the run was starting (different SHA-256). Start a new run when it is complete."
        )


def check_loaded(parts: Parts, questions: Sequence[Question]) -> None:
    """Check that the files of a run's parts still match their records. Call it when all of them are loaded.

    Scenes are read, and checked, later.
    """
    if parts.recorded:  # empty in an environment that records nothing
        choices = [choice for choice in parts.choices if choice is not parts.image_stress]
        refuse_replaced(part_inputs(parts, questions, choices), parts.recorded)


def refuse_changed(
    run: str, parts: Parts, questions: Sequence[Question], opened_files: Iterable[str]
) -> None:
    """Raise SetupError if a file that questions of a run need has changed; `opened_files` are those of their scans."""
    files = [*part_inputs(parts, questions)]
    for path, digest in digests_of(map(Path, sorted(opened_files))).items():
        files.append(InputFile("scans", str(path), digest))
    verifier_files = set(parts.recorded.get("verifiers", ())) - {file.name for file in files}
    files += [InputFile("verifiers", name, None) for name in sorted(verifier_files)]
    if file := find_changed(files, parts.recorded):
        noun = INPUT_NOUNS[file.section]
        raise changed_error(file.name, noun, run, is_missing=file.digest is None)


def changed_error(file: str, noun: str, run: str, *, is_missing: bool = False) -> SetupError:
    """Return the error for a file that is not the one that a run started with."""
    if is_missing:
        return SetupError(
            f"{file}, the {noun} that {run} started with, is missing. Restore it at this path, or start a new run."
        )
    return SetupError(
        f"{file} is not the {noun} that {run} started with (different SHA-256). Restore it, or start a new run."
    )


def scene_notes(changes: Sequence[InputFile]) -> list[str]:
    """Return the caveats about scene-based results for scene files that have changed."""
    notes = []
    for section, results in (
        ("scans", "plans, 3D views and visibility of their scenes are omitted"),
        ("annotations", "object boxes of their scenes are omitted"),
    ):
        names = [
            file.name for file in changes if file.section == section and file.digest is not None
        ]
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
        ours, theirs = a.get(section), b.get(section)
        if ours is None or theirs is None:  # an old run
            continue
        names = [name for name in ours if name in theirs and ours[name] != theirs[name]]
        if section == "questions":
            is_same = sorted(ours.values()) == sorted(theirs.values())
            names = [] if is_same else [*names, *theirs, *ours][:1]
        differing += [(section, name) for name in names]
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
            f"{INPUT_NOUNS[section]} {name}": run[section][name]
            if section == "packages"
            else f"SHA-256 {run[section][name].removeprefix('sha256:')[:12]}"
            for section, name in sorted(names)
            if run.get(section, {}).get(name)
        }
        for run in inputs_of_runs
    ]


def question_inputs(record: Mapping[str, Any], state: QuestionState) -> QuestionInputs:
    """Return the identity of a question of a run: its text, and the SHA-256 of the files of its scene."""
    question = state.question
    text = (question.text, *question.options, *question.answers, str(question.metric))
    scans = record["sha256"].get("scans", {})
    if question.scan is None or scans.get(str(question.scan)) is None:  # no views, or no scan
        return QuestionInputs(text)
    of_older_run = record.get("scan_parts", {}).get(str(question.scan), ())
    names = [*map(str, scan_paths(question.scan)), *of_older_run]
    files = {name: scans[name] for name in names if name in scans}
    return QuestionInputs(text, files | (scan_files_of(state.turns[0]) if state.turns else {}))


# Keys of the engine in `config.json`: the machines of a reproducible run, whose replies are identical only on the same type of
# device with the same libraries.
MACHINE, OTHER_MACHINES = "reproducible", "other_machines"


def add_machine(engine: Mapping[str, Any], machine: Mapping[str, Any] | None) -> dict[str, Any]:
    """Add a machine on which a run was resumed to the record of its engine, if it differs from all earlier ones."""
    others = list(engine.get(OTHER_MACHINES, []))
    earlier = [recorded for recorded in (engine.get(MACHINE), *others) if recorded]
    if machine is None or not earlier or any(not _differences(old, machine) for old in earlier):
        return dict(engine)
    return {**engine, OTHER_MACHINES: [*others, dict(machine)]}


def machine_note(engine: Mapping[str, Any]) -> str | None:
    """Return the caveat for a reproducible run that was resumed on a different machine; otherwise None."""
    differences = [
        difference
        for other in engine.get(OTHER_MACHINES, [])
        for difference in _differences(engine[MACHINE], other)
    ]
    if not differences:
        return None
    return f"not bit-for-bit reproducible: the run changed its machine ({'; '.join(differences)})"


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the differences between two machines; runs of older versions recorded fewer properties."""
    return [
        f"{name}: {old[name]}, then {new[name]}"
        for name in old
        if name in new and old[name] != new[name]
    ]
