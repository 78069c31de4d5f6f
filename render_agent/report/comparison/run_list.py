"""Lists the runs of a folder, one row per run, including unfinished and unreadable runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from render_agent.errors import RunLogError
from render_agent.options import OPTIONS, fixed_options
from render_agent.report.sentences.facts import option_label, option_value
from render_agent.runs.log.lock import status_of_unfinished
from render_agent.runs.read import RunData
from render_agent.score.summary import OFFICIAL_RAW
from render_agent.score.tables import figure
from render_agent.util.reasons import truncate

COLUMNS = (
    "run", "status", "questions", "answered", "official", "official_raw", "interval", "minutes", "cost_usd",
    "date", "benchmark", "views", "engine", "model", "agent", "notes", "options", "error",
)  # fmt: skip

# options that have their own column, or describe the question of a run with one question
IN_OTHER_COLUMNS = {"batch", "benchmark", "engine", "model", "option", "ply", "question"}

MAX_OPTION_CHARS = 80  # maximum length of a value in `differing_options`


def run_row(path: Path) -> dict[str, Any]:
    """Return the row of a run: a value or None per name in COLUMNS.

    `minutes` is rendering and generation time over all processes, `cost_usd` None if it is unknown, `interval` the 95 %
    interval of the score (`official_raw`), `options` the options that affect results. `error` is the reason why a run cannot be read.
    """
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"run": path.name, "notes": [], "options": {}}
    try:
        row["date"] = _start_time(path).isoformat(" ", "minutes")
        run = RunData(path)
        options = run.record["config"]
        row |= {
            "status": status_of_unfinished(path),
            "benchmark": "one scan" if options.get("ply") else options.get("benchmark"),
            "views": options.get("views"),
            "engine": options.get("engine"),
            "model": run.model,
            "agent": options.get("agent", "single"),
            "options": fixed_options(options),
        }
        row["questions"] = len(run.questions) if run.has_questions else None
        if results := run.stored_results:
            seconds = results["totals"]["seconds"]
            minutes = sum(seconds.get(part, 0.0) for part in ("rendering", "generating")) / 60
            row |= {
                "status": results["status"],
                "answered": results["counts"]["answered"],
                "official": figure(results["official_over_scored"]["score"]),
                "official_raw": figure(results[OFFICIAL_RAW]),
                "interval": results["intervals"].get(OFFICIAL_RAW),
                "minutes": round(minutes, 1),
                "cost_usd": results.get("cost_usd"),
                "notes": results["notes"],
            }
    except RunLogError as error:
        return row | {"status": error.status, "error": str(error)}
    except OSError as error:
        return row | {"status": error.strerror or "damaged", "error": str(error)}
    return row


def differing_options(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return, for each run, the options that differ between the runs, in command-line syntax, without defaults."""
    known = [row["options"] for row in rows if row["options"]]
    differing = [
        name
        for name in dict.fromkeys(name for options in known for name in options)
        if name not in IN_OTHER_COLUMNS
        and len({_canonical(o[name]) if name in o else "" for o in known}) > 1
    ]
    return [
        [
            _as_typed(name, row["options"][name])
            for name in differing
            if name in row["options"] and not _is_default(name, row["options"][name])
        ]
        for row in rows
    ]


def _is_default(name: str, value: Any) -> bool:
    return name in OPTIONS and _canonical(value) == _canonical(OPTIONS[name].default)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=list)


def _as_typed(name: str, value: Any) -> str:
    """Format an option in command-line syntax, on one line."""
    if value is True:
        return option_label(name)
    return f"{option_label(name)} {truncate(option_value(name, value), MAX_OPTION_CHARS)}"


def _start_time(path: Path) -> datetime:
    """Return the start time of a run, from its name or else from the modification time of its configuration."""
    try:
        return datetime.strptime(path.name.partition("_")[0], "%Y%m%dT%H%M%S")
    except ValueError:
        return datetime.fromtimestamp((path / "config.json").stat().st_mtime)
