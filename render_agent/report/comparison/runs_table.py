"""The table of runs: scores, differences from a baseline, and the work per question, for `compare` and `sweep`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.runs.inputs import question_inputs
from render_agent.runs.log.lock import INTERRUPTED, RUNNING, status_of_unfinished
from render_agent.runs.log.results import per_question
from render_agent.runs.read import RunData
from render_agent.score.comparison import QuestionInputs, Side, compare, incomparable
from render_agent.score.dialogues.instruments import instrument_notes
from render_agent.score.intervals import add_holm, method_words
from render_agent.score.means import AnswerScore
from render_agent.score.summary import OFFICIAL, OFFICIAL_RAW, SCORE_NAMES, combine
from render_agent.score.tables import (
    describe_cost,
    figure,
    format_signed,
    interval,
    interval_cell,
    probability,
)
from render_agent.util.console import PlainTable

COMPLETE = "complete"  # status of a run; failed questions do not matter
NOT_STARTED = "not started"  # status of a row without runs

PARTIAL = "PARTIAL: only a subset of the benchmark's questions"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of a row: one, or several that differ only in their seeds."""

    label: str
    runs: Sequence[RunData]
    num_planned: int = 1
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that are not the same in all rows, in command-line syntax."""


def is_complete(run: RunData) -> bool:
    """Return True if a run is finished and none of its questions is failed or active."""
    results = run.saved_results
    return results is not None and not (results["counts"]["failed"] or results["counts"]["active"])


def status_of(run: RunData) -> str:
    """Return the status of a run: complete, running or interrupted."""
    results = run.saved_results
    if results is not None and not results["counts"]["active"]:
        return COMPLETE
    return status_of_unfinished(run.path)


def run_rows(groups: Sequence[RunGroup], baseline: str) -> list[Row]:
    """Return the figures of each group of runs, with its differences from the group labelled `baseline`.

    With several seeds, each question counts once per seed and is paired by seed. Confidence intervals are over scenes.
    """
    results = {group.label: [*map(_results, group.runs)] for group in groups if group.runs}
    sides = {group.label: _side(group.runs, results[group.label]) for group in groups if group.runs}
    base = sides.get(baseline)
    rows = []
    for group in groups:
        side = sides.get(group.label)
        row: Row = {"label": group.label, "options": dict(group.options), "status": NOT_STARTED}
        row |= {"p": None, "notes": []}
        if side is not None:
            row |= _figures(side, results[group.label]) | {"status": _status(group)}
            row["runs"] = [run.name for run in group.runs]
            if group.runs[0].config.partial:
                row["notes"].append(PARTIAL)
            if base is not None and side is not base:
                row |= compare(base, side)["differences"].get(OFFICIAL_RAW, {})
                row["notes"] += [f"not comparable with the baseline: {reason}" for reason in incomparable(base, side)]  # fmt: skip
        rows.append(row)
    add_holm([row for row in rows if row["p"] is not None])
    return rows


def _status(group: RunGroup) -> str:
    statuses = {status_of(run) for run in group.runs}
    if RUNNING in statuses:
        return RUNNING
    is_finished = statuses == {COMPLETE} and len(group.runs) == group.num_planned
    return COMPLETE if is_finished else INTERRUPTED


def _results(run: RunData) -> Mapping[str, Any]:
    # results.json can be older than the log if a run was resumed and stopped again
    return (run.saved_results if is_complete(run) else None) or run.results


def _side(runs: Sequence[RunData], results: Sequence[Mapping[str, Any]]) -> Side:
    """Return the runs of a row as one side of a comparison; several differ in the seeds of their questions' ids."""
    rows: list[Row] = []
    inputs: dict[str, QuestionInputs] = {}
    for run, part in zip(runs, results, strict=True):
        suffix = f" seed {run.config.seed}" if len(runs) > 1 else ""
        rows += ({**row, "question_id": row["question_id"] + suffix} for row in part["questions"])
        inputs |= {state.id + suffix: question_inputs(run.record, state) for state in run.dialogues}
    subset, files = {"subset": runs[0].config.subset}, runs[0].recorded.get("questions", {})
    return Side(" ".join(run.name for run in runs), {"questions": rows}, subset, inputs, files)


def _figures(side: Side, results: Sequence[Mapping[str, Any]]) -> Row:
    """Return the figures of a row over all its runs."""
    rows = side.results["questions"]
    scored = [row for row in side.rows.values() if row["score"] is not None]
    scores = {
        name: [
            AnswerScore(row["type"], row["dataset"], row["scene"], row[column]) for row in scored
        ]
        for name, column in ((OFFICIAL_RAW, "score"), (OFFICIAL, "score_parsed"))
    }
    figures, num_asked = combine(scores), sum(row["turns"] > 0 for row in rows)
    totals = [part["totals"] for part in results]
    notes = (note for part in results for note in (*part["notes"], *instrument_notes(part)))
    seconds = sum(t["seconds"]["rendering"] + t["seconds"]["generating"] for t in totals)
    return {
        **{name: figures[name] for name in (OFFICIAL, OFFICIAL_RAW)},
        **{f"{n}_interval": figures["intervals"].get(n) for n in (OFFICIAL, OFFICIAL_RAW)},
        "scored": figures["n"],
        **{n: sum(part["counts"][n] for part in results) for n in ("questions", "failed")},
        "per_question": {
            **(per_question(rows, sum(total["calls"] for total in totals)) or {}),
            "seconds": seconds / num_asked if num_asked else None,
        },
        "notes": list(dict.fromkeys(notes)),
    }


def runs_table(rows: Sequence[Row], baseline: str, title: str = "") -> PlainTable:
    """Return the figures of all rows as a table for the terminal."""
    table = PlainTable(title, "run", "n", "score", "95 % CI", "difference", "95 % CI", "Holm p")
    notes: dict[str, list[str]] = {}
    for row in rows:
        has_runs = row["status"] != NOT_STARTED
        cells = _cells(row, row["label"] == baseline) if has_runs else ["", NOT_STARTED]
        table.add_row(row["label"], *cells)
        work = row.get("per_question", {}).get("turns")
        means = [f"mean per question: {describe_cost(row['per_question'])}"] if work else []
        for note in (*row["notes"], *means):
            notes.setdefault(note, []).append(row["label"])
    lines = [
        f"- {note} ({'all runs' if len(labels) == len(rows) else '; '.join(labels)})"
        for note, labels in notes.items()
    ]
    table.caption = "\n".join([
        f"n: questions. Score: {SCORE_NAMES}; percent, over scored questions. Difference: percentage points from the baseline, paired by"
        f" question. CI and p: {method_words()}; p is corrected for the number of rows by Holm's method.",
        *lines,
    ])  # fmt: skip
    return table


def _cells(row: Row, is_baseline: bool) -> list[str]:
    is_scored = row["scored"] == row["questions"]
    status = "" if row["status"] == COMPLETE else f" {row['status']}"
    failed = f" {row['failed']} failed" if row["failed"] else ""
    return [
        str(row["questions"]) if is_scored else f"{row['scored']} of {row['questions']}",
        f"{figure(row['official_raw'])}{status}{failed}",
        interval_cell(row["official_raw_interval"]),
        "baseline" if is_baseline else format_signed(row.get("difference")),
        interval(row.get("interval")),
        "" if row.get("p_holm") is None else probability(row["p_holm"]),
    ]
