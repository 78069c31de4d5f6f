"""`report` and `view`: write the HTML pages of a run, once or while it is in progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click
from click.core import ParameterSource

from render_agent.cli.shared_options import RUN, RUNS_FOLDER, option
from render_agent.errors import UsageError


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument and the options that `report` and `view` share."""
    for add in (
        option(
            "--no-diagnosis",
            is_flag=True,
            help="Skip the visibility analysis, which needs the scans.",
        ),
        option(
            "--processes",
            type=click.IntRange(1),
            help="Processes that diagnose and write pages (default: one per core).",
        ),
        option(
            "--all",
            "every_run",
            is_flag=True,
            help="One page over all runs in --runs, with links to their reports.",
        ),
        RUNS_FOLDER,
        RUN,
    ):
        command = add(command)
    return command


@click.command("report", panel="Inspect runs")
@report_options
@click.pass_context
def report_command(
    context: click.Context,
    /,
    run: str,
    output: Path,
    processes: int | None,
    no_diagnosis: bool,
    every_run: bool,
) -> None:
    """Write HTML pages about RUN into its folder.

    RUN is recent, a name or a path. The pages open from disk in any browser. Reports of runs in progress are marked as
    such; `view` keeps them up to date. With --all, the page DIR/report/index.html lists all runs in DIR.

    \b
    Examples:
      render-agent report recent
      render-agent report --all
    """
    from time import perf_counter

    from render_agent.report.pages.build import build_report, missing_assets
    from render_agent.runs.read import find_run
    from render_agent.util.display import count_noun

    if every_run:
        refuse_run(context)
        from render_agent.report.pages.index.runs_page import write_runs_page

        click.echo(str(write_runs_page(output)))
        return
    started_at = perf_counter()
    folder = find_run(output, run)
    index = build_report(folder, processes=processes, diagnose=not no_diagnosis)
    for sentence in missing_assets(folder, index.parent):
        click.echo(sentence, err=True)
    seconds = perf_counter() - started_at
    pages = count_noun(len(folder.questions), "question")
    click.echo(f"report on {pages}, {seconds:.1f} s. Open in a browser:", err=True)
    click.echo(str(index))


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
    output: Path,
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
        name = str(output)
        serve_runs(output, reports, port, on_start)
    else:
        folder = find_run(output, run)
        name = folder.name
        click.echo("writing the first report", err=True)
        serve_run(folder.path, reports, port, on_start)


def refuse_run(context: click.Context) -> None:
    """Raise UsageError if a run is named although --all is given."""
    if context.get_parameter_source("run") is ParameterSource.COMMANDLINE:
        raise UsageError("--all covers every run in --runs. Omit the name of the run.")
