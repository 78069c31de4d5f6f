"""Plot of the beliefs of a run by turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.diagnosis.summary import summarize_diagnoses
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.run_plots import Plot, interval_note, shade_band
from render_agent.report.pages.plots.svg import draw_svg, label_curve_axes
from render_agent.runs.read import RunData

# figure of the beliefs -> label, colour and marker
CURVES = {
    "found": ("found: named objects on its map", palette.BLUE, "o"),
    "right": ("precision: objects on its map that exist", palette.GREEN, "s"),
    "seen_found": ("clearly visible objects on its map", palette.ORANGE, "^"),
}


def plot_maps(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> Plot | None:
    """Plot recall and precision of the model's map by turn."""
    if "beliefs" not in run.results:
        return None
    beliefs = run.results["beliefs"]
    figures = summarize_diagnoses(run.states, diagnoses, run.config.image_size)
    by_turn = figures["beliefs"]["turns"] if "beliefs" in figures else []
    seen_found = {row["turn"]: row["seen_found"] for row in by_turn}
    rows = [{**row, "seen_found": seen_found.get(row["turn"])} for row in beliefs["turns"]]
    curves = [name for name in CURVES if any(row.get(name) for row in rows)]
    if not curves:
        return None

    def paint(axes: Any) -> None:
        for name in curves:
            label, colour, mark = CURVES[name]
            known_rows = [row for row in rows if row.get(name)]
            turns, points = (
                [row["turn"] + 1 for row in known_rows],
                [row[name] for row in known_rows],
            )
            label = f"{label} (n = {points[-1]['n']})"
            axes.plot(turns, [p["value"] for p in points], mark + "-", color=colour, ms=4, label=label)  # fmt: skip
            shade_band(axes, turns, [p["interval"] for p in points], colour)
        axes.set_ylim(0, 100)
        label_curve_axes(axes, "turn", "objects (%)", 1)

    return Plot(
        "beliefs",
        "The model's map by turn",
        "Curves by turn: the share of named objects on its map, and of objects on its map that exist.",
        draw_svg(paint, height=3.3),
        f"An object counts as on the map if the map has an object of its category within {beliefs['radius_metres']:g} m"
        f" of its centre. {interval_note()}",
    )
