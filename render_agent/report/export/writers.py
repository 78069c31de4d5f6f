"""Writes runs as training data, tables or viewer files. Never overwrites silently or writes into a run folder."""

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
from render_agent.report.export.true_map import grid_map, metric_map
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
from render_agent.tasks.ground_truth import Facts
from render_agent.util.atomic_files import json_bytes, json_lines
from render_agent.util.display import count_noun, track
from render_agent.views.image_store import safe_name

# prefix of the format -> function that yields the rows, columns, noun for a row
TABLES: dict[str, tuple[Rows, tuple[Column, ...], str]] = {
    "": (question_rows, QUESTION_COLUMNS, "row"),
    "turns": (turn_rows, TURN_COLUMNS, "turn"),
}

# formats with one file per run (inspect) or question (rerun) -> suffixes of such a file
FILE_ENDINGS = {"inspect": (".eval", ".json"), "rerun": (".rrd",)}


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of the export formats, as in `render-agent export --help`."""

    absolute: bool = False
    thinking: bool = True
    truth: bool = False
    embed: bool = False
    diagnose: bool = False
    force: bool = False


def export(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    """Export the questions of runs."""
    if not any(run.dialogues for run in runs):
        raise UsageError("nothing to export: no questions are selected")
    for run in runs:
        _ = run.file_notes  # warns
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
    """Return whether `to` is a folder. Raises UsageError for a single file but several runs or questions."""
    if form == "maps":
        return True
    if form not in FILE_ENDINGS:
        return False
    if to.suffix not in FILE_ENDINGS[form]:
        return True
    count = len(runs) if form == "inspect" else sum(len(run.dialogues) for run in runs)
    if count > 1:
        noun = "runs" if form == "inspect" else "questions"
        raise UsageError(f"--to {to} is a single file, but {count} {noun} are selected. Pass a folder.")  # fmt: skip
    return False


def _diagnoses(run: RunData, options: ExportOptions) -> Diagnoses:
    return diagnose_run(run) if options.diagnose else {}


def _lines(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    places = {"absolute": options.absolute, "thinking": options.thinking}
    if form == "messages":
        lines = list(message_lines(runs, to.parent, truth=options.truth, **places))
        noun, reason = "dialogue", "no selected question has a reply"
    else:
        lines = list(pair_lines(runs, to.parent, **places))
        noun = "pair"
        reason = (
            "no turn of the selected questions has candidates with different scores. Export a run with --agent"
            " lookahead:K."
        )
    if not lines:
        raise UsageError(f"nothing to export: {reason}")
    with replacing(to) as draft:
        draft.write_bytes(json_lines(lines))
    return count_noun(len(lines), noun)


def _table(runs: Sequence[RunData], form: str, to: Path, options: ExportOptions) -> str:
    prefix, _, suffix = form.rpartition("-")
    rows_of, columns, noun = TABLES[prefix]
    rows = [row for run in runs for row in rows_of(run, _diagnoses(run, options))]
    with replacing(to) as draft:
        (write_csv if suffix == "csv" else write_parquet)(draft, columns, rows)
    return count_noun(len(rows), noun)


def _inspect(runs: Sequence[RunData], to: Path, options: ExportOptions, *, folder: bool) -> str:
    from render_agent.report.export.inspect_log import write_inspect

    for run in runs:
        with replacing(to / f"{run.name}.eval" if folder else to) as draft:
            write_inspect(run, draft, _diagnoses(run, options), embed=options.embed)
    return count_noun(sum(len(run.dialogues) for run in runs), "sample")


def _maps(runs: Sequence[RunData], to: Path) -> str:
    """Write ground-truth maps of the runs' scenes, on VSI-Bench's 10 × 10 grid and in metres."""
    facts: dict[str, Facts] = {}
    for run in runs:
        questions = [state.question for state in run.dialogues]
        for scene, scene_facts in run.facts(questions).items():
            other_facts = facts.setdefault(scene, scene_facts)
            if json_bytes(metric_map(other_facts)) != json_bytes(metric_map(scene_facts)):
                raise UsageError(
                    f"the object boxes of scene {scene} in {run.name} differ from those in another run. Export the runs"
                    " separately."
                )
    if not facts:
        raise UsageError(
            "no object boxes for these scenes: --format maps needs bundled rooms or a run with --annotations"
        )
    for name, map_of in (("grid", grid_map), ("metric", metric_map)):
        with replacing(to / f"{name}.json") as draft:
            draft.write_bytes(json_bytes({scene: map_of(facts[scene]) for scene in sorted(facts)}))
    return count_noun(len(facts), "scene")


def _rerun(runs: Sequence[RunData], to: Path, *, folder: bool) -> str:
    from render_agent.report.export.rerun_recording import write_rerun

    for run in runs:
        stress = run.parts.image_stress
        # if another scene was shown, the boxes of the question's scene do not apply
        facts = run.facts(run.questions) if stress.shows_own_scene else {}
        run_folder = to / run.name if len(runs) > 1 else to
        for state in track(run.dialogues, f"writing recordings of {run.name}"):
            try:
                scene = None if run.parts.blind else run.scenes.get(state.question)
            except SceneError:  # the recording is useful even without the scan
                scene = None
            scene_facts = facts.get(state.question.scene)
            with replacing(run_folder / f"{safe_name(state.id)}.rrd" if folder else to) as draft:
                write_rerun(run.name, state, run.path, scene, scene_facts, run.config.image_size, draft)  # fmt: skip
    return count_noun(sum(len(run.dialogues) for run in runs), "recording")


def check_place(to: Path, runs: Sequence[Path], *, folder: bool, force: bool) -> None:
    """Check that an export may be written to `to`."""
    for run in runs:
        if to.resolve().is_relative_to(run.resolve()):
            raise UsageError(f"--to {to} is inside the run folder {run}. Choose another location.")
    if to.is_dir() and not folder:
        raise UsageError(f"--to {to} is a folder. Pass a file name.")
    if to.exists() and folder and not to.is_dir():
        raise UsageError(f"--to {to} is a file. Pass a folder.")
    exists = any(to.iterdir()) if folder and to.is_dir() else to.exists() and not folder
    if exists and not force:
        state = "is not empty" if folder else "already exists"
        raise UsageError(f"{to} {state}. Pass --force to overwrite, or another --to.")


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Context manager for a temporary path of the same name that atomically replaces `file` on exit."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            draft = Path(folder, file.name)
            yield draft
            draft.replace(file)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename and f".{file.name}." not in str(error.filename):
            reason = f"{error.filename}: {reason}"  # an input file, such as an image or a scan
        raise SetupError(f"cannot write {file}: {reason}") from error
