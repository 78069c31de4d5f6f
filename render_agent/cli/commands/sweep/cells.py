"""The loop over the cells of a sweep, and their runs on disk, which are matched by the fingerprint of their options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from render_agent.cli.commands.sweep.plan import Sweep
from render_agent.cli.run import run_with_progress
from render_agent.engines.make_engine import describe_engine, engine_traits
from render_agent.errors import RenderAgentError, SetupError
from render_agent.options import CHANGEABLE, RunConfig
from render_agent.report.comparison.runs_table import is_complete
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import check, resume_run, start_run


def find_cells(sweep: Sweep) -> dict[str, RunData]:
    """Return the run of every started cell by label, preferring complete and recent runs.

    Folders that are not readable runs are ignored.
    """
    by_fingerprint: dict[str, RunData] = {}
    for path in list_runs(sweep.folder):
        try:
            run = RunData(path)
            fingerprint = run.config.fingerprint
        except RenderAgentError:
            continue
        other = by_fingerprint.get(fingerprint)
        if other is None or is_complete(run) >= is_complete(other):
            by_fingerprint[fingerprint] = run
    return {
        cell.label: by_fingerprint[cell.config.fingerprint]
        for cell in sweep.cells
        if cell.config.fingerprint in by_fingerprint
    }


def check_cells(sweep: Sweep, started: Mapping[str, RunData], *, run_code: bool = True) -> None:
    """Check that every cell that has not started can start, without loading a model."""
    for cell in sweep.cells:
        if cell.label in started:
            continue
        code = engine_traits(cell.config.engine).code_file(cell.config)
        describe = describe_engine if run_code or not code else _check_file
        try:
            check(build(cell.config), describe)
        except SetupError as error:
            raise type(error)(f"{cell.label}: {error}") from error


def run_cells(
    sweep: Sweep, console: Console, resume_command: str, *, verbose: bool
) -> dict[str, str]:
    """Complete every cell; return the errors of cells that stopped, by label."""
    errors = {}
    for place, cell in enumerate(sweep.cells, start=1):
        run = find_cells(sweep).get(cell.label)  # another process may have started it
        title = f"cell {place} of {len(sweep.cells)}: {cell.label}"
        if run is not None and is_complete(run):
            console.print(f"{title} is complete: {run.path}", soft_wrap=True)
            continue
        console.print(title, soft_wrap=True)
        config = replace(cell.config, quiet=console.quiet, verbose=verbose)
        changes = {name: getattr(config, name) for name in sorted(CHANGEABLE - {"output"})}
        try:
            run_with_progress(
                start_run(config) if run is None else resume_run(run, changes, allow_code=True),
                resume_command=resume_command,
            )
        except RenderAgentError as error:  # continue with the other cells
            errors[cell.label] = str(error)
            console.print(f"{title}: {error}", soft_wrap=True)
    return errors


def _check_file(config: RunConfig) -> dict[str, Any]:
    """Check that the file of a policy exists, without executing it. Raises SetupError if it is missing."""
    if not Path(config.model or "").is_file():
        raise SetupError(f"file not found: {config.model}")
    return {}
