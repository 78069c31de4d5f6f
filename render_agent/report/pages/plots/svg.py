"""SVG output with matplotlib: shared style and helpers for all plots."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from render_agent.extras import require
from render_agent.report.pages.plots.palette import CYCLE, INK, LINE, PAPER, SOFT
from render_agent.util.sanitize import escape_unsafe

WIDTH = 5.2  # inches; about the width of a phone in points
MARKERS = "osD^vP"
MAX_NAME_CHARS = 38  # characters of a row label; the longest type with four digits of n has 37

STYLE = {
    "svg.hashsalt": "render-agent",  # reproducible ids
    "svg.fonttype": "none",
    "text.parse_math": False,  # treat $ literally
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": SOFT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9.5,
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


def draw_svg(paint: Callable[[Any], None], *, height: float = 3.0) -> str:
    """Return a plot as SVG."""
    require("a plot", "matplotlib")
    return render_plot(paint, height)


def render_plot(paint: Callable[[Any], None], height: float) -> str:
    """Render a plot of this height in inches as SVG."""
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style = {**STYLE, "axes.prop_cycle": cycler(color=CYCLE)}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        canvas, file = FigureCanvasSVG(figure), io.StringIO()
        paint(figure.subplots())
        canvas.print_svg(file, metadata={"Date": None})
    return file.getvalue()


def series_style(number: int) -> tuple[str, str]:
    """Return colour and marker of the series with this number in a plot."""
    return CYCLE[number % len(CYCLE)], MARKERS[number % len(MARKERS)]


def legend(axes: Any, columns: int = 3) -> None:
    """Put the legend above the axes."""
    axes.figure.legend(loc="outside upper left", ncols=columns)


def label_curve_axes(axes: Any, x: str, y: str, columns: int = 3) -> None:
    """Set up the axes of curves over whole numbers, with a legend of this many columns; 0 for none."""
    axes.grid(axis="y")
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if columns:
        legend(axes, columns)


def start_at_zero(axes: Any) -> None:
    """Start the y axis at 0, with space above the highest value so that no marker is cut off."""
    axes.set_ylim(0, 1.05 * axes.dataLim.y1 or 1)


def name_rows(axes: Any, names: Sequence[str]) -> None:
    """Label the rows of a plot at y = 0, 1, … from top to bottom; long labels are elided in the middle."""
    axes.set_yticks(range(len(names)), [elide(name, MAX_NAME_CHARS) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)


def elide(name: str, longest: int) -> str:
    """Return a label without control characters, elided in the middle if it has more than `longest` characters."""
    label, head = escape_unsafe(name), longest // 3
    return label if len(label) <= longest else f"{label[:head]}…{label[head + 1 - longest :]}"


def interval_line(axes: Any, bounds: Sequence[float] | None, y: float, colour: str) -> None:
    """Draw a confidence interval, if there is one, as a horizontal line."""
    if bounds is not None:
        axes.plot(bounds, [y, y], color=colour, lw=1.7, solid_capstyle="butt")
