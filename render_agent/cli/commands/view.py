"""`view`: serve a live report of a run."""

from __future__ import annotations

import rich_click as click

from render_agent.cli.commands.report import report_options, serve_report


@click.command("view", panel="Inspect runs")
@report_options
def view_command(
    run: str, output: str, processes: int | None, no_diagnosis: bool, port: int, browser: bool
) -> None:
    """Serve a live report of RUN on localhost.

    RUN is recent, a name or a path. Same as `report --watch`.

    \b
    Examples:
      render-agent view recent
      render-agent view recent --port 8000 --no-browser
    """
    serve_report(run, output, processes, no_diagnosis, port, browser)
