"""The plot of a comparison: how many questions an hour each variant answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.extras import require
from render_agent_lab.bench.report import label

COLOURS = {"none": "#9aa5b1", "vision": "#d99a2b", "keys": "#1f77b4", "own": "#2ca02c"}


def plot(rows: Sequence[Mapping[str, Any]], title: str, file: Path) -> None:
    """Write the plot as SVG, the same bytes for the same figures. SetupError without matplotlib."""
    require("a plot", "matplotlib", instead="leave --to out")
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style = {"svg.hashsalt": "render-agent", "svg.fonttype": "none", "text.parse_math": False}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(9, 1.6 + 0.4 * len(rows)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        _draw(axes, rows)
        axes.set_title(title, loc="left", fontsize=11)
        figure.savefig(file, format="svg", metadata={"Date": None})


def _draw(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    rates = [row["questions_an_hour"] for row in rows]
    bars = axes.barh(
        range(len(rows)), rates, color=[COLOURS.get(row["reuse"], "#2ca02c") for row in rows]
    )
    axes.bar_label(bars, [_beside(row) for row in rows], padding=4, fontsize=8)
    axes.set_yticks(range(len(rows)), [label(row, rows) for row in rows], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.3 * max(rates, default=1))
    axes.set_xlabel("questions an hour")
    axes.set_ylabel("schedule, reuse, batch size B")
    axes.spines[["top", "right"]].set_visible(False)


def _beside(row: Mapping[str, Any]) -> str:
    times = [
        f"{row[name]:.1f}× {words}"
        for name, words in (("times_sequential", "sequential"), ("times_two_phase", "two-phase"))
        if row.get(name) is not None
    ]
    return ", ".join([f"{row['questions_an_hour']:,}", *times])
