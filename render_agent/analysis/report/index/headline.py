"""The score of a run beside chance, published rows, its data sets, and the runs that differ in what was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from render_agent.analysis.related_runs import Sibling
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.outcome_plots import links_of
from render_agent.analysis.report.plots.vector_plot import (
    Plot,
    above,
    draw,
    interval_line,
    name_rows,
)
from render_agent.analysis.report.words import in_order, type_words
from render_agent.score.comparison import Side, compare
from render_agent.score.means import DIRECTION
from render_agent.score.official import DIRECTION_TYPES
from render_agent.score.published import TASKS, comparable
from render_agent.score.summary import OFFICIAL, OFFICIAL_RAW, ON_PARSED, ON_WORDS
from render_agent.score.tables import figure, interval, mirrored_lines, signed

Bounds = Sequence[float] | None

MARKS = {
    "random": ("|", palette.SOFT),
    "frequency": ("D", palette.GREY),
    "human": ("^", palette.GREEN),
}
"""How what others scored is drawn beside a run."""


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One name in a plot of scores in percent, with its interval; own: whether it is this run."""

    name: str
    score: float | None
    bounds: Bounds = None
    own: bool = False
    note: str = ""
    tasks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TypeScore:
    """The score of one type or task, and what others score, by their names."""

    name: str
    n: int
    score: float
    bounds: Bounds
    levels: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """How a sibling differs from a run, as the page says it: paired, in points of percent."""

    shown: str
    name: str
    score: str
    difference: str
    interval: str


@dataclass(frozen=True, slots=True)
class SiblingScores:
    """The siblings of a run: their scores, how they differ, what left and right came to in mirrored rooms.

    mirrored: a line a figure: what it is, n, score, interval.
    """

    plot: Plot
    differences: tuple[Difference, ...]
    mirrored: tuple[tuple[str, str, str, str], ...]


def _asks_vsibench(report: ReportData) -> bool:
    return report.config.batch and report.config.asks_vsibench


def official(results: Mapping[str, Any]) -> float | None:
    """Return the official score of some results, over what was scored where answers are lacking."""
    score: float | None = results["official_over_scored"]["score"]
    return score


def bounds_of(results: Mapping[str, Any]) -> Bounds:
    """Return the interval of the official score."""
    bounds: Bounds = results["intervals"].get(OFFICIAL)
    return bounds


def against_papers(report: ReportData) -> Plot | None:
    """The official score against rows published of the same questions; None where there are none."""
    results, config = report.results, report.config
    own = official(results)
    rows = comparable(config.subset) if _asks_vsibench(report) and not config.partial else []
    if own is None or not rows:
        return None
    stamps = "; ".join([*report.stamps, *report.notes])
    tasks = {name: score for name, score in results["tasks"].items() if score is not None}
    shown = [
        ScoreRow(
            f"{row.name}{'*' if row.secondary else ''}",
            row.official,
            note=row.told,
            tasks=row.scores,
        )
        for row in rows
    ]
    for label, score, name in (
        (ON_WORDS, results.get(OFFICIAL_RAW), OFFICIAL_RAW),
        (ON_PARSED, own, OFFICIAL),
    ):
        about = f"{results['official_over_scored']['n']:,} questions; {label}"
        bounds = results["intervals"].get(name)
        shown.append(
            ScoreRow(
                f"this run, {label.partition(', ')[2]}", score, bounds, own=True,
                note="; ".join(filter(None, (about, stamps))), tasks=tasks if name == OFFICIAL else {},
            )
        )  # fmt: skip
    drawn = score_plot(
        "papers",
        "Official score against rows published of the same questions, %",
        [row for row in shown if row.score is not None],
        "The papers' models watch a video of the scene; this run is asked of the scan. Published scores are of"
        " the replies' own words. The figures below have the tasks, also of rows without a mean of all eight."
        f" * copied from a secondary source, not checked.{f' This run: {stamps}.' if stamps else ''}",
    )
    return replace(
        drawn,
        columns=("", "score, %", "95 % interval", *map(type_words, TASKS), "what it is"),
        rows=tuple(
            (
                row.name,
                figure(row.score),
                interval(row.bounds) or "–",
                *(figure(row.tasks.get(name)) for name in TASKS),
                row.note,
            )
            for row in sorted(shown, key=lambda row: -(row.score or 0))
        ),
    )


def against_chance(report: ReportData) -> Plot | None:
    """The score of every type with its interval, against chance and, for VSI-Bench, people."""
    results = report.results
    if not results["types"]:
        return None
    chance = {name: dict(levels) for name, levels in results["chance"].items()}
    if _asks_vsibench(report) and not report.config.partial:
        human = [row for row in comparable(report.config.subset) if row.name == "human"]
        chance |= {row.name: dict(row.scores) for row in human}
    rows = [
        TypeScore(
            name,
            number,
            score,
            results["intervals"].get(name),
            {baseline: chance[baseline].get(name) for baseline in chance},
        )
        for name, (number, score) in type_scores(results).items()
    ]
    return draw(
        "types",
        "Score by type, with 95 % intervals",
        "A dot a type with its interval, beside marks of what chance and others score.",
        lambda axes: _paint_types(axes, rows),
        ("type", "n", "score, %", "95 % interval", *(f"{baseline}, %" for baseline in chance)),
        [
            (
                type_words(row.name),
                row.n,
                figure(row.score),
                interval(row.bounds) or "–",
                *(figure(row.levels[baseline]) for baseline in chance),
            )
            for row in rows
        ],
        height=1.2 + 0.27 * len(rows),
        links=links_of(row.name for row in rows if row.name != DIRECTION),
        note="Intervals: jackknife over scenes. Random: the mean score of a uniform choice among the"
        " options. Frequency: the commonest answer to each type, fitted on these very truths.",
    )


def _paint_types(axes: Any, rows: Sequence[TypeScore]) -> None:
    for baseline, (mark, colour) in MARKS.items():
        points = [
            (row.levels[baseline], y)
            for y, row in enumerate(rows)
            if row.levels.get(baseline) is not None
        ]
        if points:
            axes.plot(
                *zip(*points, strict=True), mark, color=colour, ls="none", label=baseline,
                ms=12 if mark == "|" else 7.5, mew=1.4, mfc="none", clip_on=False,
            )  # fmt: skip
    for y, row in enumerate(rows):
        interval_line(axes, row.bounds, y, palette.BLUE)
    axes.plot(
        [row.score for row in rows], range(len(rows)), "o", color=palette.BLUE, ms=6,
        label="this run", clip_on=False,
    )  # fmt: skip
    links = links_of(row.name for row in rows if row.name != DIRECTION)
    names = [f"{type_words(row.name)} (n = {row.n})" for row in rows]
    name_rows(axes, names, [links.get(type_words(row.name)) for row in rows])
    axes.set_xlim(0, 100)
    axes.grid(axis="both")
    axes.set_xlabel("score, %")
    above(axes, 4)


def by_dataset(report: ReportData) -> Plot | None:
    """The official score of every data set; None where there is one only."""
    parts = report.results["datasets"]
    rows = [
        ScoreRow(f"{name} (n = {part['n']})", part[OFFICIAL], part["intervals"].get(OFFICIAL), True)
        for name, part in parts.items()
        if part[OFFICIAL] is not None
    ]
    if len(rows) < 2:
        return None
    return score_plot("datasets", "Official score by data set, %", rows, "")


def score_plot(
    name: str, title: str, rows: Sequence[ScoreRow], note: str, *, keep_order: bool = False
) -> Plot:
    """Return a plot of one score a name, with the best first unless the order is to be kept."""
    rows = rows if keep_order else sorted(rows, key=lambda row: -(row.score or 0))

    def paint(axes: Any) -> None:
        for y, row in enumerate(rows):
            colour = palette.BLUE if row.own else palette.GREY
            interval_line(axes, row.bounds, y, colour)
            score = row.score or 0.0
            axes.plot(score, y, "o", color=colour, ms=7 if row.own else 5)
            end = max(score, *(row.bounds or (0,)))
            axes.annotate(
                figure(score), (end, y), (6, 0), textcoords="offset points", va="center",
                fontsize=8.5, weight="bold" if row.own else "normal",
            )  # fmt: skip
        name_rows(axes, [row.name for row in rows])
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
                interval(row.bounds) or "–",
                *([row.note] if noted else []),
            )
            for row in rows
        ],
        height=0.85 + 0.25 * len(rows),
        note=note,
    )


def type_scores(results: Mapping[str, Any]) -> dict[str, tuple[int, float]]:
    """Return n and score of every type that was scored, the three directions below their task."""
    types = results["types"]
    directions = sum(types[name]["n"] for name in DIRECTION_TYPES if name in types)
    scores: dict[str, tuple[int, float | None]] = {}
    for name in in_order(types):
        if name in DIRECTION_TYPES and DIRECTION in results["tasks"]:
            scores.setdefault(DIRECTION, (directions, results["tasks"][DIRECTION]))
        scores[name] = types[name]["n"], types[name]["score"]
    return {name: (n, score) for name, (n, score) in scores.items() if score is not None}


def against_siblings(report: ReportData) -> SiblingScores | None:
    """Return how the runs beside this one scored; None where there is none."""
    own = official(report.results)
    scored = [sibling for sibling in report.siblings if official(sibling.results) is not None]
    if own is None or not scored:
        return None
    config = report.config.to_json()
    here = ", ".join(
        f"{option} {config[option]}" for option in dict.fromkeys(s.option for s in scored)
    )
    rows = [
        ScoreRow(
            f"{sibling.option} {sibling.value}",
            official(sibling.results) or 0.0,
            bounds_of(sibling.results),
            note=sibling.name,
        )
        for sibling in scored
    ]
    plot = score_plot(
        "siblings",
        "Official score by what was shown, %",
        [ScoreRow(f"this run: {here}", own, bounds_of(report.results), own=True), *rows],
        "Intervals: jackknife over scenes. Differences are paired, question by question.",
        keep_order=True,
    )
    mirrored = next(
        (sibling.results["mirrored"] for sibling in scored if "mirrored" in sibling.results), None
    )
    return SiblingScores(
        plot,
        tuple(_difference(report, sibling) for sibling in scored),
        tuple(
            (line.label, str(line.number), figure(line.score), interval(line.bounds) or "–")
            for line in (mirrored_lines(mirrored) if mirrored else ())
        ),
    )


def _difference(report: ReportData, sibling: Sibling) -> Difference:
    own = Side(report.name, report.results, {})
    paired = compare(own, Side(sibling.name, sibling.results, {}))["differences"].get(OFFICIAL)
    return Difference(
        f"{sibling.option} {sibling.value}",
        sibling.name,
        figure(official(sibling.results)),
        signed(paired["difference"] if paired else None),
        interval(paired["interval"] if paired else None) or "–",
    )
