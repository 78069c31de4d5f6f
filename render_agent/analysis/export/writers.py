"""Runs handed on in the format that was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.diagnose import kept_diagnoses
from render_agent.analysis.export.result_rows import (
    COLUMNS_OF_CANDIDATES,
    COLUMNS_OF_QUESTIONS,
    COLUMNS_OF_TURNS,
    Columns,
    Diagnoses,
    candidate_rows,
    question_rows,
    turn_rows,
    write_csv,
    write_parquet,
)
from render_agent.analysis.export.selection import ChosenRun
from render_agent.analysis.export.target import check_place, replacing
from render_agent.errors import SceneError, UsageError
from render_agent.observation.picture_store import safe_name


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: the files, and how many entries of which kind are in them."""

    files: tuple[Path, ...]
    number: int
    what: str


@dataclass(frozen=True, slots=True)
class How:
    """Choices within a format.

    absolute: paths of pictures from the root. thinking: think blocks stay. truth: beside the messages.
    embed: pictures stand in an Inspect log. force: replace what is there.
    """

    absolute: bool = False
    thinking: bool = True
    truth: bool = False
    embed: bool = False
    force: bool = False


def export(runs: Sequence[ChosenRun], form: str, to: Path, how: How) -> Written:
    """Write the chosen questions of runs in a format of the command and return what was written.

    Inspect's logs and Rerun's recordings hold one run and one question each: where there are
    several, `to` is a folder. UsageError where nothing is chosen or `to` is taken; SetupError where a
    library is missing or `to` cannot be written; RunLogError where a run's log is damaged.
    """
    if not any(run.states for run in runs):
        raise UsageError("none of the questions is chosen: there is nothing to export")
    folder = _is_folder(runs, form, to)
    check_place(to, [run.folder.path for run in runs], folder=folder, force=how.force)
    if form == "messages":
        return _messages(runs, to, how)
    if form == "pairs":
        return _pairs(runs, to, how)
    if form == "inspect":
        return _inspect(runs, to, how, folder=folder)
    if form == "rerun":
        return _rerun(runs, to, folder=folder)
    return _table(runs, form, to)


def _is_folder(runs: Sequence[ChosenRun], form: str, to: Path) -> bool:
    """Return whether `to` stands for a folder. UsageError where one file would have to hold several."""
    if form not in ("inspect", "rerun"):
        return False
    endings = {"inspect": (".eval", ".json"), "rerun": (".rrd",)}[form]
    if to.suffix not in endings:
        return True
    number = len(runs) if form == "inspect" else sum(len(run.states) for run in runs)
    if number > 1:
        what = "runs: a log holds one" if form == "inspect" else "questions: a recording holds one"
        raise UsageError(f"--to {to} is one file for {number} {what}; name a folder")
    return False


def _diagnosed(run: ChosenRun) -> Diagnoses:
    """Return what is known of the chosen questions already: nothing is rendered or written for them."""
    return kept_diagnoses(run.folder, run.states)


def _messages(runs: Sequence[ChosenRun], to: Path, how: How) -> Written:
    from render_agent.analysis.export.chat_messages import write_messages

    with replacing(to) as draft:
        number = write_messages(
            runs,
            draft,
            to.parent,
            absolute=how.absolute,
            thinking=how.thinking,
            truth=how.truth,
        )
        if not number:
            raise UsageError("all the chosen questions are without a reply: nothing was written")
    return Written((to,), number, "dialogues")


def _pairs(runs: Sequence[ChosenRun], to: Path, how: How) -> Written:
    from render_agent.analysis.export.chat_messages import write_pairs

    with replacing(to) as draft:
        number = write_pairs(runs, draft, to.parent, absolute=how.absolute, thinking=how.thinking)
        if not number:
            raise UsageError(
                "no turn of the chosen questions had candidates that were scored: nothing was written"
            )
    return Written((to,), number, "pairs")


def _table(runs: Sequence[ChosenRun], form: str, to: Path) -> Written:
    rows_of: Callable[[ChosenRun, Diagnoses], Iterator[dict[str, Any]]]
    if form in ("csv", "parquet"):
        rows_of, columns, what = question_rows, COLUMNS_OF_QUESTIONS, "rows"
    elif form.startswith("candidates"):
        rows_of, columns, what = candidate_rows, COLUMNS_OF_CANDIDATES, "rows of candidates"
    else:
        rows_of, columns, what = turn_rows, COLUMNS_OF_TURNS, "turns"
    rows = [row for run in runs for row in rows_of(run, _diagnosed(run))]
    if not rows and form.startswith("candidates"):
        raise UsageError("no turn of the chosen questions had candidates: nothing was written")
    write: Callable[[Path, Columns, Sequence[Mapping[str, Any]]], None]
    write = write_csv if form.endswith("csv") else write_parquet
    with replacing(to) as draft:
        write(draft, columns, rows)
    return Written((to,), len(rows), what)


def _inspect(runs: Sequence[ChosenRun], to: Path, how: How, *, folder: bool) -> Written:
    from render_agent.analysis.export.inspect_log import write_inspect

    files = _names(to, [run.name for run in runs], ".eval") if folder else [to]
    for run, file in zip(runs, files, strict=True):
        with replacing(file) as draft:
            write_inspect(run, draft, _diagnosed(run), embed=how.embed)
    return Written(tuple(files), sum(len(run.states) for run in runs), "samples")


def _rerun(runs: Sequence[ChosenRun], to: Path, *, folder: bool) -> Written:
    from render_agent.analysis.export.rerun_recording import write_rerun
    from render_agent.observation.stress.scenes import scenes_of
    from render_agent.questions.ground_truth import known_facts

    files: list[Path] = []
    for run in runs:
        questions = run.folder.questions()
        scenes = scenes_of(run.config, questions)
        # Boxes of a question's own scene say nothing of another one that it was shown.
        own = run.config.pictures != "shuffled"
        facts = known_facts(questions, run.config.annotations) if own else {}
        names = [safe_name(state.id) for state in run.states]
        within = to / run.name if folder and len(runs) > 1 else to
        mine = _names(within, names, ".rrd") if folder else [to]
        for state, file in zip(run.states, mine, strict=True):
            try:
                scene = None if run.config.blind else scenes.get(state.question)
            except SceneError:  # what was seen and said is there without the scan
                scene = None
            with replacing(file) as draft:
                write_rerun(
                    run.name,
                    state,
                    run.folder.path,
                    scene,
                    facts.get(state.question.scene),
                    run.config.image_size,
                    draft,
                )
        files += mine
    return Written(tuple(files), len(files), "recordings")


def _names(folder: Path, names: Iterable[str], ending: str) -> list[Path]:
    return [folder / f"{name}{ending}" for name in names]
