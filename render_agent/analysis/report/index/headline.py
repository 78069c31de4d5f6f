"""The score of a run, set against chance, papers, and by its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.counts import in_order
from render_agent.analysis.report.plots.vector_plot import Plot, above, draw
from render_agent.analysis.report.words import type_words
from render_agent.score.means import DIRECTION
from render_agent.score.official import DIRECTION_TYPES
from render_agent.score.published import PUBLISHED
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import figure, interval

Bounds = Sequence[float] | None

MARKS = {
    "random": ("|", palette.SOFT),
    "frequency": ("D", palette.GREY),
    "human": ("^", palette.GREEN),
}
"""How what others scored is drawn beside a run."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One name in a plot of scores in percent, with its interval; own: whether it is this run."""

    name: str
    score: float
    bounds: Bounds = None
    own: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class TypeScore:
    """The score of one type or task, and what others score, by their names."""

    name: str
    n: int
    score: float
    bounds: Bounds
    levels: Mapping[str, float | None]


def _asks_vsibench(report: ReportData) -> bool:
    return report.config.batch and report.config.asks_vsibench


def official(results: Mapping[str, Any]) -> float | None:
    """Return the official score of some results, over what was scored where answers are lacking."""
    over: float | None = results["official_over_scored"]["score"]
    return over


def bounds_of(results: Mapping[str, Any]) -> Bounds:
    """Return the interval of the official score."""
    found: Bounds = results["intervals"].get(OFFICIAL)
    return found


def against_papers(report: ReportData) -> Plot | None:
    """The official score against published rows; None where the questions are not VSI-Bench's."""
    own = official(report.results)
    if own is None or not _asks_vsibench(report):
        return None
    rows = [
        Standing(row.name, row.official, note=", ".join(filter(None, (row.note, row.source))))
        for row in PUBLISHED
    ]
    told = "; ".join([*report.stamps, *report.notes])
    count = f"{report.results['official_over_scored']['n']:,} questions"
    rows.append(
        Standing(f"this run ({count})", own, bounds_of(report.results), own=True, note=told)
    )
    return standings(
        "papers",
        "Official score against published rows, %",
        rows,
        "The papers' models watch a video of the scene; this run is asked of the scan. Rows are over all"
        f" of VSI-Bench unless said otherwise.{f' This run: {told}.' if told else ''}",
    )


def against_chance(report: ReportData) -> Plot | None:
    """The score of every type with its interval, against chance and, for VSI-Bench, people."""
    found = report.results
    if not found["types"]:
        return None
    chance = {name: dict(levels) for name, levels in found["chance"].items()}
    if _asks_vsibench(report):
        chance["human"] = dict(PUBLISHED[0].tasks)
    rows = [
        TypeScore(
            name,
            number,
            score,
            found["intervals"].get(name),
            {who: chance[who].get(name) for who in chance},
        )
        for name, (number, score) in _types(found).items()
    ]
    return draw(
        "types",
        "Score by type, with 95 % intervals",
        "A dot a type with its interval, beside marks of what chance and others score.",
        lambda axes: _paint_types(axes, rows),
        ("type", "n", "score, %", "95 % interval", *(f"{who}, %" for who in chance)),
        [
            (
                type_words(row.name),
                row.n,
                figure(row.score),
                interval(list(row.bounds) if row.bounds else None) or "–",
                *(figure(row.levels[who]) for who in chance),
            )
            for row in rows
        ],
        height=1.2 + 0.27 * len(rows),
        note="Intervals: bootstrap over scenes. Random: the mean score of a uniform choice among the"
        " options. Frequency: the commonest answer to each type, fitted on these very truths.",
    )


def _paint_types(axes: Any, rows: Sequence[TypeScore]) -> None:
    for who, (mark, colour) in MARKS.items():
        points = [
            (row.levels[who], y) for y, row in enumerate(rows) if row.levels.get(who) is not None
        ]
        if points:
            axes.plot(
                *zip(*points, strict=True), mark, color=colour, ls="none", label=who,
                ms=12 if mark == "|" else 7.5, mew=1.4, mfc="none", clip_on=False,
            )  # fmt: skip
    for y, row in enumerate(rows):
        if row.bounds is not None:
            axes.plot(row.bounds, [y, y], color=palette.BLUE, lw=1.8, solid_capstyle="butt")
    axes.plot(
        [row.score for row in rows], range(len(rows)), "o", color=palette.BLUE, ms=6,
        label="this run", clip_on=False,
    )  # fmt: skip
    axes.set_yticks(range(len(rows)), [type_words(row.name) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.grid(axis="both")
    axes.set_xlabel("score, %")
    above(axes, 4)


def by_dataset(report: ReportData) -> Plot | None:
    """The official score of every data set; None where there is one only."""
    parts = report.results["datasets"]
    rows = [
        Standing(f"{name} (n = {part['n']})", part[OFFICIAL], part["intervals"].get(OFFICIAL), True)
        for name, part in parts.items()
        if part[OFFICIAL] is not None
    ]
    if len(rows) < 2:
        return None
    return standings("datasets", "Official score by data set, %", rows, "")


def standings(
    name: str, title: str, rows: Sequence[Standing], note: str, *, keep_order: bool = False
) -> Plot:
    """Return a plot of one score a name, with the best first unless the order is to be kept."""
    rows = rows if keep_order else sorted(rows, key=lambda row: -row.score)

    def paint(axes: Any) -> None:
        for place, row in enumerate(rows):
            colour = palette.BLUE if row.own else palette.GREY
            if row.bounds is not None:
                axes.plot(row.bounds, [place, place], color=colour, lw=1.8, solid_capstyle="butt")
            axes.plot(row.score, place, "o", color=colour, ms=7 if row.own else 5)
            end = max(row.score, *(row.bounds or (0,)))
            axes.annotate(
                f"{row.score:.1f}", (end, place), (6, 0), textcoords="offset points", va="center",
                fontsize=8.5, weight="bold" if row.own else "normal",
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.grid(axis="x")
        axes.set_xlabel("score, %")

    noted = any(row.note for row in rows)
    return draw(
        name,
        title,
        "A dot a name at its score, with its 95 % interval where one is known.",
        paint,
        ("", "score, %", "95 % interval", *(["what it is"] if noted else [])),
        [
            (
                row.name,
                figure(row.score),
                interval(list(row.bounds) if row.bounds else None) or "–",
                *([row.note] if noted else []),
            )
            for row in rows
        ],
        height=0.85 + 0.25 * len(rows),
        note=note,
    )


def _types(found: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    """Return n and score of every type that was scored, the three directions below their task."""
    types = found["types"]
    asked = sum(types[name]["n"] for name in DIRECTION_TYPES if name in types)
    scores: dict[str, tuple[int, float | None]] = {}
    for name in in_order(types):
        if name in DIRECTION_TYPES and DIRECTION in found["tasks"]:
            scores.setdefault(DIRECTION, (asked, found["tasks"][DIRECTION]))
        scores[name] = types[name]["n"], types[name]["score"]
    return {name: (n, score) for name, (n, score) in scores.items() if score is not None}
