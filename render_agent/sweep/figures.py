"""What the runs of a sweep came to: a row of figures for every cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.comparison import Side, compare, incomparable
from render_agent.run_log.folder import RunFolder
from render_agent.run_log.reading import results_of
from render_agent.score.summary import OFFICIAL
from render_agent.sweep.cells import is_complete
from render_agent.sweep.plan import Cell, Sweep
from render_agent.tables import figure, interval, signed

COLUMNS = (
    "label",
    "run",
    "status",
    "questions",
    "scored",
    "official",
    "official_low",
    "official_high",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "answered",
    "exhausted",
    "failed",
    "missing",
    "active",
    "turns_per_question",
    "pictures_per_question",
    "tokens_in_per_question",
    "tokens_out_per_question",
    "seconds_per_question",
)
"""The figures of a cell. Scores and differences are in points of percent; seconds are those of drawing
and generating, its share of the batches."""

WHOLE, CUT_OFF, NOT_BEGUN = "complete", "unfinished", "not begun"
"""Where a cell may stand; a complete one may have failed questions."""

Row = dict[str, Any]


def sweep_rows(sweep: Sweep, begun: Mapping[str, RunFolder]) -> tuple[list[Row], dict[str, Any]]:
    """Return a row of figures for every cell, and by label what must be said beside them.

    begun: the runs of the cells that have one. Differences are those from the baseline, paired by
    question. RunLogError where a log is damaged.
    """
    sides = {
        cell.label: _side(begun[cell.label])
        for cell in sweep.cells
        if cell.label in begun and begun[cell.label].has_questions
    }
    base = sides.get(sweep.baseline.label)
    notes: dict[str, list[str]] = {}
    rows = []
    for cell in sweep.cells:
        side = sides.get(cell.label)
        row = dict.fromkeys(COLUMNS) | {"label": cell.label, **cell.varied, "status": NOT_BEGUN}
        if side is not None:
            row |= _scores(side) | _work(begun[cell.label], side.results)
            told = list(side.results["notes"])
            if cell.config.partial:
                told.append("PARTIAL: only some of the benchmark's questions")
            if base is not None and side is not base:
                difference, reasons = _difference(base, side)
                row |= difference
                told += [f"not comparable with the baseline: {reason}" for reason in reasons]
            notes[cell.label] = told
        rows.append(row)
    return rows, {label: told for label, told in notes.items() if told}


def _side(folder: RunFolder) -> Side:
    # results.json may be older than the log where a run was continued and cut off again
    found = (folder.results() if is_complete(folder) else None) or results_of(folder)
    return Side(folder.name, found, {"--subset": folder.config.subset})


def _scores(side: Side) -> Row:
    found = side.results
    over, counts = found["official_over_scored"], found["counts"]
    low, high = found["intervals"].get(OFFICIAL) or (None, None)
    return {
        "run": side.name,
        "status": CUT_OFF if counts["active"] else WHOLE,
        "questions": counts["questions"],
        "scored": over["n"],
        "official": over["score"],
        "official_low": low,
        "official_high": high,
        **{name: counts[name] for name in ("answered", "exhausted", "failed", "missing", "active")},
    }


def _difference(base: Side, side: Side) -> tuple[Row, list[str]]:
    """Return how a cell differs from the baseline, and why that says little where it does."""
    found = compare(base, side)["differences"].get(OFFICIAL)
    if found is None or found["difference"] is None:
        return {}, ["they have no scored question in common"]
    low, high = found["interval"] or (None, None)
    return {
        "difference": found["difference"],
        "difference_low": low,
        "difference_high": high,
        "p": found["p"],
    }, incomparable(base, side)


def _work(folder: RunFolder, found: Mapping[str, Any]) -> Row:
    """Return what a question took on average, over those that were asked."""
    lines = [line for line in folder.lines() if line["error"] is None]
    asked = len({line["question_id"] for line in lines})
    if not asked:
        return {}
    totals = found["totals"]
    tokens, seconds = totals["tokens"], totals["seconds"]
    return {
        "turns_per_question": len(lines) / asked,
        "pictures_per_question": sum(len(line["views"]) for line in lines) / asked,
        "tokens_in_per_question": tokens["in"] / asked,
        "tokens_out_per_question": tokens["out"] / asked,
        "seconds_per_question": (seconds["rendering"] + seconds["generating"]) / asked,
    }


def varied_names(cells: Sequence[Cell]) -> list[str]:
    """Return the options that vary over some cells, in the order in which they come."""
    return list(dict.fromkeys(name for cell in cells for name in cell.varied))


def as_csv(rows: Sequence[Row], varied: Sequence[str]) -> str:
    """Return the rows as CSV, options that vary after the label; what is not known stays empty."""
    text = io.StringIO()
    columns = ["label", *varied, *COLUMNS[1:]]
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


SHORT = ("official", "95 %", "difference", "95 %", "answered", "failed", "turns", "pictures",
         "tokens", "seconds")  # fmt: skip
"""The columns that a person reads; those from turns on are of a question on average."""


def words(row: Mapping[str, Any], baseline: str) -> tuple[str, ...]:
    """Return the figures of a row as a person reads them, in the columns of SHORT."""
    if row["questions"] is None:
        return (*("–",) * (len(SHORT) - 1), row["status"])
    tokens = _sum(row["tokens_in_per_question"], row["tokens_out_per_question"])
    active = f" + {row['active']} active" if row["active"] else ""
    return (
        figure(row["official"]),
        interval(_bounds(row, "official")),
        "baseline" if row["label"] == baseline else signed(row["difference"]),
        interval(_bounds(row, "difference")),
        f"{row['answered'] + row['exhausted']} of {row['questions']}",
        f"{row['failed']}{active}",
        figure(row["turns_per_question"]),
        figure(row["pictures_per_question"]),
        "–" if tokens is None else f"{tokens:,.0f}",
        "–" if row["seconds_per_question"] is None else f"{row['seconds_per_question']:.2f}",
    )


def named(sweep: Sweep, rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Return the head of the first column and what stands in it: values alone where they say it all."""
    varied = varied_names(sweep.cells)
    values = [cell.varied for cell in sweep.cells]
    if (
        varied
        and all([*value] == varied for value in values)
        and not any(cell.given for cell in sweep.cells)
    ):
        return " · ".join(varied), [" · ".join(value.values()) for value in values]
    return "run", [row["label"] for row in rows]


def title(sweep: Sweep) -> str:
    """Return what stands over the figures of a sweep."""
    partial = any(cell.config.partial for cell in sweep.cells)
    return f"Sweep {sweep.name}{' (PARTIAL)' if partial else ''}"


def as_markdown(sweep: Sweep, rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> str:
    """Return the table as Markdown, with what must be said below it."""
    head, names = named(sweep, rows)
    lines = [
        _line([head, *SHORT]),
        "|---" + "|---:" * len(SHORT) + "|",
        *(
            _line([name, *words(row, sweep.baseline.label)])
            for name, row in zip(names, rows, strict=True)
        ),
    ]
    told = [f"- {_cell(line)}" for line in said(rows, notes)]
    return "\n".join([f"# {title(sweep)}", "", *lines, "", *CAPTION, "", *told]).rstrip() + "\n"


CAPTION = (
    "Scores are official ones in percent, over the questions that are scored; differences are paired by",
    "question with the baseline, in points. Intervals: bootstrap over scenes. Turns, pictures shown,",
    "tokens (read and written) and seconds (drawing and generating) are those of a question on average.",
)


def said(rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what must be said beside the figures, each thing once.

    The cells that it is said of stand behind it, unless it is said of all that have figures.
    """
    of: dict[str, list[str]] = {}
    for label, told in notes.items():
        for note in told:
            of.setdefault(note, []).append(label)
    every = sum(row["questions"] is not None for row in rows)
    return [
        note if len(labels) == every else f"{note} ({'; '.join(labels)})"
        for note, labels in of.items()
    ]


def _line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(_cell(part) for part in parts) + " |"


def _bounds(row: Mapping[str, Any], name: str) -> list[float] | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else [low, high]


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _cell(word: str) -> str:
    return word.replace("|", "\\|").replace("\n", " ")
