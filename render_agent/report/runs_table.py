"""The table of runs: scores, differences from a baseline, and the work per question, for `compare` and `sweep`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.runs.inputs import question_inputs
from render_agent.runs.log.lock import INTERRUPTED, RUNNING, status_of_unfinished
from render_agent.runs.log.results import per_question
from render_agent.runs.read import RunData
from render_agent.score.comparison import Side, compare, incomparable
from render_agent.score.instruments import LABELS
from render_agent.score.intervals import add_holm, method_words
from render_agent.score.means import AnswerScore
from render_agent.score.summary import OFFICIAL, OFFICIAL_RAW, SCORE_NAMES, combine
from render_agent.score.tables import (
    dollars,
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

HEADS = ("questions", "score", "difference", "Holm p")
WIDE_HEADS = ("status", "score", "95 % CI", "difference", "95 % CI", "p", "Holm p", "scored", "failed",
              "turns", "images", "tokens in", "tokens out", "seconds")  # fmt: skip


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
    results = {group.label: _pool(group.runs) for group in groups if group.runs}
    sides = {group.label: _side(group.runs, results[group.label]) for group in groups if group.runs}
    base = sides.get(baseline)
    rows = []
    for group in groups:
        side = sides.get(group.label)
        row: Row = {"label": group.label, "options": dict(group.options), "status": NOT_STARTED}
        row |= {"p": None, "notes": []}
        if side is not None:
            row |= _figures(side.results) | {"status": _status(group)}
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


def _side(runs: Sequence[RunData], results: Mapping[str, Any]) -> Side:
    """Return the runs of a row as one side of a comparison."""
    inputs = {
        _id(runs, run, state.id): question_inputs(run.record, state)
        for run in runs
        for state in run.states
    }
    name = " ".join(run.name for run in runs)
    subset = {"subset": runs[0].config.subset}
    return Side(name, results, subset, inputs, runs[0].recorded.get("questions", {}))


def _id(runs: Sequence[RunData], run: RunData, question_id: str) -> str:
    """Return the id of a question, with the seed of its run if there are several."""
    return question_id if len(runs) == 1 else f"{question_id} seed {run.config.seed}"


def _pool(runs: Sequence[RunData]) -> Mapping[str, Any]:
    """Return the results of a run, or of several runs together: only what a row needs."""
    # results.json can be older than the log if a run was resumed and stopped again
    results = [(run.saved_results if is_complete(run) else None) or run.results for run in runs]
    if len(runs) == 1:
        return results[0]
    rows = [
        {**row, "question_id": _id(runs, run, row["question_id"])}
        for run, part in zip(runs, results, strict=True)
        for row in part["questions"]
    ]
    scored = [row for row in rows if row["score"] is not None]
    scores = {
        name: [
            AnswerScore(row["type"], row["dataset"], row["scene"], row[column]) for row in scored
        ]
        for name, column in ((OFFICIAL_RAW, "score"), (OFFICIAL, "score_parsed"))
    }
    figures = combine(scores)
    calls = sum(part["totals"]["calls"] for part in results)
    return {
        "official_over_scored": {"score": figures[OFFICIAL], "n": figures["n"]},
        OFFICIAL_RAW: figures[OFFICIAL_RAW],
        "intervals": figures["intervals"],
        "counts": _sum_counts([part["counts"] for part in results]),
        "notes": list(dict.fromkeys(note for part in results for note in part["notes"])),
        "questions": rows,
        "totals": {
            "seconds": _sum_counts([part["totals"]["seconds"] for part in results]),
            "per_question": per_question(rows, calls),
        },
    }


def _sum_counts(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for entry in counts:
        total.update(entry)
    return dict(total)


def _figures(results: Mapping[str, Any]) -> Row:
    counts, seconds = results["counts"], results["totals"]["seconds"]
    num_questions = sum(row["turns"] > 0 for row in results["questions"])
    total_seconds = seconds["rendering"] + seconds["generating"]
    return {
        "official": results["official_over_scored"]["score"],
        "official_interval": results["intervals"].get(OFFICIAL),
        "official_raw": results[OFFICIAL_RAW],
        "official_raw_interval": results["intervals"].get(OFFICIAL_RAW),
        "scored": results["official_over_scored"]["n"],
        **{name: counts[name] for name in ("questions", "failed")},
        "per_question": {
            **(results["totals"]["per_question"] or {}),
            "seconds": total_seconds / num_questions if num_questions else None,
        },
        "notes": list(results["notes"]),
        **({"instruments": results["instruments"]} if "instruments" in results else {}),
    }


def runs_table(
    rows: Sequence[Row], baseline: str, title: str = "", *, wide: bool = False
) -> PlainTable:
    """Return the figures of all rows as a table for the terminal, with all columns if `wide`."""
    table = PlainTable(title)
    table.add_column("run")
    has_cost = any("cost_usd" in row.get("per_question", {}) for row in rows)
    shares = [name for name in LABELS if any(name in row.get("instruments", {}) for row in rows)]
    heads = (*WIDE_HEADS, *["cost"] * has_cost) if wide else HEADS
    for head in (*heads, *(LABELS[name] for name in shares)):
        table.add_column(head, right=True)
    notes: dict[str, list[str]] = {}
    for row in rows:
        is_baseline = row["label"] == baseline
        difference = "baseline" if is_baseline else format_signed(row.get("difference"))
        if row["status"] == NOT_STARTED:
            cells = [NOT_STARTED] if wide else ["", NOT_STARTED]
        elif wide:
            cells = _wide_cells(row, difference, has_cost=has_cost)
        else:
            cells = [str(row["questions"]), _score_cell(row), difference, _p_cell(row, "p_holm")]
        figures = row.get("instruments", {})
        cells += [figure(figures[name]["value"]) if name in figures else "" for name in shares]
        table.add_row(row["label"], *cells)
        for note in row["notes"]:
            notes.setdefault(note, []).append(row["label"])
    table.caption = "\n".join(
        [
            _caption(wide=wide),
            *(
                f"- {note} ({'all runs' if len(labels) == len(rows) else '; '.join(labels)})"
                for note, labels in notes.items()
            ),
        ]
    )
    return table


def _caption(*, wide: bool) -> str:
    caption = (
        f"Score: {SCORE_NAMES}; percent, over scored questions. Difference: percentage points from the baseline, paired by"
        f" question. p: {method_words()}, corrected for the number of rows by Holm's method."
    )
    if not wide:
        return caption
    return (
        f"{caption} CI: {method_words()}. Turns, images rendered, tokens, seconds (rendering + generating) and cost: mean per"
        " question."
    )


def _score_cell(row: Row) -> str:
    """Return the score with the status, if it is not complete, and the number of failed questions."""
    parts = [figure(row["official_raw"])]
    if row["status"] != COMPLETE:
        parts.append(row["status"])
    if row["failed"]:
        parts.append(f"{row['failed']} failed")
    return " ".join(parts)


def _p_cell(row: Row, name: str) -> str:
    return "" if row.get(name) is None else probability(row[name])


def _wide_cells(row: Row, difference: str, *, has_cost: bool) -> list[str]:
    work = row["per_question"]
    means = [work.get(name) for name in ("turns", "renders", "tokens_in", "tokens_out", "seconds")]
    if not work.get("tokens_in"):  # not reported: every prompt has tokens
        means[2:4] = [None, None]
    return [
        row["status"],
        figure(row["official_raw"]),
        interval_cell(row["official_raw_interval"]),
        difference,
        interval(row.get("interval")),
        *(_p_cell(row, name) for name in ("p", "p_holm")),
        f"{row['scored']} of {row['questions']}",
        str(row["failed"]),
        *("–" if value is None else f"{value:,.{0 if value >= 100 else 1}f}" for value in means),
        *([dollars(work["cost_usd"]) if "cost_usd" in work else "–"] if has_cost else []),
    ]
