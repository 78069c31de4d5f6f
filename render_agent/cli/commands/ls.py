"""`ls`: list runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUNS_FOLDER

COLUMNS = (
    "run",
    "status",
    "questions",
    "answered",
    "official",
    "minutes",
    "date",
    "benchmark",
    "views",
    "engine",
    "model",
    "agent",
)


@click.command("ls", panel="Inspect runs")
@RUNS_FOLDER
@AS_JSON
def ls_command(output: str, as_json: bool) -> None:
    """List runs, oldest first.

    \b
    Examples:
      render-agent ls
      render-agent ls --runs results --json
    """

    from render_agent.runs.read import NO_RUNS, list_runs
    from render_agent.score.summary import SCORE_NAMES
    from render_agent.util.console import PlainTable, plain_console
    from render_agent.util.sanitize import printable_json

    rows = [run_row(path) for path in list_runs(Path(output))]
    if as_json:
        click.echo(printable_json(rows))
        return
    if not rows:
        click.echo(f"no runs in {output}. {NO_RUNS}")
        return
    heads = ("score" if name == "official" else name for name in COLUMNS)
    table = PlainTable()
    for head in heads:
        table.add_column(head)
    for row in rows:
        table.add_row(*("–" if row[name] is None else str(row[name]) for name in COLUMNS))
    console = plain_console()
    console.print(table)
    console.print(f"score: {SCORE_NAMES}, in percent over scored questions", soft_wrap=True)
    for error in filter(None, (row["error"] for row in rows)):
        click.echo(error, err=True)


def run_row(path: Path) -> dict[str, Any]:
    """Return the table row of a run; `minutes` is rendering and generation time over all processes."""
    from render_agent.errors import RunLogError
    from render_agent.runs.read import RunData
    from render_agent.score.tables import figure

    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"run": path.name, "error": None}
    try:
        folder = RunData(path)
        results = folder.saved_results
        saved = folder.record["config"]
        row |= {
            "date": _start_time(path).isoformat(" ", "minutes"),
            "benchmark": "one scan" if saved.get("ply") else saved.get("benchmark"),
            "views": saved.get("views"),
            "status": "unfinished",
            "questions": len(folder.questions) if folder.has_questions else None,
            "engine": saved["engine"],
            "model": folder.model,
            "agent": saved.get("agent", "single"),
        }
        if results:
            seconds = results["totals"]["seconds"]
            row |= {
                "status": results["status"],
                "answered": results["counts"]["answered"],
                "minutes": round((seconds["rendering"] + seconds["generating"]) / 60, 1),
                "official": figure(results["official_over_scored"]["score"]),
            }
    except RunLogError as error:
        return row | {"status": error.status, "error": str(error)}
    except OSError as error:
        return row | {"status": error.strerror or "damaged", "error": str(error)}
    return row


def _start_time(path: Path) -> datetime:
    """Return when a run started, from its name or else from the modification time of its configuration."""
    try:
        return datetime.strptime(path.name.partition("_")[0], "%Y%m%dT%H%M%S")
    except ValueError:
        return datetime.fromtimestamp((path / "config.json").stat().st_mtime)
