"""Plot of runs: the score over a numeric option, or of each run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.options import flag_of
from render_agent.report.comparison.runs_table import COMPLETE, Row
from render_agent.report.pages.plots.palette import BLUE
from render_agent.report.pages.plots.svg import (
    Dots,
    draw_dots,
    draw_svg,
    elide,
    label_curve_axes,
    series_style,
)
from render_agent.util.atomic_files import atomic_write
from render_agent.util.numbers import is_number

MIN_POINTS = 3  # of a curve; fewer are rows
ALL = "all"  # value of a numeric option without a limit, e.g. of --history
# values of --tools and --feedback whose instruments err: measure:noise=0.1, drift:0.05:silent
DOSE = re.compile(r"(.*[a-z])[=:](\d*\.?\d+)(%?)(:silent)?")
EXACT = {
    "measure": "measure:",
    "graph": "graph:",
    "on": "drift",
}  # value without error -> kinds of error
LONGEST_LABEL = 64  # characters of a label of the legend; two of half the length fit side by side
MIN_SPAN = 20  # percentage points of the vertical axis, so that small differences look small


class Curves(NamedTuple):
    """Runs as curves over a numeric option."""

    option: str
    unit: str
    """The kind of the values if all are of one kind; may be empty."""
    values: list[str]
    rows: dict[str, dict[str, Row]]
    """The rows of each curve by value. Curves differ in other options, which label them."""


def write_runs_plot(rows: Sequence[Row], title: str, file: Path) -> Path | None:
    """Plot the scores of complete runs, as curves or as rows; return the file, None if there are none."""
    scored = [row for row in rows if row["status"] == COMPLETE and row["official_raw"] is not None]
    if not scored:
        return None
    curves = find_curves(scored)
    svg = draw_rows(scored, title) if curves is None else draw_curves(curves, title)
    atomic_write(file, svg.encode())
    return file


def find_curves(rows: Sequence[Row]) -> Curves | None:
    """Return the rows as curves over the numeric option with the most values; None if there is no such option."""
    candidates = []
    for option in {name: None for row in rows for name in row["options"]}:
        curves: dict[str, dict[str, Row]] = {}
        points = read_doses([row["options"][option] for row in rows])
        kinds = {kind for doses in points.values() for kind, _ in doses}
        for row in rows:
            others = [f"{name}={v}" for name, v in row["options"].items() if name != option]
            for kind, number in points[row["options"][option]]:
                label = ", ".join([*([kind] if len(kinds) > 1 else []), *others])
                curves.setdefault(label, {})[number] = row
        numbers = {value for curve in curves.values() for value in curve}
        is_numeric = option != "seed" and all(n == ALL or is_number(n) for n in numbers)
        if is_numeric and max(map(len, curves.values())) >= MIN_POINTS:
            ordered = sorted(numbers, key=lambda n: float("inf" if n == ALL else n))
            unit = "" if len(kinds) > 1 else kinds.pop()
            candidates.append(Curves(option, unit, ordered, curves))
    return max(candidates, key=lambda curves: len(curves.values), default=None)


def read_doses(values: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return (kind, number) of each value: `measure:noise` and 0.1 of `measure:noise=0.1`, an empty kind of a number.

    A value without errors is 0 of every kind. Other values are their own number.
    """
    matches = {value: match for value in values if (match := DOSE.fullmatch(value))}
    kinds = {value: f"{m[1]}{m[4] or ''}{' (%)' if m[3] else ''}" for value, m in matches.items()}
    points = {value: [(kind, matches[value][2])] for value, kind in kinds.items()}
    for value in values:
        kinds_of_exact = {k: "0" for k in kinds.values() if k.startswith(EXACT.get(value, "?"))}
        points.setdefault(value, [*kinds_of_exact.items()] or [("", value)])
    return points


def draw_curves(curves: Curves, title: str) -> str:
    """Draw the score over the values of the option, which are equally spaced."""
    labels = [elide(label, LONGEST_LABEL) for label in curves.rows]
    columns = 1 if max(map(len, labels)) > LONGEST_LABEL // 2 else 2
    step = min(0.06, 0.6 / len(labels))  # between curves, to keep their intervals apart

    def paint(axes: Any) -> None:
        for number, (label, by_value) in enumerate(zip(labels, curves.rows.values(), strict=True)):
            colour, marker = series_style(number)
            offset = step * (number - (len(labels) - 1) / 2)
            points = sorted((curves.values.index(v) + offset, v) for v in by_value)
            scores = [by_value[value]["official_raw"] for _, value in points]
            axes.plot([x for x, _ in points], scores, f"{marker}-", color=colour, ms=5, label=label)
            for x, value in points:
                if bounds := by_value[value]["official_raw_interval"]:
                    axes.vlines(x, *bounds, color=colour, lw=1)
        low, high = axes.get_ylim()
        margin = max(0, MIN_SPAN - (high - low)) / 2
        axes.set_ylim(max(0, low - margin), min(100, high + margin))
        rows = [row for curve in curves.rows.values() for row in curve.values()]
        label_curve_axes(
            axes,
            f"{flag_of(curves.option)} {curves.unit}".strip(),
            _score_label(rows),
            columns if len(labels) > 1 else 0,
        )
        axes.set_title(title, loc="left")
        axes.set_xticks(range(len(curves.values)), curves.values)

    return draw_svg(paint, height=2.8 + 0.2 * ceil(len(labels) / columns))


def draw_rows(rows: Sequence[Row], title: str) -> str:
    """Draw the score of each row."""
    values = [row["official_raw"] for row in rows]
    scores = Dots("score", BLUE, "o", values, [row["official_raw_interval"] for row in rows])
    names = [row["label"] for row in rows]
    return draw_dots(names, [scores], _score_label(rows), title=title, columns=0)


def _score_label(rows: Sequence[Row]) -> str:
    has_interval = any(row["official_raw_interval"] for row in rows)
    return "score (%), 95 % CI over scenes" if has_interval else "score (%)"
