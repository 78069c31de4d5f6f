"""The plots of a comparison: scores side by side, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from render_agent.analysis.report.comparison.runs import Comparison
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.vector_plot import (
    Plot,
    above,
    draw,
    interval_line,
    name_rows,
)
from render_agent.analysis.report.words import in_order, type_words
from render_agent.score.summary import OFFICIAL, SHORT_PARSED
from render_agent.score.tables import figure, interval, probability, signed

COLOURS = (
    palette.BLUE,
    palette.VERMILLION,
    palette.GREEN,
    palette.PURPLE,
    palette.ORANGE,
    palette.GREY,
)
MARKS = "osD^vP"
"""How the runs are told apart, in their order; more runs begin again."""

NAMES = {OFFICIAL: SHORT_PARSED, "micro": "mean of questions"}
"""The means that are drawn beside the types."""


Point = tuple[float | None, list[float] | None]
"""A score or a difference in points of percent, and its interval."""


def names_of(comparison: Comparison) -> list[str]:
    """Return the means and types that both runs of any pair have, the official mean first."""
    known = {name for pair in comparison.pairs for name in pair["differences"]}
    types = {row["type"] for run in comparison.runs for row in run.report.rows.values()}
    return [name for name in NAMES if name in known] + in_order(types & known)


def words_of(name: str) -> str:
    """Return a mean or a type in words."""
    return NAMES.get(name, type_words(name))


def score_of(results: Any, name: str) -> Point:
    """Return a run's own score in percent by the name of a mean or type, and its interval."""
    bounds = results["intervals"].get(name)
    if name == OFFICIAL:
        return results["official_over_scored"]["score"], bounds
    if name in results["types"]:
        return results["types"][name]["score"], bounds
    return results.get(name), bounds


def scores(comparison: Comparison) -> Plot | None:
    """The scores of all runs by type; None where they have nothing in common."""
    names, runs = names_of(comparison), comparison.runs
    if not names:
        return None
    points = [[score_of(run.report.results, name) for name in names] for run in runs]

    def paint(axes: Any) -> None:
        _draw_marks(axes, names, [run.letter for run in runs], points)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("score, %")
        above(axes, 6)

    return draw(
        "scores",
        "Scores by type, with 95 % intervals",
        "A mark a run at its score, with its interval, for every mean and type.",
        paint,
        ("", *(f"{run.letter}, %{part}" for run in runs for part in ("", " interval"))),
        [
            (
                words_of(name),
                *(
                    cell
                    for score, bounds in row
                    for cell in (figure(score), interval(bounds) or "–")
                ),
            )
            for name, row in zip(names, zip(*points, strict=True), strict=True)
        ],
        height=_height(names, len(runs)),
        note="Every run over the questions that it has scored. Intervals: jackknife over scenes.",
    )


def differences(comparison: Comparison) -> Plot | None:
    """The paired differences from the first run by type; None where they have nothing in common."""
    names = names_of(comparison)
    if not names:
        return None
    first, others = comparison.runs[0].letter, comparison.runs[1:]
    labels = [f"{run.letter} − {first}" for run in others]
    unknown = dict.fromkeys(("difference", "interval", "p", "p_holm"))
    entries = [
        [pair["differences"].get(name) or unknown for name in names] for pair in comparison.pairs
    ]

    def paint(axes: Any) -> None:
        points = [[(entry["difference"], entry["interval"]) for entry in own] for own in entries]
        _draw_marks(axes, names, labels, points, skip=1)
        axes.axvline(0, color=palette.INK, lw=0.9)
        reach = max(5.0, *(abs(end) for end in axes.get_xlim()))
        axes.set_xlim(-reach, reach)
        axes.set_xlabel(f"difference from {first}, points of percent")
        above(axes, 6)

    return draw(
        "differences",
        f"Paired differences from {first}, with 95 % intervals",
        "A mark a run at its difference from the first, with its interval; right of zero it is better.",
        paint,
        (
            "",
            *(f"{label}{part}" for label in labels for part in ("", ", interval", ", p", ", Holm")),
        ),
        [
            (
                words_of(name),
                *(
                    cell
                    for entry in row
                    for cell in (
                        signed(entry["difference"]),
                        interval(entry["interval"]) or "–",
                        probability(entry["p"]),
                        probability(entry["p_holm"]),
                    )
                ),
            )
            for name, row in zip(names, zip(*entries, strict=True), strict=True)
        ],
        height=_height(names, len(others)),
        note="Question by question, over those that both have scored; right of zero is better than"
        f" {first}. Intervals: jackknife over scenes.",
    )


def ladder(comparison: Comparison) -> Plot | None:
    """The scores along the ladder of help by type; None where the runs are no rungs of one."""
    gains = comparison.ladder
    if gains is None:
        return None
    types = {row["type"] for run in comparison.runs for row in run.report.rows.values()}
    names = [name for name in (OFFICIAL, *in_order(types)) if name in gains["types"]]
    rungs = [rung["tools"] for rung in gains["rungs"]]
    rows = [gains["types"][name] for name in names]
    points: list[list[Point]] = [
        [(row["scores"][place], None) for row in rows] for place in range(len(rungs))
    ]

    def paint(axes: Any) -> None:
        for y, row in enumerate(rows):
            axes.plot(row["scores"], [y] * len(rungs), color=palette.GREY, lw=1, zorder=0)
        _draw_marks(axes, names, rungs, points)
        axes.set_xlim(-2, 102)
        axes.set_xlabel("score, %")
        above(axes, 6)

    steps = [f"{low} → {high}" for low, high in pairwise(rungs)]
    return draw(
        "ladder",
        "Where help helps: scores along the ladder of help",
        "A mark a rung at its score, for the official mean and every type.",
        paint,
        ("", *rungs, *(f"{s}{part}" for s in steps for part in ("", ", interval", ", Holm"))),
        [
            (
                words_of(name),
                *map(figure, row["scores"]),
                *(
                    cell
                    for gain in row["gains"]
                    for cell in (
                        signed(gain["difference"]),
                        interval(gain["interval"]) or "–",
                        probability(gain["p_holm"]),
                    )
                ),
            )
            for name, row in zip(names, rows, strict=True)
        ],
        height=_height(names, len(rungs)),
        note="Over the questions that all rungs have scored; intervals of steps: jackknife over scenes.",
    )


def _draw_marks(
    axes: Any,
    names: Sequence[str],
    labels: Sequence[str],
    points: Sequence[Sequence[Point]],
    skip: int = 0,
) -> None:
    """Draw a mark with its interval for every label and name; skip: so many colours are not used."""
    for number, (label, own) in enumerate(zip(labels, points, strict=True)):
        colour = COLOURS[(number + skip) % len(COLOURS)]
        mark = MARKS[(number + skip) % len(MARKS)]
        aside = (number - (len(labels) - 1) / 2) * 0.6 / len(labels)
        known = [(value, y + aside) for y, (value, _) in enumerate(own) if value is not None]
        for y, (value, bounds) in enumerate(own):
            if value is not None:
                interval_line(axes, bounds, y + aside, colour)
        if known:
            axes.plot(*zip(*known, strict=True), mark, color=colour, ms=5.5, label=label)
    name_rows(axes, [words_of(name) for name in names])
    axes.grid(axis="x")


def _height(names: Sequence[str], runs: int) -> float:
    return 1.1 + 0.16 * len(names) * (1 + runs / 2)
