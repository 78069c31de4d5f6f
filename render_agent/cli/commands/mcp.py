"""`mcp`: any MCP client explores scans and is scored."""

from __future__ import annotations

from typing import Any

import rich_click as click

from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import option, run_option
from render_agent.options import OPTIONS, RunConfig

SERVED = [
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("questions", "dialogue")
    and not entry.metadata.get("of_model")
    and name != "batch"
] + ["sight_check", "output"]


@click.command(
    "mcp",
    panel="Other",
    params=[run_option(OPTIONS[name]) for name in SERVED],
)
@option(
    "--http",
    "over_http",
    is_flag=True,
    help="Serve any number of clients over streamable HTTP on localhost; by default, one over stdio.",
)
@option(
    "--port",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Port of --http; 0 picks a free one.",
)
@option(
    "--model", metavar="NAME", help="Model behind the client, for the record (default: the client)."
)
@click.pass_context
def mcp_command(
    context: click.Context,
    /,
    over_http: bool,
    port: int,
    model: str | None,
    **options: Any,
) -> None:
    """Let MCP clients, such as Claude Code, explore scans.

    The client's model calls tools to start a question, move the camera and answer. Every session is recorded as a run
    with --engine mcp, for report, diagnose, compare and score. The ground truth stays in this process until the session
    is over.

    \b
    Examples:
      render-agent mcp --benchmark rooms --id 37
      render-agent mcp --ply SCAN.ply --question "How many chairs are there?"
      render-agent mcp --benchmark rooms --limit 5 --http --port 8000
    """
    from render_agent.extras import require

    require("render-agent mcp", "mcp")
    from render_agent.environments.world import World
    from render_agent.mcp_server.server import make_server
    from render_agent.mcp_server.transports import serve_http, serve_stdio, take_streams

    typed_options = {**given_options(context.parent), **given_options(context)}
    options_of_run = {name: value for name, value in typed_options.items() if name in SERVED}
    config = RunConfig(
        **options_of_run,
        batch=options_of_run.get("ply") is None,
        engine="mcp",
        model=model,
        reply_protocol="tools",
    ).absolute()
    streams = None if over_http else take_streams()
    world = World(config, record=config.output)
    try:
        if streams is None:
            serve_http(make_server(world, "http"), port, _announce)
        else:
            serve_stdio(make_server(world, "stdio"), streams)
    finally:
        world.close()


def _announce(url: str, token: str) -> None:
    click.echo(f"{url}?token={token}", err=True)
    click.echo(f"or {url} with the header Authorization: Bearer {token}", err=True)
    click.echo("Press Ctrl-C to stop.", err=True)
