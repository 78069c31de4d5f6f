"""The command that runs a grid of options and compares what they come to."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from render_agent.cli.completion import files
from render_agent.cli.help_page import RunPage
from render_agent.cli.options import option, run_option
from render_agent.config import OPTIONS
from render_agent.config.flags import given_options

COMMANDLINE, ENVIRONMENT = ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT

NOT_HERE = ("batch", "ply", "question", "option", "repeat", "shard")
"""Options of a run that a sweep has no use for."""


@click.command(
    "sweep",
    cls=RunPage,
    params=[run_option(entry) for name, entry in OPTIONS.items() if name not in NOT_HERE],
)
@click.argument("file", metavar="FILE.yaml", shell_complete=files)
@option(
    "--dry-run",
    is_flag=True,
    help="Say which runs there would be; load no model, run no policy's file.",
)
@option("--allow-code", is_flag=True, help="Run the policies (.py) that FILE.yaml names.")
@click.pass_context
def sweep_command(
    context: click.Context, /, file: str, dry_run: bool, allow_code: bool, **options: Any
) -> None:
    """Run a grid of options, each combination a run of its own; typed again, it goes on.

    \b
    Examples:
      render-agent sweep examples/views.yaml
      render-agent sweep examples/views.yaml --limit 20 --output runs

    FILE.yaml has `options` for all runs, and a `grid` of lists of values or a list of `runs`. Options
    given here beat those in it.
    """
    # the parts of a run are loaded when they are used, so that the command line starts quickly
    from render_agent.cli.commands.sweep.sweep_run import check_file, sweep
    from render_agent.errors import UsageError

    typed = {**given_options(context.parent), **given_options(context)}
    if wrong := sorted(typed.keys() & set(NOT_HERE)):
        raise UsageError(f"--{wrong[0]} has no place in a sweep")
    parent = context.parent
    allowed = allow_code or bool(parent is not None and parent.params.get("allow_code"))
    sources = [c.get_parameter_source("model") for c in (context, parent) if c is not None]
    named_here = any(source in (COMMANDLINE, ENVIRONMENT) for source in sources)
    context.exit(sweep(check_file(file), typed, dry_run=dry_run, allow_code=allowed or named_here))
