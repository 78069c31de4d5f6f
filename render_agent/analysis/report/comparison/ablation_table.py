"""A run set against those that differ from it in what was shown, and in nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.analysis.related_runs import Sibling
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.index.headline import Standing, bounds_of, official, standings
from render_agent.analysis.report.plots.vector_plot import Plot
from render_agent.score.comparison import Side, compare
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import figure, interval, mirrored_lines, signed


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


def against_siblings(report: ReportData) -> SiblingScores | None:
    """Return how the runs beside this one scored; None where there is none."""
    own = official(report.results)
    scored = [one for one in report.siblings if official(one.results) is not None]
    if own is None or not scored:
        return None
    config = report.config.to_json()
    here = ", ".join(
        f"{option} {config[option]}" for option in dict.fromkeys(s.option for s in scored)
    )
    rows = [
        Standing(
            f"{one.option} {one.value}",
            official(one.results) or 0.0,
            bounds_of(one.results),
            note=one.name,
        )
        for one in scored
    ]
    plot = standings(
        "siblings",
        "Official score by what was shown, %",
        [Standing(f"this run: {here}", own, bounds_of(report.results), own=True), *rows],
        "Intervals: bootstrap over scenes. Differences are paired, question by question.",
        keep_order=True,
    )
    mirrored = next((one.results["mirrored"] for one in scored if "mirrored" in one.results), None)
    return SiblingScores(
        plot,
        tuple(_difference(report, one) for one in scored),
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
