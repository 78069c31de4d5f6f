"""Plots of what models said that they believe: what broke first, by type, and their maps by turn."""

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
    name_rows,
    whole,
)
from render_agent.analysis.report.words import in_order, type_words
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

MEANT = {
    Failure.NEVER_SEEN: "Never seen: something that the question names was never seen well.",
    Failure.PERCEPTION: "Perception: seen well, and never on its map, or not where it is.",
    Failure.MEMORY: "Memory: on its map, and later lost.",
    Failure.REASONING: "Reasoning: the right answer follows from its last map, and another was given.",
    Failure.NOT_READABLE: "Not readable: no answer, or no belief, could be read.",
    Failure.UNKNOWN: "Unknown: nothing tells what had to be on its map.",
}

FOLLOWED = {
    "seen_found": "seen well, on the map, %",
    "updated": "seen since, added, %",
    "unseen_right": "said rightly to be unseen or not, %",
    "follows": "answers as the map does, %",
    "own_answer": "score of the map's answers",
    "answer": "score of the given answers",
}
"""What else a diagnosis tells of beliefs, by its name among its figures."""

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
    rows = {"all": summary["all"], **{kind: summary["types"][kind] for kind in in_order(summary["types"])}}  # fmt: skip
    rows = {kind: figures for kind, figures in rows.items() if figures["questions"]}
    present = [f for f in COLOURS if any(row["failures"][str(f)] for row in rows.values())]
    if not present:
        return None
    names = {kind: "all types" if kind == "all" else type_words(kind) for kind in rows}

    def paint(axes: Any) -> None:
        left = [0.0] * len(rows)
        for failure in present:
            shares = [100 * r["failures"][str(failure)] / r["questions"] for r in rows.values()]
            axes.barh(
                range(len(rows)), shares, left=left, color=COLOURS[failure], label=failure, height=0.72
            )  # fmt: skip
            left = [a + b for a, b in zip(left, shares, strict=True)]
        name_rows(axes, [f"{names[kind]} (n = {r['questions']})" for kind, r in rows.items()])
        axes.set_xlim(0, 100)
        axes.set_xlabel("questions, %")
        above(axes, 4)

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
                names[kind],
                row["questions"],
                *(
                    cell
                    for f in present
                    for cell in (row["failures"][str(f)], _cell(row["shares"][str(f)]))
                ),
                *map(partial(_of, row), FOLLOWED),
            )
            for kind, row in rows.items()
        ],
        height=1.3 + 0.27 * len(rows),
        note=" ".join([reading(summary["all"]), *(MEANT[f] for f in present if f in MEANT)]),
    )


def maps_by_turn(report: ReportData, summary: Mapping[str, Any] | None) -> Plot | None:
    """How much of what a question names is on its map after every turn, and how much of the map is true."""
    turns = report.results["beliefs"]["turns"]
    seen = {row["turn"]: row["seen_found"] for row in summary["turns"]} if summary else {}
    rows = [{**row, "seen_found": seen.get(row["turn"])} for row in turns]
    curves = [name for name in CURVES if any(row.get(name) for row in rows)]
    if not curves:
        return None

    def paint(axes: Any) -> None:
        for name in curves:
            label, colour, mark = CURVES[name]
            known = [(row["turn"] + 1, row[name]) for row in rows if row.get(name)]
            numbers, values = [turn for turn, _ in known], [figure["value"] for _, figure in known]
            axes.plot(numbers, values, color=colour, marker=mark, ms=4, label=label)
            if all(figure["interval"] for _, figure in known):
                low, high = zip(*(figure["interval"] for _, figure in known), strict=True)
                axes.fill_between(numbers, low, high, color=colour, alpha=0.15, lw=0)
        axes.set_ylim(0, 100)
        axes.grid(axis="y")
        axes.set_xlabel("turn")
        axes.set_ylabel("objects, %")
        whole(axes.xaxis)
        above(axes, 2)

    radius = report.results["beliefs"]["radius_metres"]
    others = {
        name: words
        for name, words in WORDS.items()
        if name not in CURVES and any(name in row for row in turns)
    }
    return draw(
        "beliefs",
        "Its map by turn",
        "Curves over turns of the share of named objects on the map, and of objects of the map that are true.",
        paint,
        ("turn", *(f"{CURVES[name][0]}, %" for name in curves), *others.values()),
        [
            (row["turn"] + 1, *map(partial(_of, row), curves), *map(partial(_of, row), others))
            for row in rows
        ],
        note=f"An object is found where the map has one of its category within {radius:g} m of its middle. Kept: of"
        " what was on the map before, what still is. A question that has ended keeps its last map. 95 %"
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
        sure, found = ([100 * row[name] for row in bins] for name in ("sure", "found"))
        axes.plot(sure, found, color=palette.BLUE, marker="o", ms=4, label="its objects")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 100)
        axes.grid(axis="y")
        axes.set_xlabel("how sure, %")
        axes.set_ylabel("on the map where they are, %")
        above(axes, 2)

    told = (f"{WORDS[name]} {_of(beliefs['last'], name)}" for name in ("ece", "brier"))
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
        note=f"Objects of the last maps. {'; '.join(told)}; both are 0 at best.",
    )


def _of(row: Mapping[str, Any], name: str) -> str:
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
