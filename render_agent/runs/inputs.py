"""The manifest of a run, `sha256` in its `config.json`: everything that it was made from, by SHA-256.

Different inputs are an error when a run is resumed or combined with others, and a caveat when something is derived from
it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Turn
from render_agent.engines.make_engine import model_digest, model_file
from render_agent.options import RunConfig
from render_agent.runs.build import Parts
from render_agent.score.comparison import QuestionInputs
from render_agent.tasks.choice import Choice
from render_agent.tasks.input_files import InputFile, annotation_files, scan_paths
from render_agent.tasks.selection import undivided_questions
from render_agent.util.display import first_names

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
    digests["packages"] = record.get("packages", {})  # with versions instead of SHA-256
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


def selection(config: RunConfig) -> list[str]:
    """Return the ids of all questions of the undivided run that a shard (`--shard`) is part of."""
    return [question.id for question in undivided_questions(config)]
