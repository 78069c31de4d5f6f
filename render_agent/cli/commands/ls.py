"""`ls`: list runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUNS_FOLDER, option

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

SHORT_HEADINGS = ("run", "benchmark", "model", "questions", "score", "age")
RIGHT_ALIGNED = ("questions", "answered", "score", "minutes", "cost ($)", "age")

MIN_NAME = 8  # shortest width to which the names of benchmarks and models are cut


@click.command("ls", panel="Inspect runs")
@option("--wide", is_flag=True, help="Show all columns, without shortening names.")
@RUNS_FOLDER
@AS_JSON
def ls_command(output: Path, as_json: bool, wide: bool) -> None:
    """List runs, oldest first.

    Shows the benchmark, model, number of questions, score and age of each run. --wide adds the status, costs and the
    most important options.

    \b
    Examples:
      render-agent ls
      render-agent ls --wide --runs results
    """
    from render_agent.report.comparison.run_list import run_row
    from render_agent.runs.read import NO_RUNS, list_runs
    from render_agent.score.summary import SCORE_NAMES
    from render_agent.util.console import PlainTable, plain_console
    from render_agent.util.sanitize import escape_line, escape_name, printable_json

    rows = [run_row(path) for path in list_runs(output)]
    if as_json:
        names = (*HEADINGS, "official", "error")
        click.echo(printable_json([{name: row[name] for name in names} for row in rows]))
        return
    if not rows:
        click.echo(f"no runs in {output}. {NO_RUNS}")
        return
    heads, lines = _wide_lines(rows) if wide else (SHORT_HEADINGS, [*map(_short_line, rows)])
    texts = [[escape_name("–" if cell is None else str(cell)) for cell in line] for line in lines]
    console, table = plain_console(), PlainTable()
    for head in heads:
        table.add_column(head, right=head in RIGHT_ALIGNED)
    for line in texts if wide else _shorten([list(heads), *texts], console.width)[1:]:
        table.add_row(*line)
    console.print(table)
    console.print(f"score: {SCORE_NAMES}, in percent over scored questions", soft_wrap=True)
    for error in filter(None, (row["error"] for row in rows)):
        click.echo(escape_line(error), err=True)


def _wide_lines(rows: Sequence[Mapping[str, Any]]) -> tuple[Sequence[str], list[list[Any]]]:
    """Return the headings and the cells of all columns; costs only if any is known."""
    from render_agent.score.tables import interval

    names = [n for n in HEADINGS if n != "cost_usd" or any(row[n] is not None for row in rows)]
    values = [{**row, "interval": interval(row["interval"]) or None} for row in rows]
    return [HEADINGS[name] for name in names], [[row[name] for name in names] for row in values]


def _short_line(row: Mapping[str, Any]) -> list[Any]:
    status, score, model, benchmark = (
        row[name] for name in ("status", "official_raw", "model", "benchmark")
    )
    if score is None:
        score = status
    elif status != "complete":
        score = f"{score} {status}"
    names = benchmark and Path(benchmark).name, model and Path(model).name
    return [row["run"], *names, row["questions"], score, _age(row["date"])]


def _shorten(lines: Sequence[list[str]], width: int) -> Sequence[list[str]]:
    """Shorten the names of models, then of benchmarks, if every line then fits into `width`."""
    from render_agent.util.console import GAP

    limits = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    excess = sum(limits) + GAP * (len(limits) - 1) - width
    for column in (2, 1):
        cut = min(max(excess, 0), max(limits[column] - MIN_NAME, 0))
        limits[column] -= cut
        excess -= cut
    if excess > 0:
        return lines
    return [
        [text if len(text) <= limit else f"{text[: limit - 1]}…" for text, limit in zip(line, limits, strict=True)]
        for line in lines
    ]  # fmt: skip


def _age(date: str | None) -> str | None:
    """Return the time since the start of a run: "5 min", "3 h", "12 d"."""
    if date is None:
        return None
    minutes = (datetime.now() - datetime.fromisoformat(date)).total_seconds() / 60
    for unit, size in (("d", 2 * 24 * 60), ("h", 2 * 60)):
        if minutes >= size:
            return f"{minutes / (size / 2):.0f} {unit}"
    return f"{max(minutes, 0):.0f} min"
