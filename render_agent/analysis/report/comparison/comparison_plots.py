"""The plots of a comparison: scores side by side, and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render_agent.analysis.report.comparison.runs import Comparison
from render_agent.analysis.report.plots import palette
from render_agent.analysis.report.plots.counts import in_order
from render_agent.analysis.report.plots.vector_plot import Plot, above, draw
from render_agent.analysis.report.words import type_words
from render_agent.score.summary import OFFICIAL
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

NAMES = {OFFICIAL: "official", "micro": "mean of questions"}
"""The means that are drawn beside the types."""


def names_of(found: Comparison) -> list[str]:
    """Return the means and types that both runs of any pair have, the official mean first."""
    known = {name for pair in found.pairs for name in pair["differences"]}
    types = {row["type"] for run in found.runs for row in run.report.rows.values()}
    return [name for name in NAMES if name in known] + in_order(types & known)


def words_of(name: str) -> str:
    """Return a mean or a type in words."""
    return NAMES.get(name, type_words(name))


def score_of(results: Any, name: str) -> tuple[float | None, list[float] | None]:
    """Return a run's own score in percent by the name of a mean or type, and its interval."""
    within = results["intervals"].get(name)
    if name == OFFICIAL:
        return results["official_over_scored"]["score"], within
    if name in results["types"]:
        return results["types"][name]["score"], within
    return results.get(name), within


def scores(found: Comparison) -> Plot | None:
    """The scores of all runs by type; None where they have nothing in common."""
    names = names_of(found)
    if not names:
        return None
    rows = [(name, [score_of(run.report.results, name) for run in found.runs]) for name in names]

    def paint(axes: Any) -> None:
        step = 0.6 / len(found.runs)
        for place, run in enumerate(found.runs):
            colour, mark = _look(place)
            aside = (place - (len(found.runs) - 1) / 2) * step
            points = []
            for y, (_, standings) in enumerate(rows):
                score, within = standings[place]
                if score is None:
                    continue
                points.append((score, y + aside))
                if within is not None:
                    axes.plot(within, [y + aside] * 2, color=colour, lw=1.6, solid_capstyle="butt")
            axes.plot(
                *zip(*points, strict=True), mark, color=colour, ms=5.5, label=run.letter
            ) if points else None
        _by_name(axes, [words_of(name) for name in names])
        axes.set_xlim(-2, 102)
        axes.set_xlabel("score, %")
        above(axes, 6)

    return draw(
        "scores",
        "Scores by type, with 95 % intervals",
        "A mark a run at its score, with its interval, for every mean and type.",
        paint,
        ("", *(f"{run.letter}, %{part}" for run in found.runs for part in ("", " interval"))),
        [
            (
                words_of(name),
                *(
                    cell
                    for score, within in standings
                    for cell in (figure(score), interval(within) or "–")
                ),
            )
            for name, standings in rows
        ],
        height=1.1 + 0.16 * len(names) * (1 + len(found.runs) / 2),
        note="Every run over the questions that it has scored. Intervals: bootstrap over scenes.",
    )


def differences(found: Comparison) -> Plot | None:
    """The paired differences from the first run by type; None where they have nothing in common."""
    names = names_of(found)
    if not names:
        return None
    first, others = found.runs[0], found.runs[1:]

    def paint(axes: Any) -> None:
        step = 0.6 / len(others)
        for place, (run, pair) in enumerate(zip(others, found.pairs, strict=True)):
            colour, mark = _look(place + 1)
            aside = (place - (len(others) - 1) / 2) * step
            points = []
            for y, name in enumerate(names):
                entry = pair["differences"].get(name)
                if entry is None or entry["difference"] is None:
                    continue
                points.append((entry["difference"], y + aside))
                if entry["interval"] is not None:
                    axes.plot(
                        entry["interval"],
                        [y + aside] * 2,
                        color=colour,
                        lw=1.6,
                        solid_capstyle="butt",
                    )
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    mark,
                    color=colour,
                    ms=5.5,
                    label=f"{run.letter} − {first.letter}",
                )
        axes.axvline(0, color=palette.INK, lw=0.9)
        reach = max(5.0, *(abs(end) for end in axes.get_xlim()))
        axes.set_xlim(-reach, reach)
        _by_name(axes, [words_of(name) for name in names])
        axes.set_xlabel(f"difference from {first.letter}, points of percent")
        above(axes, 6)

    return draw(
        "differences",
        f"Paired differences from {first.letter}, with 95 % intervals",
        "A mark a run at its difference from the first, with its interval; right of zero it is better.",
        paint,
        (
            "",
            *(
                f"{run.letter} − {first.letter}{part}"
                for run in others
                for part in ("", ", interval", ", p")
            ),
        ),
        [(words_of(name), *_cells(found, name)) for name in names],
        height=1.1 + 0.16 * len(names) * (1 + len(others) / 2),
        note="Question by question, over those that both have scored; right of zero is better than"
        f" {first.letter}. Intervals: bootstrap over scenes.",
    )


def _cells(found: Comparison, name: str) -> list[str]:
    cells = []
    for pair in found.pairs:
        entry = pair["differences"].get(name) or dict.fromkeys(("difference", "interval", "p"))
        difference, p = entry["difference"], entry["p"]
        cells += [
            signed(difference),
            interval(entry["interval"]) or "–",
            probability(p),
        ]
    return cells


def _look(place: int) -> tuple[str, str]:
    return COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]


def _by_name(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x")
