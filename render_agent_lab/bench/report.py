"""The figures of a comparison as a table, as Markdown, and as one object with all that they depend on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.table import Table

Column = tuple[str, str, str]

COLUMNS: dict[str, Column] = {
    "engine": ("engine", "engine", "{}"),
    "schedule": ("schedule", "schedule", "{}"),
    "reuse": ("reuse", "reuse", "{}"),
    "batch_size": ("B", "B", "{}"),
    "renderer": ("renderer", "renderer", "{}"),
    "seconds": ("s", "s", "{:.1f}"),
    "processor_seconds": ("CPU s", "CPU s", "{:.1f}"),
    "questions_an_hour": ("an hour", "an\nhour", "{:,}"),
    "floor_share": ("floor", "floor", "{:.0%}"),
    "times_sequential": ("× seq.", "×\nseq.", "{:.1f}"),
    "times_two_phase": ("× two-ph.", "×\ntwo", "{:.1f}"),
    "calls": ("calls", "calls", "{}"),
    "prefilled_over_first_seen": ("read / new", "read\n/new", "{:.2f}"),
    "cached_share": ("cached", "cach-\ned", "{:.0%}"),
    "running_over_limit": ("running", "run-\nning", "{:.2f}"),
    "waiting_for_views": ("views, s", "views, s", "{:.1f}"),
    "waiting_share": ("views", "views", "{:.1%}"),
    "peak_bytes": ("GiB", "GiB", "{:.2f}"),
    "questions_that_differ": ("differ", "dif-\nfer", "{}"),
    "failed": ("failed", "failed", "{}"),
}
"""The figures that are shown: heading, narrow heading, and form. All others stand in the JSON."""

ONLY_WRITTEN = ("processor_seconds", "waiting_for_views", "calls", "failed")
"""Those that a terminal has no room for."""

LEGEND = """\
B: requests in one call, or side by side. CPU s: computed by all threads of the process. floor: share of the time
that the same reading and writing would take at the rates of copies and products measured on this device. × seq. and
× two-ph.: how many times faster than one question after the other, and than 4 turns of all questions
by 16 and the rest one after the other, both with the first way of reuse measured. read / new: prompt
tokens computed over those that no earlier turn of their question had. cached: share of the prompt
tokens that were not computed. running: mean requests under way over B. views: seconds in which the
engine was asked for nothing while a view was being drawn, and their share. GiB: peak of the memory
that the model lies in. differ: questions whose transcript is not that of the first row."""

PACKAGES = ("torch", "transformers", "vllm", "openai", "numpy", "numba")


def circumstances(command: str, model: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the circumstances of the figures: the command, the machine, versions, model."""
    return {
        "command": command,
        "machine": {
            "system": platform.platform(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "versions": {name: version for name in PACKAGES if (version := installed(name))},
        "model": dict(model),
        **more,
    }


def processor() -> str:
    """Return the processor's name, its kind where the system does not tell more."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as file:
            names = [
                line.partition(":")[2].strip() for line in file if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.machine()


def installed(package: str) -> str | None:
    """Return the version of a package, None where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def label(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a label that distinguishes one row of figures from the others."""
    parts = [str(row["schedule"]), f"reuse {row['reuse']}", f"B {row['batch_size']}"]
    more = [row[name] for name in ("engine", "renderer") if _differ(rows, name)]
    return ", ".join([*more, *parts])


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the figures as a table for a terminal; the rest of them stands in the JSON."""
    shown = Table(
        title="the same questions, taken to their end in several ways",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    columns = [name for name in _columns(rows) if name not in ONLY_WRITTEN]
    for name in columns:
        text = name in ("engine", "schedule", "reuse", "renderer")
        shown.add_column(COLUMNS[name][1], justify="left" if text else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*(_cell(row, name) for name in columns))
    return shown


def markdown(figures: Mapping[str, Any], notes: str = "") -> str:
    """Return a comparison as a page: the command, the machine, the figures, and what is to be said of them."""
    rows = figures["variants"]
    columns = _columns(rows)
    about = figures["machine"]
    model = ", ".join(f"{name} {value}" for name, value in figures["model"].items())
    versions = ", ".join(f"{name} {value}" for name, value in figures["versions"].items())
    lines = [
        "# Schedules and engines, side by side",
        "",
        f"`{figures['command']}`",
        "",
        f"{about['processor']}, {about['cores']} cores, {about['system']}; Python {about['python']},"
        f" {versions}. Model: {model}. {figures['workload']}",
        "",
        "| " + " | ".join(COLUMNS[name][0] for name in columns) + " |",
        "|" + "--:|" * len(columns),
        *("| " + " | ".join(_cell(row, name) for name in columns) + " |" for row in rows),
        "",
        LEGEND,
        "",
    ]
    return "\n".join([*lines, notes.strip(), ""] if notes else lines)


def _differ(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({row[name] for row in rows}) > 1


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns: without those that are empty, and without an engine or renderer that all rows share."""
    return [
        name
        for name in COLUMNS
        if any(row.get(name) is not None for row in rows)
        and (name not in ("engine", "renderer") or _differ(rows, name))
    ]


def _cell(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if value is None:
        return "–"
    return COLUMNS[name][2].format(value / 2**30 if name == "peak_bytes" else value)
