"""The command that shows a run while it goes on."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.options import RUN, WHERE_RUNS_LIE, option
from render_agent.extras import require


@click.command("view", panel="Inspect runs")
@RUN
@WHERE_RUNS_LIE
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page; 0 is any that is free.",
)
@option(
    "--browser/--no-browser",
    default=True,
    help="Open the page in the browser, where there is a display (default).",
)
def view_command(run: str, output: str, port: int, browser: bool) -> None:
    """Show RUN (recent, a name or a path) in the browser while it goes on, on this machine alone.

    The pages are those of its report; new turns come by themselves. Nothing is written into the run
    folder. Ctrl-C ends it.

    \b
    Examples:
      render-agent view recent
      render-agent view recent --port 8000 --no-browser
    """
    import tempfile
    from contextlib import closing
    from threading import Event

    require("render-agent view", "starlette", "uvicorn", "matplotlib")
    from render_agent.analysis.live.server import LiveSite
    from render_agent.runs.log.folder import find_run
    from render_agent.text.sanitize import one_line
    from render_agent.web.browser import open_page
    from render_agent.web.server import LocalServer

    folder = find_run(Path(output), run)
    with (
        tempfile.TemporaryDirectory(prefix="render-agent-view-") as scratch,
        closing(LiveSite(folder, Path(scratch))) as site,
        closing(LocalServer(port)) as server,
    ):
        server.start(site.routes())
        click.echo(one_line(f"{folder.name}: {server.address}"), err=True)
        click.echo("Ctrl-C ends it", err=True)
        if browser:
            open_page(server.address)
        Event().wait()
