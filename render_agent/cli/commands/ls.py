"""`ls`: list runs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUNS_FOLDER

# column -> its heading
HEADINGS = {
    "run": "run",
    "status": "status",
    "questions": "questions",
    "answered": "answered",
    "official": "score",
    "minutes": "minutes",
    "cost_usd": "cost ($)",
    "date": "date",
    "benchmark": "benchmark",
    "views": "views",
    "engine": "engine",
    "model": "model",
    "agent": "agent",
}


@click.command("ls", panel="Inspect runs")
@RUNS_FOLDER
@AS_JSON
def ls_command(output: str, as_json: bool) -> None:
    """List runs, oldest first.

    Shows the status, the score and the most important options of each run.

    \b
    Examples:
      render-agent ls
      render-agent ls --runs results --json
    """
    from render_agent.report.run_list import run_row
    from render_agent.runs.read import NO_RUNS, list_runs
    from render_agent.score.summary import SCORE_NAMES
    from render_agent.util.console import PlainTable, plain_console
    from render_agent.util.sanitize import escape_line, escape_name, printable_json

    rows = [run_row(path) for path in list_runs(Path(output))]
    if as_json:
        names = (*HEADINGS, "interval", "error")
        click.echo(printable_json([{name: row[name] for name in names} for row in rows]))
        return
    if not rows:
        click.echo(f"no runs in {output}. {NO_RUNS}")
        return
    columns = [n for n in HEADINGS if n != "cost_usd" or any(row[n] is not None for row in rows)]
    table = PlainTable()
    for name in columns:
        table.add_column(HEADINGS[name])
    for row in rows:
        cells = ("–" if row[name] is None else str(row[name]) for name in columns)
        table.add_row(*map(escape_name, cells))
    console = plain_console()
    console.print(table)
    console.print(f"score: {SCORE_NAMES}, in percent over scored questions", soft_wrap=True)
    for error in filter(None, (row["error"] for row in rows)):
        click.echo(escape_line(error), err=True)
