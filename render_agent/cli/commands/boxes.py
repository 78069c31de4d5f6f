"""`boxes`: draw and name the boxes of a scan, in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import BROWSER, option, run_option
from render_agent.options import OPTIONS, RunConfig


@click.command(
    "boxes", panel="Other", params=[run_option(OPTIONS["up"]), run_option(OPTIONS["unit"])]
)
@click.argument("scan", type=click.Path(path_type=Path))
@option("--port", type=int, default=0, metavar="N", help="Port of the page (default: any).")
@BROWSER
@click.pass_context
def boxes_command(
    context: click.Context, /, scan: Path, port: int, browser: bool, **options: Any
) -> None:
    """Draw and name the boxes of the objects in SCAN.

    The page, served on localhost only, shows a plan and two elevations. It writes NAME.boxes.json next to the scan, which
    all runs about the scan read.

    \b
    Example:
      render-agent boxes kitchen.ply
    """
    from render_agent.errors import UsageError
    from render_agent.extras import require
    from render_agent.scans.formats.load import load_scene
    from render_agent.tasks.boxes.own_boxes import SUFFIX
    from render_agent.util.web.browser import open_page

    require("boxes", "starlette", "uvicorn")
    from render_agent.report.pages.box_editor import BoxEditor
    from render_agent.util.web.server import LocalServer

    file = scan.with_name(f"{scan.stem}{SUFFIX}")
    if file.exists():
        raise UsageError(f"{file} exists already: move it, or edit it by hand")
    frame = {name: value for name, value in given_options(context).items() if name in options}
    config = RunConfig(ply=str(scan), **frame)
    scene = load_scene(scan, up=config.up, unit=config.unit)
    server = LocalServer(port)
    server.start(BoxEditor(scene, scan, file, config, server.token).routes())
    click.echo(f"Draw boxes at {server.address} (Ctrl-C to stop)")
    if browser:
        open_page(server.address)
    try:
        server.wait()
    except KeyboardInterrupt:
        click.echo("Stopped.")
    finally:
        server.close()
