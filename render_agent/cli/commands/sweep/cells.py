"""Runs of a sweep on disk, matched to cells by the fingerprint of their options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from render_agent.cli.commands.sweep.plan import Sweep, SweepRun
from render_agent.engines.make_engine import describe_engine, engine_traits
from render_agent.errors import RenderAgentError, SetupError
from render_agent.options import CHANGEABLE, RunConfig
from render_agent.report.runs_table import is_complete
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import Run, check, resume_run, start_run

Watch = Callable[[Run], object]


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


def run_cell(
    cell: SweepRun,
    started: RunData | None,  # its run, None if it has not started
    watch: Watch,
) -> None:
    """Run a cell to completion, resuming it if it was started."""
    changes = {name: getattr(cell.config, name) for name in sorted(CHANGEABLE - {"output"})}
    watch(
        start_run(cell.config) if started is None else resume_run(started, changes, allow_code=True)
    )


def _check_file(config: RunConfig) -> dict[str, Any]:
    """Check that the file of a policy exists, without executing it. Raises SetupError if it is missing."""
    if not Path(config.model or "").is_file():
        raise SetupError(f"file not found: {config.model}")
    return {}
