"""The variance between repeated runs of the same questions: what sampling alone changes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from render_agent.score.summary import OFFICIAL, OFFICIAL_RAW, ON_PARSED, ON_WORDS
from render_agent.score.tables import figure
from render_agent.text.console import plain_table

WORK = {
    "turns": "turns a question",
    "renders": "pictures drawn a question",
    "tokens_in": "tokens read a question",
    "tokens_out": "tokens written a question",
}

SHOWN = {OFFICIAL: ON_PARSED, OFFICIAL_RAW: ON_WORDS}


class Spread(NamedTuple):
    """Mean and sample standard deviation of one figure over runs, and how many runs had it."""

    mean: float
    deviation: float | None
    runs: int


def spread(results: Sequence[Mapping[str, Any]]) -> dict[str, Spread]:
    """Return the spread of every mean and type over the `results.json` of repeated runs.

    So is that of what a question took, where the results tell it.

    The deviation is that between runs (n - 1 in its denominator), None for a single run; the
    intervals in each run's own results are those over scenes.
    """
    figures: dict[str, list[float]] = {}
    for result in results:
        row = {name: result.get(name) for name in (OFFICIAL_RAW, OFFICIAL, "micro")}
        row |= {name: entry["score"] for name, entry in result.get("types", {}).items()}
        work = result.get("totals", {}).get("per_question") or {}
        row |= {words: work.get(name) for name, words in WORK.items()}
        for name, value in row.items():
            if value is not None:
                figures.setdefault(name, []).append(value)
    return {
        name: Spread(
            statistics.fmean(values),
            statistics.stdev(values) if len(values) > 1 else None,
            len(values),
        )
        for name, values in figures.items()
    }


def spread_table(results: Sequence[Mapping[str, Any]]) -> Table:
    """Return the spread as a person reads it."""
    table = plain_table(f"{len(results)} runs", "", "mean", "deviation between runs", "runs")
    for name, entry in spread(results).items():
        table.add_row(
            SHOWN.get(name, name), figure(entry.mean), figure(entry.deviation), str(entry.runs)
        )
    return table
