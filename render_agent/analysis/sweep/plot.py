"""The plot of a sweep: every cell's score with its interval, and scores against what they cost."""

from __future__ import annotations

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
from render_agent.analysis.report.plots.vector_plot import STYLE, settled
from render_agent.extras import require

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

Row = Mapping[str, Any]


def plot(
    rows: Sequence[Row],
    called: tuple[str, Sequence[str]],
    title: str,
    by: str | None,
    file: Path,
) -> bool:
    """Write the plot as SVG, the same bytes for the same figures; return whether there was anything.

    rows: of figures; those without a score are left out. called: what tells the rows apart, and how each is
    called. by: the option that gives the colours, or `label` where each row has one of its own. OSError where it cannot be written.
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
        shown = [name for name, kept in zip(called[1], known, strict=True) if kept]
        _scores(panels[0], scored, shown, marks)
        panels[0].set_title(called[0], loc="left", fontsize=9)
        for axes, cost in zip(panels[1:], costs, strict=True):
            _against(axes, scored, cost, marks, by)
        if by is not None and costs:
            panels[1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=11)
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Title": title})
    file.write_text(settled(drawn.getvalue().decode()), "utf-8")
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
    """Return how far the interval of a score reaches below and above it."""
    if row["official_low"] is None:
        return 0.0, 0.0
    score = row["official"]
    return max(0.0, score - row["official_low"]), max(0.0, row["official_high"] - score)


def _called(row: Row, by: str) -> str:
    """Return what a colour means; by: the option that gives the colours, or `label`, its rows' own."""
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
    axes: Any, rows: Sequence[Row], cost: str, marks: Sequence[Mark], by: str | None
) -> None:
    """Draw scores over a cost; a line joins those of one mark, by cost."""
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
            label=None if by is None else _called(points[0], by),
        )
    axes.set_xlabel(f"{COSTS[cost]}, on average")
    axes.set_ylabel("official score in percent")
    axes.margins(x=0.05)
    axes.grid()
