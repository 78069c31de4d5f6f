"""Table of a sweep: one row per combination of options, over all its seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.report.sweep.cells import COMPLETE, is_complete, status_of
from render_agent.report.sweep.plan import Sweep, SweepRun
from render_agent.runs.inputs import question_inputs
from render_agent.runs.log.lock import INTERRUPTED, RUNNING
from render_agent.runs.log.results import per_question
from render_agent.runs.read import RunData
from render_agent.score.comparison import Side, compare, incomparable
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

NOT_STARTED = "not started"  # status of a row without runs, else that of `status_of`

Row = dict[str, Any]

HEADS = ("questions", "score", "difference", "Holm p")
WIDE_HEADS = ("status", "score", "95 % CI", "difference", "95 % CI", "p", "Holm p", "scored", "failed",
              "turns", "images", "tokens in", "tokens out", "seconds")  # fmt: skip


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


def sweep_rows(sweep: Sweep, started: Mapping[str, RunData]) -> list[Row]:
    """Return the figures of each row of a sweep."""
    runs = {row: _runs(cells, started) for row, cells in sweep.rows.items()}
    sides = {row: side_of(row_runs) for row, row_runs in runs.items() if row_runs}
    base = sides.get(sweep.baseline)
    rows = []
    for name, cells in sweep.rows.items():
        side = sides.get(name)
        row: Row = {"label": name, "status": NOT_STARTED, "p": None, "notes": []}
        if side is not None:
            status = _status(runs[name], len(cells))
            row |= _figures(side) | {"status": status, "runs": [run.name for run in runs[name]]}
            if cells[0].config.partial:
                row["notes"].append("PARTIAL: only a subset of the benchmark's questions")
            if base is not None and side is not base:
                row |= compare(base, side)["differences"].get(OFFICIAL_RAW, {})
                row["notes"] += [f"not comparable with the baseline: {reason}" for reason in incomparable(base, side)]  # fmt: skip
        rows.append(row)
    add_holm([row for row in rows if row["p"] is not None])
    return rows


def _runs(cells: Sequence[SweepRun], started: Mapping[str, RunData]) -> list[RunData]:
    runs = [started[cell.label] for cell in cells if cell.label in started]
    return [run for run in runs if run.has_questions]


def _status(runs: Sequence[RunData], number: int) -> str:
    """Return the status of a row that consists of a number of runs, of which some may not have started."""
    statuses = {status_of(run) for run in runs}
    if RUNNING in statuses:
        return RUNNING
    return COMPLETE if statuses == {COMPLETE} and len(runs) == number else INTERRUPTED


def _figures(side: Side) -> Row:
    results = side.results
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
    }


def side_of(runs: Sequence[RunData]) -> Side:
    """Return the runs of a row as one side of a comparison.

    With several seeds, each question counts once per seed and is paired by seed. Confidence
    intervals are over scenes.
    """
    # results.json can be older than the log if a run was resumed and stopped again
    results = [(run.saved_results if is_complete(run) else None) or run.results for run in runs]
    subset = {"subset": runs[0].config.subset}
    name = " ".join(run.name for run in runs)
    inputs = [
        {state.id: question_inputs(run.record, state.question) for state in run.states}
        for run in runs
    ]
    files = runs[0].recorded.get("questions", {})
    if len(runs) == 1:
        return Side(name, results[0], subset, inputs[0], files)
    seeds = [run.config.seed for run in runs]
    by_seed = {
        with_seed(question_id, seed): entry
        for seed, entries in zip(seeds, inputs, strict=True)
        for question_id, entry in entries.items()
    }
    return Side(name, pooled(dict(zip(seeds, results, strict=True))), subset, by_seed, files)


def with_seed(question_id: str, seed: int) -> str:
    """Return the id of a question among those of several seeds."""
    return f"{question_id} seed {seed}"


def pooled(by_seed: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Pool the results of runs with different seeds; contains only the keys that a sweep needs."""
    runs = by_seed.values()
    rows = [
        {**row, "question_id": with_seed(row["question_id"], seed)}
        for seed, results in by_seed.items()
        for row in results["questions"]
    ]
    scored = [row for row in rows if row["score"] is not None]
    figures = combine(
        {
            name: [
                AnswerScore(row["type"], row["dataset"], row["scene"], row[column])
                for row in scored
            ]
            for name, column in ((OFFICIAL_RAW, "score"), (OFFICIAL, "score_parsed"))
        }
    )
    calls = sum(results["totals"]["calls"] for results in runs)
    return {
        "official_over_scored": {"score": figures[OFFICIAL], "n": figures["n"]},
        OFFICIAL_RAW: figures[OFFICIAL_RAW],
        "intervals": figures["intervals"],
        "counts": _sum_counts([results["counts"] for results in runs]),
        "notes": list(dict.fromkeys(note for results in runs for note in results["notes"])),
        "questions": rows,
        "totals": {
            "seconds": _sum_counts([results["totals"]["seconds"] for results in runs]),
            "per_question": per_question(rows, calls),
        },
    }


def _sum_counts(counts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for entry in counts:
        total.update(entry)
    return dict(total)


def sweep_title(sweep: Sweep) -> str:
    """Return the title of the table and the plot of a sweep."""
    partial = " (PARTIAL)" if any(cell.config.partial for cell in sweep.cells) else ""
    return f"Sweep {sweep.name}{partial}"


def sweep_table(sweep: Sweep, rows: Sequence[Row], *, wide: bool = False) -> PlainTable:
    """Return the figures of all rows as a table for the terminal, with all columns if `wide`."""
    table = PlainTable(sweep_title(sweep))
    table.add_column("run")
    has_cost = any("cost_usd" in row.get("per_question", {}) for row in rows)
    for head in (*WIDE_HEADS, *["cost"] * has_cost) if wide else HEADS:
        table.add_column(head, right=True)
    notes: dict[str, list[str]] = {}
    for row in rows:
        is_baseline = row["label"] == sweep.baseline
        difference = "baseline" if is_baseline else format_signed(row.get("difference"))
        if row["status"] == NOT_STARTED:
            cells = [NOT_STARTED] if wide else ["", NOT_STARTED]
        elif wide:
            cells = _wide_cells(row, difference, has_cost=has_cost)
        else:
            cells = [str(row["questions"]), _score_cell(row), difference, _p_cell(row, "p_holm")]
        table.add_row(row["label"], *cells)
        for note in row["notes"]:
            notes.setdefault(note, []).append(row["label"])
    table.caption = "\n".join(
        [
            _caption(wide=wide),
            *(f"- {note} ({'; '.join(labels)})" for note, labels in notes.items()),
        ]
    )
    return table


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
