"""SVG output with matplotlib: shared style and helpers for all plots."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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


class Dots(NamedTuple):
    """A series of a dot plot, with a value per row."""

    label: str
    colour: str
    marker: str
    values: Sequence[float | None]
    intervals: Sequence[Sequence[float] | None] = ()
    """Confidence intervals of the values; a series without any is drawn hollow."""


def draw_dots(
    names: Sequence[str],
    series: Sequence[Dots],
    x_label: str,
    *,
    title: str = "",
    limits: tuple[float, float] | None = (-1, 101),  # None: around zero, which is marked
    row_height: float = 0.27,
    columns: int = 3,  # of the legend; 0 for none
    side_by_side: bool = True,  # move the series of a row apart
) -> str:
    """Draw values with their confidence intervals in rows."""
    step = 0.6 / len(series) if side_by_side and len(series) > 1 else 0.0

    def paint(axes: Any) -> None:
        for number, dots in enumerate(series):
            offset = step * (number - (len(series) - 1) / 2)
            rows = [(value, y + offset) for y, value in enumerate(dots.values) if value is not None]
            for y, bounds in enumerate(dots.intervals):
                if bounds is not None:
                    ends = [y + offset, y + offset]
                    axes.plot(bounds, ends, color=dots.colour, lw=1.7, solid_capstyle="butt")
            size, fill = (5.5, dots.colour) if dots.intervals else (7.5, "none")
            style = {"color": dots.colour, "ms": size, "mfc": fill, "clip_on": False}
            if rows:
                axes.plot(*zip(*rows, strict=True), dots.marker, label=dots.label, **style)
        name_rows(axes, names)
        if limits is None:
            axes.axvline(0, color=INK, lw=0.9)
            limit = max(5.0, *(abs(end) for end in axes.get_xlim()))
        axes.set_xlim(*(limits or (-limit, limit)))
        axes.grid(axis="x")
        axes.set_xlabel(x_label)
        if title:
            axes.set_title(title, loc="left")
        if columns:
            legend(axes, columns)

    return draw_svg(paint, height=1.0 + row_height * len(names))
