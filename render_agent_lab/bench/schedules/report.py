"""Formats a comparison as a table, as Markdown, and as JSON with everything that it depends on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from render_agent.util.console import PlainTable

# Columns shown in tables: heading and format. The JSON also contains all other figures.
COLUMNS: dict[str, tuple[str, str]] = {
    "engine": ("engine", "{}"),
    "schedule": ("schedule", "{}"),
    "reuse": ("reuse", "{}"),
    "batch_size": ("batch size", "{}"),
    "seconds": ("seconds", "{:.1f}"),
    "questions_an_hour": ("questions per hour", "{:,}"),
    "times_sequential": ("× sequential", "{:.1f}"),
    "times_two_phase": ("× two-phase", "{:.1f}"),
    "floor_share": ("lower bound", "{:.0%}"),
    "prefilled_over_first_seen": ("prefilled / new", "{:.2f}"),
    "cached_share": ("cached", "{:.0%}"),
    "peak_bytes": ("GiB", "{:.2f}"),
    "questions_that_differ": ("transcripts differ", "{}"),
    "failed": ("failed", "{}"),
}

PACKAGES = ("torch", "transformers", "vllm", "openai", "numpy", "numba")


def describe_environment(command: str, model: Mapping[str, Any], **extra: Any) -> dict[str, Any]:
    """Return everything that the results depend on: command, machine, package versions, model."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "command": command,
        "machine": {
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "versions": versions,
        "model": dict(model),
        **extra,
    }


def nonempty_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns that are not empty."""
    return [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]


def format_cell(row: Mapping[str, Any], name: str) -> str:
    """Return a formatted table cell."""
    value = row.get(name)
    if value is None:
        return "–"
    return COLUMNS[name][1].format(value / 2**30 if name == "peak_bytes" else value)


def table(rows: Sequence[Mapping[str, Any]]) -> PlainTable:
    """Return the results as a table for a terminal."""
    result = PlainTable()
    for name in nonempty_columns(rows):
        is_text = name in ("engine", "schedule", "reuse")
        result.add_column(COLUMNS[name][0], right=not is_text)
    for row in rows:
        result.add_row(*(format_cell(row, name) for name in nonempty_columns(rows)))
    return result


def markdown(figures: Mapping[str, Any]) -> str:
    """Return the results as a Markdown page with the command and the machine."""
    rows, machine = figures["variants"], figures["machine"]
    model = ", ".join(f"{name} {value}" for name, value in figures["model"].items())
    versions = ", ".join(f"{name} {value}" for name, value in figures["versions"].items())
    heads = [COLUMNS[name][0] for name in nonempty_columns(rows)]
    lines = [
        "# Schedules and engines compared",
        "",
        f"{figures['workload']} Model: {model}.",
        "",
        f"| {' | '.join(heads)} |",
        "|" + "--:|" * len(heads),
        *(
            f"| {' | '.join(format_cell(row, name) for name in nonempty_columns(rows))} |"
            for row in rows
        ),
        "",
        f"{machine['cores']} cores, {machine['system']}; Python {machine['python']}, {versions}.",
        "",
        f"    {figures['command']}",
        "",
    ]
    return "\n".join(lines)
