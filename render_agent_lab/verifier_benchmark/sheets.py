"""The figures of verifiers as tables: for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from render_agent.text.console import plain_table
from render_agent.text.display import counted

NONE = "–"


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table: its title, its heads, its rows, and what must be said below it.

    wide: heads of the columns whose intervals a terminal has no room for.
    """

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    below: str = ""
    wide: tuple[str, ...] = ()


def sheets(figures: Mapping[str, Any]) -> list[Sheet]:
    """Return all tables of a record that `measure` made."""
    return [
        sheet
        for sheet in (
            _success(figures),
            _differences(figures),
            _by_rank(figures),
            _by_probability(figures),
            _agreement(figures),
            _latency(figures),
        )
        if sheet.rows
    ]


def printed(sheet: Sheet) -> Table:
    """Return a table for a terminal."""
    table = plain_table(sheet.title)
    for number, head in enumerate(sheet.heads):
        table.add_column(head, justify="right" if number else "left")
    for row in sheet.rows:
        cells = zip(sheet.heads, row, strict=True)
        table.add_row(*(c.partition(" (")[0] if head in sheet.wide else c for head, c in cells))
    if sheet.below:
        table.caption = sheet.below
    return table


def markdown(figures: Mapping[str, Any]) -> str:
    """Return a record as a page: the command, the machine, what was measured, and all tables."""
    machine = figures["machine"]
    versions = ", ".join(f"{name} {value}" for name, value in figures["versions"].items())
    lines = [
        "# Verifiers, side by side",
        "",
        f"`{figures['command']}`",
        "",
        f"{machine['processor']}, {machine['cores']} cores, {machine['system']}; Python"
        f" {machine['python']}, {versions}. {figures['seconds']:.0f} s.",
        "",
        about(figures),
        "",
    ]
    for sheet in sheets(figures):
        lines += [f"## {sheet.title}", ""]
        lines += ["| " + " | ".join(sheet.heads) + " |", "|---|" + "--:|" * (len(sheet.heads) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in sheet.rows]
        lines += ["", *([sheet.below, ""] if sheet.below else [])]
    return "\n".join(lines)


def about(figures: Mapping[str, Any]) -> str:
    """Return in a few sentences what was measured, and what was left out."""
    left = figures["left_out"]
    bounded = any(
        row["minus_random"]["interval"]
        for row in figures["success"].values()
        if row["minus_random"]
    )
    return (
        f"{figures['workload']} {figures['decisions']} decisions of {figures['questions']} questions in"
        f" {counted(figures['scenes'], 'scene')}. Good is a candidate whose view shows well something that the question"
        " names and no view has shown well."
        f"{' Intervals: 95 %, over scenes.' if bounded else ''} Left out:"
        f" {left['questions_unknown']} questions of which nobody can tell what has to be seen,"
        f" {left['all_shown']} decisions after all of it was seen, and {left['not_drawn']} whose candidates"
        " were not drawn." + "".join(f" {note}" for note in figures["notes"])
    )


def _success(figures: Mapping[str, Any]) -> Sheet:
    rows = figures["success"]
    counts = list(next(iter(rows.values()))["by_count"])
    heads = ("verifier", *(f"K = {count}" for count in counts), "above chance", "where it matters", "of the best")  # fmt: skip
    return Sheet(
        "Choices that are good, by number of candidates",
        heads,
        [
            (
                name,
                *(_percent(row["by_count"][count]) for count in counts),
                _points(row["minus_random"]),
                _percent(row["where_it_matters"]),
                _percent(row["of_the_best"]),
            )
            for name, row in rows.items()
        ],
        "In percent, on the average over all sets of K candidates of the decisions that have so many; their"
        " scores are those among all. Above chance: of all candidates, less the"
        " share of good ones, in points. Where it matters: where one candidate is good and another is not."
        " Of the best: new things that are named and that the choices show, over those of the best"
        " candidates.",
        wide=(*heads[1 : 1 + len(counts)], *heads[-2:]),
    )


def _differences(figures: Mapping[str, Any]) -> Sheet:
    return Sheet(
        "Each verifier against each other, paired",
        ("better than", "by, points"),
        [
            (f"{row['one']} than {row['other']}", _points(row["difference"]))
            for row in figures["differences"]
        ],
        "How much more often the choice of the first is good.",
    )


def _by_rank(figures: Mapping[str, Any]) -> Sheet:
    entries = {name: entry["by_rank"] for name, entry in figures["calibration"].items()}
    parts: Sequence[Mapping[str, Any]] = next(iter(entries.values()), [])
    heads = ("verifier", *(f"{100 * p['from']:.0f} to {100 * p['to']:.0f} %" for p in parts))
    return Sheet(
        "Good candidates by the rank of their score",
        heads,
        [(name, *(_percent(part) for part in entry)) for name, entry in entries.items()],
        "Share of good ones, in percent, among candidates of such a rank within their state, from the lowest"
        " scores to the highest. Scores compare within a state only.",
        wide=heads[1:],
    )


def _by_probability(measured: Mapping[str, Any]) -> Sheet:
    rows = []
    for name, entry in measured["calibration"].items():
        figures = entry["by_probability"]
        for part in figures["bins"] if figures else ():
            span = f"{part['from']:.1f} to {part['to']:.1f}"
            happened = f"{100 * part['happened']:.1f}"
            rows.append((name, span, str(part["n"]), f"{100 * part['said']:.1f}", happened))
        if figures:
            error = f"{100 * figures['expected_calibration_error']:.1f}"
            rows.append((name, "expected calibration error", str(figures["n"]), NONE, error))
    return Sheet(
        "Probabilities against frequencies",
        ("verifier", "probability", "candidates", "said, %", "good, %"),
        rows,
        "The expected calibration error is the mean distance of the two, in points.",
    )


def _agreement(figures: Mapping[str, Any]) -> Sheet:
    return Sheet(
        "Do verifiers agree?",
        ("verifiers", "rank correlation", "same choice, %"),
        [
            (
                f"{row['one']}, {row['other']}",
                _number(row["correlation"]),
                _percent(row["same_choice"]),
            )
            for row in figures["agreement"]
        ],
        "Spearman's correlation within a state, averaged over states.",
    )


def _latency(figures: Mapping[str, Any]) -> Sheet:
    rows = [
        (
            name,
            way,
            f"{entry['milliseconds']:.2f}",
            f"{entry['times_faster']:.1f}",
            f"{entry['apart']:.1e}",
        )
        for name, ways in figures["latency"].items()
        for way, entry in ways.items()
    ]
    return Sheet(
        "What scoring takes",
        ("verifier", "way", "ms a decision", "× one by one", "largest difference"),
        rows,
        "Medians of rounds in which the ways take turns. The difference is that of a score from one by one.",
    )


def _percent(entry: Mapping[str, Any] | None) -> str:
    return _figure(entry, 100, "{:.1f}")


def _points(entry: Mapping[str, Any] | None) -> str:
    return _figure(entry, 100, "{:+.1f}")


def _number(entry: Mapping[str, Any] | None) -> str:
    return _figure(entry, 1, "{:.2f}")


def _figure(entry: Mapping[str, Any] | None, scale: float, form: str) -> str:
    if entry is None or entry["mean"] is None:
        return NONE
    mean = form.format(scale * entry["mean"])
    if entry["interval"] is None:
        return mean
    low, high = (form.format(scale * end) for end in entry["interval"])
    return f"{mean} ({low} … {high})"
