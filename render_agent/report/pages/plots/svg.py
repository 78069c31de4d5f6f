"""From matplotlib to SVG: one style and one function for every plot of the project."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from render_agent.extras import require
from render_agent.report.pages.plots.palette import CYCLE, INK, LINE, PAPER, SOFT
from render_agent.util.sanitize import visible

WIDTH = 5.2  # inches; about as many points as a phone is wide

LONGEST_NAME = 34  # characters of a row's name: about half the width of a plot

STYLE = {
    "svg.hashsalt": "render-agent",  # the same plot gets the same ids
    "svg.fonttype": "none",
    "text.parse_math": False,  # a $ in a name is a $
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "figure.facecolor": PAPER,
    "grid.color": LINE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.2,
    "legend.columnspacing": 1.2,
    "patch.edgecolor": PAPER,
    "lines.linewidth": 1.8,
}


def draw_svg(paint: Callable[[Any], None], *, width: float = WIDTH, height: float = 3.0) -> str:
    """Return a figure as SVG.

    Args:
        paint: Draws on the matplotlib Figure that it is given.
        width: Inches.
        height: Inches.
    """
    require("a plot", "matplotlib")
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style = {**STYLE, "axes.prop_cycle": cycler(color=CYCLE)}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height), layout="constrained")
        canvas, file = FigureCanvasSVG(figure), io.StringIO()
        paint(figure)
        canvas.print_svg(file, metadata={"Date": None})
    return file.getvalue()


def legend(axes: Any, columns: int = 3) -> None:
    """Put the legend above the axes."""
    axes.figure.legend(loc="outside upper left", ncols=columns)


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """Name the rows of a plot at y = 0, 1, …, the first on top; long names lose their middle."""
    head = LONGEST_NAME // 3
    shown = [visible(name) for name in names]
    short = [n if len(n) <= LONGEST_NAME else f"{n[:head]}…{n[head + 1 - LONGEST_NAME :]}" for n in shown]  # fmt: skip
    axes.set_yticks(range(len(names)), short)
    axes.set_ylim(len(names) - 0.4, -0.6)


def interval_line(axes: Any, bounds: Sequence[float] | None, y: float, colour: str) -> None:
    """Draw an interval as a horizontal line, nothing if there is none."""
    if bounds is not None:
        axes.plot(bounds, [y, y], color=colour, lw=1.7, solid_capstyle="butt")
