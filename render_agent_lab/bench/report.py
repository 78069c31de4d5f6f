"""The figures of a comparison as a table and as one object with all that they depend on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rich.table import Table

COLUMNS: dict[str, tuple[str, str]] = {
    "engine": ("engine", "{}"),
    "schedule": ("schedule", "{}"),
    "reuse": ("reuse", "{}"),
    "batch_size": ("batch size", "{}"),
    "seconds": ("seconds", "{:.1f}"),
    "questions_an_hour": ("questions per hour", "{:,}"),
    "times_sequential": ("× sequential", "{:.1f}"),
    "times_two_phase": ("× two-phase", "{:.1f}"),
    "floor_share": ("floor", "{:.0%}"),
    "prefilled_over_first_seen": ("read / new", "{:.2f}"),
    "cached_share": ("cached", "{:.0%}"),
    "peak_bytes": ("GiB", "{:.2f}"),
    "questions_that_differ": ("differ", "{}"),
    "failed": ("failed", "{}"),
}
"""The figures that are shown: heading and form. All others are in the JSON."""

PACKAGES = ("torch", "transformers", "vllm", "openai", "numpy", "numba")


def circumstances(command: str, model: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return what the figures depend on: the command, the machine, versions, the model."""
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
        **more,
    }


def columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns that are not empty."""
    return [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]


def cell(row: Mapping[str, Any], name: str) -> str:
    """Return a figure as it is shown."""
    value = row.get(name)
    if value is None:
        return "–"
    return COLUMNS[name][1].format(value / 2**30 if name == "peak_bytes" else value)


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the figures as a table for a terminal."""
    shown = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in columns(rows):
        text = name in ("engine", "schedule", "reuse")
        shown.add_column(COLUMNS[name][0], justify="left" if text else "right")
    for row in rows:
        shown.add_row(*(cell(row, name) for name in columns(rows)))
    return shown


def markdown(figures: Mapping[str, Any]) -> str:
    """Return a comparison as a page: the command, the machine and the figures."""
    rows, about = figures["variants"], figures["machine"]
    model = ", ".join(f"{name} {value}" for name, value in figures["model"].items())
    versions = ", ".join(f"{name} {value}" for name, value in figures["versions"].items())
    heads = [COLUMNS[name][0] for name in columns(rows)]
    lines = [
        "# Schedules and engines, side by side",
        "",
        f"{figures['workload']} Model: {model}.",
        "",
        f"| {' | '.join(heads)} |",
        "|" + "--:|" * len(heads),
        *(f"| {' | '.join(cell(row, name) for name in columns(rows))} |" for row in rows),
        "",
        f"{about['cores']} cores, {about['system']}; Python {about['python']}, {versions}.",
        "",
        f"    {figures['command']}",
        "",
    ]
    return "\n".join(lines)
