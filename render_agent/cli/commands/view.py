"""`view`: serve a live report of a run."""

from __future__ import annotations

import rich_click as click

from render_agent.cli.commands.report import refuse_run, report_options, serve_report


@click.command("view", panel="Inspect runs")
@click.pass_context
@report_options
def view_command(
    context: click.Context,
    /,
    run: str,
    output: str,
    processes: int | None,
    no_diagnosis: bool,
    port: int,
    browser: bool,
    every_run: bool,
) -> None:
    """Serve a live report of RUN on localhost.

    RUN is recent, a name or a path. Same as `report --watch`. With --all, a page over all runs; the report of a run is
    written when it is opened.

    \b
    Examples:
      render-agent view recent
      render-agent view recent --port 8000 --no-browser
      render-agent view --all
    """
    if every_run:
        refuse_run(context)
    serve_report(None if every_run else run, output, processes, no_diagnosis, port, browser)
