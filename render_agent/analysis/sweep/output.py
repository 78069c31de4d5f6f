"""The output of a sweep: its table as CSV, Markdown and JSON, and its plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.analysis.report.plots.palette import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILLION,
)
from render_agent.analysis.report.plots.vector_plot import STYLE, settled, short_names
from render_agent.analysis.sweep.plan import Cell, Sweep
from render_agent.analysis.sweep.table import COLUMNS, Row
from render_agent.extras import require
from render_agent.score.tables import figure, interval, probability, signed
from render_agent.system.whole_files import json_bytes, write_whole

COLOURS = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY, GREY, INK)
MARKS = "osD^"
"""Of the values by which rows are told apart, in order: a ninth value has the first colour and another mark."""

Mark = tuple[str, str]
"""A colour and a mark."""

COSTS = {
    "renders_per_question": "pictures drawn for a question",
    "tokens_in_per_question": "tokens read for a question",
}
"""What scores are set against where it varies, with its unit."""

SAME = 0.02
"""A cost that varies by less than this share of its mean does not vary."""


def plot(
    rows: Sequence[Row],
    called: tuple[str, Sequence[str]],
    title: str,
    by: str | None,
    file: Path,
) -> bool:
    """Write the plot as SVG, the same bytes for the same figures; return whether there was anything.

    rows: of figures; those without a score are left out. called: what tells the rows apart, and how each is
    called. by: the option that gives the colours, or `label` where each row has one of its own. RunLogError where it
    cannot be written.
    """
    require("a plot", "matplotlib")
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    known = [row["official"] is not None for row in rows]
    scored = [row for row, kept in zip(rows, known, strict=True) if kept]
    if not scored:
        return False
    costs = [name for name in COSTS if _varies([row[name] for row in scored])]
    marks = _marks(scored, by)
    with matplotlib.rc_context({**STYLE, "figure.facecolor": PAPER}):
        heights = [0.9 + 0.3 * len(scored), *(3.0 for _ in costs)]
        figure = Figure(figsize=(7, sum(heights) + 0.5), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(1 + len(costs), 1, squeeze=False, height_ratios=heights)[:, 0]
        shown = short_names([name for name, kept in zip(called[1], known, strict=True) if kept])
        _scores(panels[0], scored, shown, marks)
        panels[0].set_title(called[0], loc="left", fontsize=9)
        for axes, cost in zip(panels[1:], costs, strict=True):
            _against(axes, scored, cost, marks, _legend(scored, marks, by))
        if by is not None and costs:
            panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Title": title})
    write_whole(file, settled(drawn.getvalue().decode()).encode())
    return True


def _varies(values: Sequence[float | None]) -> bool:
    known = [value for value in values if value is not None]
    return len(known) > 1 and max(known) - min(known) > SAME * sum(known) / len(known)


def _marks(rows: Sequence[Row], by: str | None) -> list[Mark]:
    """Return the mark of every row: one for every value of the option `by`."""
    values = list(dict.fromkeys(row.get(by) if by else None for row in rows))
    indices = [values.index(row.get(by) if by else None) for row in rows]
    count = len(COLOURS)
    return [(COLOURS[index % count], MARKS[index // count % len(MARKS)]) for index in indices]


def _reach(row: Row) -> tuple[float, float]:
    """Return the reach of a score's interval below and above it."""
    if row["official_low"] is None:
        return 0.0, 0.0
    score = row["official"]
    return max(0.0, score - row["official_low"]), max(0.0, row["official_high"] - score)


def _legend(rows: Sequence[Row], marks: Sequence[Mark], by: str | None) -> dict[Mark, str]:
    """Return what the legend calls each mark, long names shortened; nothing where rows are not told apart."""
    if by is None:
        return {}
    called = {mark: _called(row, by) for row, mark in zip(rows, marks, strict=True)}
    return dict(zip(called, short_names(list(called.values())), strict=True))


def _called(row: Row, by: str) -> str:
    """Return the legend entry of a row; by: the option that gives the colours, or `label` for the row's own."""
    if by == "label":
        return str(row["label"])
    return f"{by.replace('_', ' ')} {row.get(by) or 'as given'}"


def _scores(axes: Any, rows: Sequence[Row], names: Sequence[str], marks: Sequence[Mark]) -> None:
    for y, (row, (colour, mark)) in enumerate(zip(rows, marks, strict=True)):
        below, above = _reach(row)
        axes.errorbar(
            row["official"], y, xerr=[[below], [above]], fmt=mark, color=colour, capsize=3
        )
        axes.annotate(
            f"{row['official']:.1f}",
            (row["official"], y),
            textcoords="offset points",
            xytext=(0, 5),
            ha="center",
            fontsize=8,
        )
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.7)
    axes.set_xlabel("official score in percent, 95 % interval")
    axes.margins(x=0.08)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _against(
    axes: Any,
    rows: Sequence[Row],
    cost: str,
    marks: Sequence[Mark],
    legend: Mapping[Mark, str],
) -> None:
    """Draw scores over a cost; a line joins those of one mark, by cost. legend: what each mark is called, if at all."""
    for colour, mark in dict.fromkeys(marks):
        points = [
            row
            for row, other in zip(rows, marks, strict=True)
            if other == (colour, mark) and row[cost] is not None
        ]
        if not points:
            continue
        points.sort(key=lambda row: (row[cost], row["official"]))
        reach = [_reach(row) for row in points]
        axes.errorbar(
            [row[cost] for row in points],
            [row["official"] for row in points],
            yerr=[[low for low, _ in reach], [high for _, high in reach]],
            fmt=f"{mark}-",
            linewidth=1,
            color=colour,
            capsize=3,
            label=legend.get((colour, mark)),
        )
    axes.set_xlabel(f"{COSTS[cost]}, on average")
    axes.set_ylabel("official score in percent")
    axes.margins(x=0.05)
    axes.grid()


COLUMN_HEADS = ("official", "95 %", "difference", "95 %", "p", "Holm", "answered", "failed", "turns", "shown",
         "drawn", "read", "written", "seconds")  # fmt: skip
"""The columns that a person reads; those from turns on are of a question on average."""

CAPTION = (
    "Scores are official ones in percent, over the questions that are scored; differences are paired by",
    "question with the baseline, in points. Intervals and p: jackknife over scenes, none below 6; Holm: p",
    "corrected for the number of rows. Turns, pictures shown and",
    "drawn (those of candidates too), tokens read and written, and seconds of drawing and generating are",
    "those of a question on average.",
)


def write_sweep(sweep: Sweep, rows: list[Row], notes: Mapping[str, list[str]]) -> dict[str, Path]:
    """Write the table, as CSV, Markdown and JSON, and the plot beside the runs; return the files.

    RunLogError where they cannot be written.
    """
    folder = Path(sweep.cells[0].config.output)
    varied = varied_names(sweep.cells)
    data = {"name": sweep.name, "baseline": sweep.baseline.row, "cells": rows, "notes": notes}
    files = {
        "table": folder / "table.md",
        "csv": folder / "table.csv",
        "json": folder / "table.json",
    }
    write_whole(files["csv"], as_csv(rows, varied).encode())
    write_whole(files["table"], as_markdown(sweep, rows, notes).encode())
    write_whole(files["json"], json_bytes(data))
    labelled = all(cell.labelled for cell in sweep.cells)
    by = "label" if labelled else varied[0] if varied else None
    heading = f"{title(sweep)}: official score"
    if plot(rows, row_names(sweep, rows), heading, by, folder / "plot.svg"):
        files["plot"] = folder / "plot.svg"
    return files


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


def row_cells(row: Mapping[str, Any], baseline: str) -> tuple[str, ...]:
    """Return the figures of a row as a person reads them, in the columns of COLUMN_HEADS."""
    if row["questions"] is None:
        return (*("–",) * (len(COLUMN_HEADS) - 1), row["status"])
    active = f" + {row['active']} active" if row["active"] else ""
    return (
        figure(row["official"]),
        interval(_bounds(row, "official")),
        "baseline" if row["label"] == baseline else signed(row["difference"]),
        interval(_bounds(row, "difference")),
        *("" if row[name] is None else probability(row[name]) for name in ("p", "p_holm")),
        f"{row['answered'] + row['exhausted']} of {row['questions']}",
        f"{row['failed']}{active}",
        figure(row["turns_per_question"]),
        figure(row["pictures_per_question"]),
        figure(row["renders_per_question"]),
        _number_text(row["tokens_in_per_question"]),
        _number_text(row["tokens_out_per_question"]),
        "–" if row["seconds_per_question"] is None else f"{row['seconds_per_question']:.2f}",
    )


def row_names(sweep: Sweep, rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Return the head of the first column and what stands in it: values alone where they say it all."""
    cells = [cells[0] for cells in sweep.rows]
    varied = varied_names(cells)
    values = [cell.varied for cell in cells]
    labelled = any(cell.labelled for cell in cells)
    if varied and not labelled and all([*value] == varied for value in values):
        return " · ".join(varied), [" · ".join(value.values()) for value in values]
    return "run", [row["label"] for row in rows]


def title(sweep: Sweep) -> str:
    """Return the heading of a sweep's figures."""
    partial = any(cell.config.partial for cell in sweep.cells)
    return f"Sweep {sweep.name}{' (PARTIAL)' if partial else ''}"


def as_markdown(sweep: Sweep, rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> str:
    """Return the table as Markdown, with what must be said below it."""
    head, names = row_names(sweep, rows)
    lines = [
        f"# {title(sweep)}",
        "",
        _line([head, *COLUMN_HEADS]),
        "|---" + "|---:" * len(COLUMN_HEADS) + "|",
        *(
            _line([name, *row_cells(row, sweep.baseline.row)])
            for name, row in zip(names, rows, strict=True)
        ),
        "",
        *caption(sweep),
        "",
        *(f"- {_escaped(note)}" for note in footnotes(rows, notes)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def caption(sweep: Sweep) -> list[str]:
    """Return the caption that explains the figures of a sweep."""
    seeds = max(len(cells) for cells in sweep.rows)
    more = f"A row has {seeds} runs, each with its own seed; questions are paired seed by seed."
    return [*CAPTION, *([more] if seeds > 1 else [])]


def footnotes(rows: Sequence[Row], notes: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the footnotes of the figures, each once.

    The cells that it is said of stand behind it, unless it is said of all that have figures.
    """
    labels_of: dict[str, list[str]] = {}
    for label, own in notes.items():
        for note in own:
            labels_of.setdefault(note, []).append(label)
    count = sum(row["questions"] is not None for row in rows)
    return [
        note if len(labels) == count else f"{note} ({'; '.join(labels)})"
        for note, labels in labels_of.items()
    ]


def _line(parts: Sequence[str]) -> str:
    return "| " + " | ".join(_escaped(part) for part in parts) + " |"


def _bounds(row: Mapping[str, Any], name: str) -> list[float] | None:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return None if low is None else [low, high]


def _number_text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
