"""`view`: serve live reports of runs."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.commands.report import refuse_run, report_options
from render_agent.cli.shared_options import option


@click.command("view", panel="Inspect runs")
@click.pass_context
@report_options
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 picks a free one.")
@option(
    "--browser/--no-browser",
    default=True,
    help="Open the report in the browser if there is a display (default).",
)
def view_command(
    context: click.Context,
    /,
    run: str,
    output: str,
    processes: int | None,
    no_diagnosis: bool,
    every_run: bool,
    port: int,
    browser: bool,
) -> None:
    """Serve a live report of RUN on localhost.

    RUN is recent, a name or a path. The report is rewritten while the run is in progress, and open pages reload
    themselves. With --all, a page over all runs links to their reports.

    \b
    Examples:
      render-agent view recent
      render-agent view recent --port 8000 --no-browser
      render-agent view --all
    """
    from render_agent.extras import require
    from render_agent.runs.read import find_run
    from render_agent.util.sanitize import escape_line
    from render_agent.util.web.browser import open_page

    require("a live view", "starlette", "uvicorn", "matplotlib")
    from render_agent.report.pages.live import LiveReports, serve_run, serve_runs

    def on_start(address: str) -> None:
        click.echo(escape_line(f"{name}: {address}"), err=True)
        click.echo("Press Ctrl-C to stop.", err=True)
        if browser:
            open_page(address)

    reports = LiveReports(processes, diagnose=not no_diagnosis)
    if every_run:
        refuse_run(context)
        name = output
        serve_runs(Path(output), reports, port, on_start)
    else:
        folder = find_run(Path(output), run)
        name = folder.name
        click.echo("writing the first report", err=True)
        serve_run(folder.path, reports, port, on_start)
