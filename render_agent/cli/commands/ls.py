"""`ls`: list runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUNS_FOLDER, option

if TYPE_CHECKING:
    from render_agent.util.console import PlainTable

# columns of `--json`, with their headings in the table of `--wide`
HEADINGS = {
    "run": "run",
    "status": "status",
    "questions": "questions",
    "answered": "answered",
    "official_raw": "score",
    "interval": "95 % CI",
    "minutes": "minutes",
    "cost_usd": "cost ($)",
    "date": "date",
    "benchmark": "benchmark",
    "views": "views",
    "engine": "engine",
    "model": "model",
    "agent": "agent",
}

GAP = 2  # columns between the cells of a table

MIN_NAME = 8  # shortest width to which the names of benchmarks and models are cut


@click.command("ls", panel="Inspect runs")
@option("--wide", is_flag=True, help="Show all columns, without shortening names.")
@RUNS_FOLDER
@AS_JSON
def ls_command(output: str, as_json: bool, wide: bool) -> None:
    """List runs, oldest first.

    Shows the benchmark, model, number of questions, score and age of each run. --wide adds the status, costs and the
    most important options.

    \b
    Examples:
      render-agent ls
      render-agent ls --wide --runs results
    """
    from render_agent.report.run_list import run_row
    from render_agent.runs.read import NO_RUNS, list_runs
    from render_agent.score.summary import SCORE_NAMES
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import escape_line, printable_json

    rows = [run_row(path) for path in list_runs(Path(output))]
    if as_json:
        names = (*HEADINGS, "official", "error")
        click.echo(printable_json([{name: row[name] for name in names} for row in rows]))
        return
    if not rows:
        click.echo(f"no runs in {output}. {NO_RUNS}")
        return
    console = plain_console()
    console.print(_wide_table(rows) if wide else _short_table(rows, console.width))
    console.print(f"score: {SCORE_NAMES}, in percent over scored questions", soft_wrap=True)
    for error in filter(None, (row["error"] for row in rows)):
        click.echo(escape_line(error), err=True)


def _wide_table(rows: Sequence[Mapping[str, Any]]) -> PlainTable:
    from render_agent.score.tables import interval
    from render_agent.util.console import PlainTable
    from render_agent.util.sanitize import escape_name

    columns = [n for n in HEADINGS if n != "cost_usd" or any(row[n] is not None for row in rows)]
    table = PlainTable()
    for name in columns:
        table.add_column(HEADINGS[name])
    for row in rows:
        values = {**row, "interval": interval(row["interval"]) or None}
        cells = ("–" if values[name] is None else str(values[name]) for name in columns)
        table.add_row(*map(escape_name, cells))
    return table


def _short_table(rows: Sequence[Mapping[str, Any]], width: int) -> PlainTable:
    """Return a table with one line per run, for which the names of benchmarks and models are shortened if that helps."""
    from render_agent.util.console import PlainTable
    from render_agent.util.sanitize import escape_name

    heads = ("run", "benchmark", "model", "questions", "score", "age")
    lines = [
        [escape_name("–" if cell is None else str(cell)) for cell in _cells(row)] for row in rows
    ]
    widths = [max(map(len, cells)) for cells in zip(heads, *lines, strict=True)]
    limits = list(widths)
    for column in (2, 1):
        excess = sum(limits) + GAP * (len(heads) - 1) - width
        limits[column] = max(limits[column] - max(excess, 0), min(limits[column], MIN_NAME))
    fits = sum(limits) + GAP * (len(heads) - 1) <= width
    table = PlainTable()
    for name in heads:
        table.add_column(name, right=name in ("questions", "score", "age"))
    for line in lines:
        table.add_row(*map(_cut, line, limits if fits else widths))
    return table


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else f"{name[: length - 1]}…"


def _cells(row: Mapping[str, Any]) -> tuple[Any, ...]:
    status, model = row["status"], row["model"]
    score = status if row["official_raw"] is None else row["official_raw"]
    if row["official_raw"] is not None and status != "complete":
        score = f"{score} {status}"
    benchmark = row["benchmark"] and Path(row["benchmark"]).name
    return (
        row["run"],
        benchmark,
        model and Path(model).name,
        row["questions"],
        score,
        _age(row["date"]),
    )


def _age(date: str | None) -> str | None:
    """Return the time since the start of a run: "5 min", "3 h", "12 d"."""
    if date is None:
        return None
    minutes = (datetime.now() - datetime.fromisoformat(date)).total_seconds() / 60
    for unit, size in (("d", 2 * 24 * 60), ("h", 2 * 60)):
        if minutes >= size:
            return f"{minutes / (size / 2):.0f} {unit}"
    return f"{max(minutes, 0):.0f} min"
