"""The files of a sweep: its table as CSV, Markdown and JSON, and its plot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from render_agent.analysis.sweep.plan import Sweep
from render_agent.analysis.sweep.table import Row, as_csv, as_markdown, named, title, varied_names
from render_agent.system.whole_files import json_bytes, write_whole


def write_sweep(asked: Sweep, rows: list[Row], notes: Mapping[str, list[str]]) -> dict[str, Path]:
    """Write the table, as CSV, Markdown and JSON, and the plot beside the runs; return the files.

    RunLogError where they cannot be written.
    """
    from render_agent.analysis.sweep.plot import plot

    folder = Path(asked.cells[0].config.output)
    varied = varied_names(asked.cells)
    told = {"name": asked.name, "baseline": asked.baseline.row, "cells": rows, "notes": notes}
    write_whole(folder / "table.csv", as_csv(rows, varied).encode())
    write_whole(folder / "table.md", as_markdown(asked, rows, notes).encode())
    write_whole(folder / "table.json", json_bytes(told))
    files = {
        "table": folder / "table.md",
        "csv": folder / "table.csv",
        "json": folder / "table.json",
    }
    labelled = all(cell.given for cell in asked.cells)
    by = "label" if labelled else varied[0] if varied else None
    if plot(rows, named(asked, rows), f"{title(asked)}: official score", by, folder / "plot.svg"):
        files["plot"] = folder / "plot.svg"
    return files
