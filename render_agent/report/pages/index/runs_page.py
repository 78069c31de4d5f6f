"""Page over all runs of a folder: one row per run, with links to their reports."""

from __future__ import annotations

from collections.abc import Callable
from os import fsencode
from pathlib import Path
from typing import Any
from urllib.parse import quote

from render_agent.errors import RunLogError, UsageError
from render_agent.report.comparison.run_list import differing_options, run_row
from render_agent.report.pages.build import REPORT
from render_agent.report.pages.page import copy_assets, render_page, write_page
from render_agent.runs.log.lock import RUNNING
from render_agent.runs.read import NO_RUNS, list_runs
from render_agent.score.summary import SCORE_NAMES
from render_agent.score.tables import dollars, interval
from render_agent.util.atomic_files import replacing_folder
from render_agent.util.display import count_noun
from render_agent.util.sanitize import escape_name

TEMPLATE = "runs.html"

SWEEP_PLOT = "scores.svg"  # in the folder of a sweep

STAMPS = {"complete": None, "partial": "PARTIAL"}  # other statuses are their own stamp

OWN_FILE = "assets/report.css"  # a folder without it is not one that this program wrote


def has_report(run: Path) -> bool:
    """Return True if a run has a report."""
    return (run / REPORT / "index.html").is_file()


def write_runs_page(output: Path) -> Path:
    """Write the page over all runs to the folder `report` next to them and return its path."""
    values = page_values(output, has_report)
    if (output / SWEEP_PLOT).is_file():
        values["plot"] = f"../{SWEEP_PLOT}"
    folder = output / REPORT
    if folder.exists() and not (folder / OWN_FILE).is_file():
        raise UsageError(f"{folder} exists and is not a report. Move or rename it.")
    with replacing_folder(folder) as pages:
        copy_assets(pages)
        write_page(pages / "index.html", TEMPLATE, values)
    return folder / "index.html"


def render_runs_page(output: Path) -> str:
    """Return the same page for a server that writes reports on demand, with a link for every readable run."""
    values = page_values(output, lambda run: True)
    is_live = any(row["status"] == RUNNING for row in values["rows"])
    return render_page(TEMPLATE, values, is_live=is_live)


def page_values(output: Path, links: Callable[[Path], bool]) -> dict[str, Any]:
    """Return the variables of the page, newest run first."""
    paths = list_runs(output)[::-1]
    if not paths:
        raise RunLogError(f"no runs in {output}. {NO_RUNS}")
    rows = [run_row(path) for path in paths]
    for path, row, options in zip(paths, rows, differing_options(rows), strict=True):
        is_readable = row["error"] is None and row["questions"] is not None
        row |= {
            "run": escape_name(row["run"]),
            "differing": options,
            "stamp": STAMPS.get(row["status"], row["status"]),
            "interval": interval(row["interval"]),
            "link": f"../{quote(fsencode(path.name), safe='')}/{REPORT}/index.html"
            if is_readable and links(path)
            else None,
        }
    return {
        "name": escape_name(output.resolve().name),
        "stamps": [],
        "notes": [],
        "root": "",
        "rows": rows,
        "total": count_noun(len(rows), "run"),
        "has_options": any(row["differing"] for row in rows),
        "has_cost": any(row["cost_usd"] is not None for row in rows),
        "dollars": dollars,
        "plot": None,
        "score_names": SCORE_NAMES,
    }
