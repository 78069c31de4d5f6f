"""The curves of a training, drawn: loss, scores in validation and whatever else was kept, against hours."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from render_agent.analysis.report.plots.palette import (
    BLUE,
    GREEN,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILLION,
)
from render_agent.analysis.report.plots.vector_plot import LEGEND, STYLE, settled

COLOURS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY)
"""Of the curves of a panel, in their order."""

FEW = 60
"""Curves of at most so many points show each as a dot."""

Curve = Mapping[str, Any]
"""`name`, `unit`, as many `hours` as `values`, and the `stage` that it is of, where there are several."""


def draw_curves(curves: Sequence[Curve], file: Path) -> None:
    """Write curves as SVG, the same bytes for the same figures: a panel a stage and unit, its hours along the bottom.

    ValueError where a curve has not as many values as hours.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    panels: dict[tuple[str, str], list[Curve]] = {}
    for curve in curves:
        panels.setdefault((curve.get("stage", ""), curve["unit"]), []).append(curve)
    with matplotlib.rc_context({**STYLE, "figure.facecolor": PAPER}):
        figure = Figure(figsize=(7, 0.4 + 1.8 * len(panels)), layout="constrained")
        FigureCanvasSVG(figure)
        drawn_on = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
        for axes, ((stage, unit), shown) in zip(drawn_on, panels.items(), strict=True):
            axes.set_title(stage, loc="left")
            _panel(axes, shown, unit)
        drawn_on[-1].set_xlabel("hours of its stage" if len(panels) > 1 else "hours of training")
        drawn = io.BytesIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Title": "Curves of training"})
    file.write_text(settled(drawn.getvalue().decode()), "utf-8")


def _panel(axes: Any, curves: Sequence[Curve], unit: str) -> None:
    for curve, colour in zip(curves, cycle(COLOURS), strict=False):
        hours, values = curve["hours"], curve["values"]
        if len(hours) != len(values):
            raise ValueError(
                f"the curve {curve['name']} has {len(hours)} hours and {len(values)} values"
            )
        mark = "o" if len(hours) <= FEW else None
        axes.plot(hours, values, marker=mark, ms=3, lw=1.4, color=colour, label=curve["name"])
    axes.set_ylabel(unit)
    axes.grid()
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=LEGEND)
