"""`sweep`: run a grid of options and compare the runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.core import ParameterSource

from render_agent.cli.flags import given_options
from render_agent.cli.shared_options import option, run_option
from render_agent.options import OPTIONS

if TYPE_CHECKING:
    from rich.console import Console

    from render_agent.cli.commands.sweep.plan import Sweep

COMMANDLINE, ENVIRONMENT = ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT

# Run options that do not apply to sweeps.
EXCLUDED_OPTIONS = ("batch", "ply", "question", "option", "shard")

DISPLAY = ("json", "quiet", "verbose")


@click.command(
    "sweep",
    panel="Work with runs",
    params=[run_option(entry) for name, entry in OPTIONS.items() if name not in EXCLUDED_OPTIONS],
)
@click.argument("file", metavar="FILE.yaml", type=click.Path())
@option("--dry-run", is_flag=True, help="List the runs; load no model and run no policy file.")
@option("--allow-code", is_flag=True, help="Run the policies (.py) that FILE.yaml names.")
@click.pass_context
def sweep_command(
    context: click.Context,
    /,
    file: str,
    dry_run: bool,
    allow_code: bool,
    **options: Any,
) -> None:
    """Run a grid of options, one run per combination.

    Prints the scores in a table and plots them. Run the command again to resume an interrupted sweep.

    \b
    Examples:
      render-agent sweep examples/views.yaml
      render-agent sweep examples/views.yaml --limit 20 --output runs

    FILE.yaml has `options` for all runs, and either a `grid` of lists of values or a list of `runs`. Options on the
    command line override those in the file.
    """
    from render_agent.cli.commands.sweep.plan import check_cells, find_cells, read_sweep, run_cells
    from render_agent.cli.run import command_line
    from render_agent.engines.make_engine import reject_code
    from render_agent.errors import SetupError, UsageError
    from render_agent.report.comparison.runs_plot import write_runs_plot
    from render_agent.report.comparison.runs_table import COMPLETE, run_rows, runs_table
    from render_agent.report.pages.index.runs_page import SWEEP_PLOT
    from render_agent.util.console import plain_console
    from render_agent.util.reasons import truncate
    from render_agent.util.sanitize import printable_json

    command_options = {**given_options(context.parent), **given_options(context)}
    if invalid := sorted(command_options.keys() & set(EXCLUDED_OPTIONS)):
        raise UsageError(f"--{invalid[0]} cannot be used with sweep. Omit it.")
    overrides = {
        name: value for name, value in command_options.items() if name not in (*DISPLAY, "output")
    }
    plan = read_sweep(Path(file), overrides, Path(command_options.get("output", "experiment_logs")))
    console = plain_console(stderr=True, quiet=bool(command_options.get("quiet")))
    runs_by_label = find_cells(plan)
    if not (dry_run or allow_code or _model_is_typed(context)):
        for cell in plan.cells:
            reject_code(cell.config, f"{file}, {truncate(cell.label, 200)},")
    check_cells(plan, runs_by_label, run_code=not dry_run)
    if dry_run:
        _list_cells(plan, plain_console())
        return
    resume_command = command_line(*sys.argv[1:])
    verbose = bool(command_options.get("verbose"))
    errors = run_cells(plan, console, resume_command, verbose=verbose)
    rows = run_rows(plan.groups(find_cells(plan)), plan.baseline)
    plot = note = None
    try:
        plot = write_runs_plot(rows, plan.title, plan.folder / SWEEP_PLOT)
    except SetupError as reason:  # matplotlib is optional
        note = str(reason)
    if command_options.get("json"):
        document = {"name": plan.name, "baseline": plan.baseline, "cells": rows, "errors": errors}
        click.echo(printable_json({**document, "plot": plot and str(plot)}))
    console.print(runs_table(rows, plan.baseline, plan.title))
    if words := f"plot: {plot}" if plot else note:
        console.print(words, soft_wrap=True)
    for label, error in errors.items():
        console.print(f"{label}: {error}", style="red", soft_wrap=True)
    if errors or any(row["status"] != COMPLETE or row["failed"] for row in rows):
        console.print(f"The sweep is incomplete. Resume with: {resume_command}", soft_wrap=True)
        context.exit(1)


def _model_is_typed(context: click.Context) -> bool:
    """Return True if the user named the model on this command line or in the environment."""
    sources = [c.get_parameter_source("model") for c in (context, context.parent) if c is not None]
    allow_code = bool(context.parent is not None and context.parent.params.get("allow_code"))
    return allow_code or any(source in (COMMANDLINE, ENVIRONMENT) for source in sources)


def _list_cells(plan: Sweep, console: Console) -> None:
    from render_agent.cli.commands.sweep.plan import find_cells
    from render_agent.report.comparison.runs_table import status_of
    from render_agent.tasks.selection import choose_questions
    from render_agent.util.display import count_noun

    runs_by_label = find_cells(plan)
    console.print(
        f"sweep {plan.name}: {count_noun(len(plan.cells), 'run')} in {plan.folder}", soft_wrap=True
    )
    for cell in plan.cells:
        folder = runs_by_label.get(cell.label)
        if folder is None:
            status = count_noun(len(choose_questions(cell.config)), "question")
        else:
            status = f"{status_of(folder)}: {folder.path}"
        base = " (baseline)" if cell.row == plan.baseline else ""
        console.print(f"  {cell.label}{base}: {status}", soft_wrap=True)
