"""The options of the commands: those of a run with what the shell completes, and where runs lie."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

import click

from render_agent.cli import completion
from render_agent.config import flags

WHERE_RUNS_LIE = click.option(
    "--output",
    default="experiment_logs",
    show_default=True,
    metavar="DIR",
    help="Where runs lie.",
    shell_complete=completion.folders,
)
"""The option of every command that looks at runs."""

AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

RUN = click.argument("run", default="recent", shell_complete=completion.runs)
"""The run that a command looks at: the newest, unless another is named."""


def run_option(entry: Field[Any]) -> click.Option:
    """Return the option of the command line that a field of RunConfig declares."""
    return flags.run_option(entry, shell_complete=completion.completes(entry))
