"""The figures of a diagnosis as a person reads them on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from render_agent.analysis.diagnosis.model import Cause
from render_agent.analysis.diagnosis.summary import reading
from render_agent.text.console import plain_table

HEADS = {
    Cause.RIGHT: "right",
    Cause.MISJUDGED: "mis-\njudged",
    Cause.STOPPED_EARLY: "stop-\nped\nearly",
    Cause.NEVER_LOOKED: "never\nlooked",
    Cause.PROTOCOL: "no\nanswer",
    Cause.UNKNOWN: "un-\nknown",
    Cause.ERROR: "error",
    Cause.OPEN: "open",
}
ALWAYS = (Cause.RIGHT, Cause.MISJUDGED, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED)
"""Causes that have a column even where no question has them."""

SEEN = {"well": "right,\nseen\nwell", "not_well": "right,\nnot\nwell"}


def cause_table(found: Mapping[str, Any]) -> Table:
    """Return the causes by type, with right and wrong set against what was seen; see `summary`."""
    everything = found["all"]
    causes = [c for c in Cause if c in ALWAYS or everything["causes"][str(c)]]
    table = plain_table("Why answers are right or wrong, questions")
    table.add_column("question type", no_wrap=True)
    for head in ("n", *(HEADS[cause] for cause in causes), *SEEN.values()):
        width = max(map(len, head.splitlines()))
        table.add_column(head, justify="right", no_wrap=True, min_width=max(width, 5))
    for label, figures in (*sorted(found["types"].items()), ("all", everything)):
        if label == "all":
            table.add_section()
        table.add_row(
            label.removeprefix("object_"),  # it would not fit into 80 columns
            f"{figures['questions']:,}",
            *(f"{figures['causes'][str(cause)]:,}" for cause in causes),
            *(_percent(figures["seen"][name]) for name in SEEN),
        )
    return table


def notes(found: Mapping[str, Any]) -> list[str]:
    """Return what is said below the table, a line each."""
    figures = found["all"]
    lines = [
        "right, seen well: where all that a question is about had been seen well; not well: where not. Other"
        " questions fall on either side, so the difference is no proof that looking made it.",
        reading(figures),
    ]
    if figures["coverage"]:
        by_turn = " ".join(f"{100 * value:.0f}" for value in figures["coverage"])
        lines.append(f"Seen of the room's visible surface by turn, %: {by_turn}.")
    if figures["metres"] is not None:
        lines.append(
            f"A question: {figures['metres']:.1f} m walked, {figures['degrees']:.0f}° turned. All:"
            f" {figures['blocked']:,} moves blocked, {figures['returns']:,} ways back,"
            f" {figures['premature']:,} stopped too early, {figures['repairs']:,} replies not readable."
        )
    return lines


def _percent(cell: Mapping[str, Any]) -> str:
    return "–" if cell["percent"] is None else f"{cell['percent']:.0f} %"
