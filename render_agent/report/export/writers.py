"""Write runs in a format for training, tables or viewers; never overwrite silently, never write into a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from render_agent.errors import SceneError, SetupError, UsageError
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.export.chat_messages import message_lines, pair_lines
from render_agent.report.export.table_files import write_csv, write_parquet
from render_agent.report.result_rows import (
    QUESTION_COLUMNS,
    TURN_COLUMNS,
    Diagnoses,
    Rows,
    question_rows,
    turn_rows,
)
from render_agent.runs.log.columns import Column
from render_agent.runs.read import RunData
from render_agent.score.beliefs.true_map import grid_map, metric_map
from render_agent.tasks.ground_truth import Facts, known_facts
from render_agent.util.display import counted, tracked
from render_agent.util.whole_files import json_bytes, json_lines
from render_agent.views.picture_store import safe_name

TABLES: dict[str, tuple[Rows, tuple[Column, ...], str]] = {
    "": (question_rows, QUESTION_COLUMNS, "row"),
    "turns": (turn_rows, TURN_COLUMNS, "turn"),
}
"""By the prefix of a format: the function that gives the rows, their columns, and the noun for a row."""

FILE_ENDINGS = {"inspect": (".eval", ".json"), "rerun": (".rrd",)}
"""Formats whose files hold one run or one question, and the suffixes of such a file."""


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of the formats.

    Attributes:
        absolute: Write absolute paths of pictures.
        thinking: Keep thinking blocks in replies.
        truth: Add the truth beside the messages.
        embed: Embed pictures in an Inspect log.
        diagnose: Diagnose the questions, for the columns of the diagnosis.
        force: Replace existing files.
    """

    absolute: bool = False
    thinking: bool = True
    truth: bool = False
    embed: bool = False
    diagnose: bool = False
    force: bool = False


def export(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    """Write the chosen questions of runs in a format and return what was written, such as "3 rows".

    Inspect's logs and Rerun's recordings hold one run and one question each; for several, `to` is a folder.

    Raises:
        UsageError: Nothing is chosen, or `to` exists.
        SetupError: A library is missing, or `to` cannot be written.
        RunLogError: The log of a run is damaged.
    """
    if not any(run.states for run in runs):
        raise UsageError("no question is selected: there is nothing to export")
    folder = _is_folder(runs, form, to)
    check_place(to, [run.path for run in runs], folder=folder, force=options.force)
    if form in ("messages", "pairs"):
        return _lines(runs, form, to, options)
    if form == "inspect":
        return _inspect(runs, to, options, folder=folder)
    if form == "rerun":
        return _rerun(runs, to, folder=folder)
    if form == "maps":
        return _maps(runs, to)
    return _table(runs, form, to, options)


def _is_folder(runs: Sequence[RunData], form: str, to: Path) -> bool:
    """Return whether `to` is a folder. UsageError if one file would have to hold several runs or questions."""
    if form == "maps":
        return True
    if form not in FILE_ENDINGS:
        return False
    if to.suffix not in FILE_ENDINGS[form]:
        return True
    several = len(runs) if form == "inspect" else sum(len(run.states) for run in runs)
    if several > 1:
        noun = "runs" if form == "inspect" else "questions"
        raise UsageError(f"--to {to} is a file and can hold only one of {several} {noun}: name a folder")  # fmt: skip
    return False


def _diagnosed(run: RunData, options: ExportOptions) -> Diagnoses:
    return diagnose_run(run) if options.diagnose else {}


def _lines(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    places = {"absolute": options.absolute, "thinking": options.thinking}
    if form == "messages":
        lines = list(message_lines(runs, to.parent, truth=options.truth, **places))
        noun, lacking = "dialogue", "no selected question has a reply"
    else:
        lines = list(pair_lines(runs, to.parent, **places))
        noun, lacking = "pair", "no turn of the selected questions had candidates that were scored"
    if not lines:
        raise UsageError(f"{lacking}: nothing was written")
    with replacing(to) as draft:
        draft.write_bytes(json_lines(lines))
    return counted(len(lines), noun)


def _table(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    kind, _, ending = form.rpartition("-")
    rows_of, columns, noun = TABLES[kind]
    rows = [row for run in runs for row in rows_of(run, _diagnosed(run, options))]
    with replacing(to) as draft:
        (write_csv if ending == "csv" else write_parquet)(draft, columns, rows)
    return counted(len(rows), noun)


def _inspect(runs: Sequence[RunData], to: Path, options: ExportOptions, *, folder: bool) -> str:
    from render_agent.report.export.inspect_log import write_inspect

    for run in runs:
        with replacing(to / f"{run.name}.eval" if folder else to) as draft:
            write_inspect(run, draft, _diagnosed(run, options), embed=options.embed)
    return counted(sum(len(run.states) for run in runs), "sample")


def _maps(runs: Sequence[RunData], to: Path) -> str:
    """Write the true maps of the runs' scenes: on VSI-Bench's grid of 10 × 10, and in metres."""
    facts: dict[str, Facts] = {}
    for run in runs:
        questions = [state.question for state in run.states]
        facts |= known_facts(questions, run.config.annotations)
    if not facts:
        raise UsageError(
            "the boxes of these scenes are unknown: --format maps needs bundled rooms or a run with --annotations"
        )
    for name, map_of in (("grid", grid_map), ("metric", metric_map)):
        with replacing(to / f"{name}.json") as draft:
            draft.write_bytes(json_bytes({scene: map_of(facts[scene]) for scene in sorted(facts)}))
    return counted(len(facts), "scene")


def _rerun(runs: Sequence[RunData], to: Path, *, folder: bool) -> str:
    from render_agent.report.export.rerun_recording import write_rerun

    for run in runs:
        stress = run.parts.picture_stress
        # A question that was shown another scene has no boxes of that scene.
        facts = known_facts(run.questions, run.config.annotations) if stress.own_scene else {}
        within = to / run.name if len(runs) > 1 else to
        for state in tracked(run.states, f"writing the recordings of {run.name}"):
            try:
                scene = None if run.parts.blind else run.scenes.get(state.question)
            except SceneError:  # the recording is useful without the scan
                scene = None
            known = facts.get(state.question.scene)
            with replacing(within / f"{safe_name(state.id)}.rrd" if folder else to) as draft:
                write_rerun(run.name, state, run.path, scene, known, run.config.image_size, draft)  # fmt: skip
    return counted(sum(len(run.states) for run in runs), "recording")


def check_place(to: Path, runs: Sequence[Path], *, folder: bool, force: bool) -> None:
    """Refuse a place that is taken or lies in a run folder. UsageError, which says so.

    folder: whether files are written into it; otherwise it is one file. force: whether files that
    are there may be replaced.
    """
    for run in runs:
        if to.resolve().is_relative_to(run.resolve()):
            raise UsageError(f"--to {to} lies in the run {run}, which is only read: choose another")
    if to.is_dir() and not folder:
        raise UsageError(f"--to {to} is a folder: name a file")
    if to.exists() and folder and not to.is_dir():
        raise UsageError(f"--to {to} is a file: name a folder")
    taken = any(to.iterdir()) if folder and to.is_dir() else to.exists() and not folder
    if taken and not force:
        state = "is not empty" if folder else "is there already"
        raise UsageError(f"{to} {state}: give --force to replace what is there, or another --to")


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Give a path to write to that takes the place of `file` at the end, whole or not at all.

    Its name is the same. SetupError where the system does not let it be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            draft = Path(folder, file.name)
            yield draft
            draft.replace(file)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename and f".{file.name}." not in str(error.filename):
            reason = f"{error.filename}: {reason}"  # a picture or a scan that it is made of, say
        raise SetupError(f"cannot write {file}: {reason}") from error
