"""Plots of beliefs: what broke first by type, the maps by turn, calibration, and revision."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from render_agent.analysis.diagnosis.failure_summary import failure_summary, reading
from render_agent.analysis.diagnosis.model import Failure
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.vector_plot import (
    Plot,
    above,
    draw,
    stacked,
    whole,
)
from render_agent.analysis.report.words import FAILURE_WORDS, in_order, meant, type_words
from render_agent.beliefs.belief_summary import WORDS

COLOURS = {
    Failure.RIGHT: palette.BLUE,
    Failure.NEVER_SEEN: palette.ORANGE,
    Failure.PERCEPTION: palette.VERMILLION,
    Failure.MEMORY: palette.PURPLE,
    Failure.REASONING: palette.GREEN,
    Failure.NOT_READABLE: palette.GREY,
    Failure.UNKNOWN: palette.SKY,
}
"""The colour of what broke first, in the order in which it would."""

FOLLOWED = {
    "seen_found": "seen well, on the map, %",
    "updated": "seen since, added, %",
    "unseen_right": "said rightly to be unseen or not, %",
    "follows": "answers as the map does, %",
    "own_answer": "score of the map's answers",
    "answer": "score of the given answers",
}
"""What else a diagnosis tells of beliefs, by its name among its figures."""

KEPT = "Kept: of what was on the map before, what still is. "
"""What a column of the figures means."""

CURVES = {
    "found": ("of all named, on its map", palette.BLUE, "o"),
    "right": ("of its map, true", palette.GREEN, "s"),
    "seen_found": ("of what was seen well, on its map", palette.ORANGE, "^"),
}
"""By its name among the figures, what a curve shows."""


def belief_plots(report: ReportData) -> list[Plot]:
    """Return the plots of beliefs; none where the model was not asked for them."""
    if "beliefs" not in report.results:
        return []
    summary = failure_summary(report.states, report.diagnoses, report.config.image_size)
    plots = (
        first_failures(summary) if summary else None,
        maps_by_turn(report, summary),
        calibration(report.results["beliefs"]),
    )
    return [plot for plot in plots if plot is not None]


def first_failures(summary: Mapping[str, Any]) -> Plot | None:
    """What broke first, in shares of the questions of every type."""
    groups = _groups(summary["all"], summary)
    rows = {name: figures for name, figures in groups.items() if figures["questions"]}
    present = [f for f in COLOURS if any(row["failures"][str(f)] for row in rows.values())]
    if not present:
        return None

    def paint(axes: Any) -> None:
        names = [f"{name} (n = {r['questions']})" for name, r in rows.items()]
        parts = {
            str(f): (
                COLOURS[f],
                [100 * r["failures"][str(f)] / r["questions"] for r in rows.values()],
            )
            for f in present
        }
        stacked(axes, names, parts, "questions")

    return draw(
        "failures",
        "What broke first: perception, memory or reasoning",
        "Stacked bars, one a type, of the share of questions by the first thing that broke.",
        paint,
        (
            "type",
            "n",
            *(part for f in present for part in (str(f), f"{f}, % (95 % interval)")),
            *FOLLOWED.values(),
        ),
        [
            (
                name,
                row["questions"],
                *(
                    cell
                    for f in present
                    for cell in (row["failures"][str(f)], _cell(row["shares"][str(f)]))
                ),
                *map(partial(_named_cell, row), FOLLOWED),
            )
            for name, row in rows.items()
        ],
        height=1.3 + 0.27 * len(rows),
        note=f"{reading(summary['all'])} {meant(present, FAILURE_WORDS)}",
    )


def _groups(whole: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the figures of all questions and of every type, by what they are called."""
    types = {type_words(kind): figures["types"][kind] for kind in in_order(figures["types"])}
    return {"all types": whole, **types}


def maps_by_turn(report: ReportData, summary: Mapping[str, Any] | None) -> Plot | None:
    """How much of what a question names is on its map after every turn, and how much of the map is true; below, last maps by type and change."""
    turns = report.results["beliefs"]["turns"]
    by_turn = {row["turn"]: row["seen_found"] for row in summary["turns"]} if summary else {}
    rows = [{**row, "seen_found": by_turn.get(row["turn"])} for row in turns]
    curves = [name for name in CURVES if any(row.get(name) for row in rows)]
    if not curves:
        return None

    def paint(axes: Any) -> None:
        for name in curves:
            label, colour, mark = CURVES[name]
            known = [(row["turn"] + 1, row[name]) for row in rows if row.get(name)]
            numbers, values = [turn for turn, _ in known], [figure["value"] for _, figure in known]
            told = f"{label} (n = {known[-1][1]['n']})"
            axes.plot(numbers, values, color=colour, marker=mark, ms=4, label=told, clip_on=False)
            if all(figure["interval"] for _, figure in known):
                low, high = zip(*(figure["interval"] for _, figure in known), strict=True)
                axes.fill_between(numbers, low, high, color=colour, alpha=0.15, lw=0)
        axes.set_ylim(0, 100)
        axes.grid(axis="y")
        axes.set_xlabel("turn")
        axes.set_ylabel("objects, %")
        whole(axes.xaxis)
        above(axes, 1)

    radius = report.results["beliefs"]["radius_metres"]
    beliefs = report.results["beliefs"]
    labelled = {f"after turn {row['turn'] + 1}": row for row in rows}
    seen = _groups(summary["all"], summary) if summary else {}
    for name, row in _groups(beliefs["last"], beliefs).items():
        labelled[f"last, {name}"] = {**row, "seen_found": seen.get(name, {}).get("seen_found")}
    others = {
        name: words
        for name, words in WORDS.items()
        if name not in CURVES and any(name in row for row in labelled.values())
    }
    return draw(
        "beliefs",
        "Its map by turn",
        "Curves over turns of the share of named objects on the map, and of objects of the map that are true.",
        paint,
        ("", *(f"{CURVES[name][0]}, %" for name in curves), *others.values()),
        [
            (name, *map(partial(_named_cell, row), curves), *map(partial(_named_cell, row), others))
            for name, row in labelled.items()
        ],
        height=3.3,
        note=f"An object is found where the map has one of its category within {radius:g} m of its middle. n:"
        f" objects after the last turn. {KEPT if 'kept' in others else ''}A question that has ended keeps its last map. 95 %"
        " intervals, jackknife over scenes.",
    )


def calibration(beliefs: Mapping[str, Any]) -> Plot | None:
    """How often a believed object is there, by how sure the model is of it; None where it did not say."""
    bins = beliefs["calibration"]
    if not bins:
        return None

    def paint(axes: Any) -> None:
        axes.plot(
            (0, 100), (0, 100), color=palette.GREY, lw=1, ls="--", label="as sure as it is right"
        )
        sure, right = ([100 * row[name] for row in bins] for name in ("sure", "found"))
        axes.plot(sure, right, color=palette.BLUE, marker="o", ms=4, label="its objects")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 100)
        axes.grid(axis="y")
        axes.set_xlabel("how sure, %")
        axes.set_ylabel("on the map where they are, %")
        above(axes, 2)

    errors = (f"{WORDS[name]} {_named_cell(beliefs['last'], name)}" for name in ("ece", "brier"))
    return draw(
        "calibration",
        "How sure it is, and how often it is right",
        "A curve of the share of believed objects that are there, by how sure the model is of them.",
        paint,
        ("how sure, from, %", "objects", "how sure, mean, %", "there, %"),
        [
            (
                f"{100 * row['from']:.0f}",
                row["n"],
                f"{100 * row['sure']:.0f}",
                f"{100 * row['found']:.0f}",
            )
            for row in bins
        ],
        note=f"Objects of the last maps. {'; '.join(errors)}; both are 0 at best.",
    )


def _named_cell(row: Mapping[str, Any], name: str) -> str:
    return _cell(row.get(name))


def _cell(figure: Mapping[str, Any] | None) -> str:
    """Return a figure as a table has it, with its interval where it has one."""
    if figure is None:
        return "–"
    value = figure["value"]
    digits = 0 if value > 9 else 2
    if figure["interval"] is None:
        return f"{value:.{digits}f}"
    low, high = figure["interval"]
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"
