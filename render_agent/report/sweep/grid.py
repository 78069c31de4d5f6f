"""The runs of a sweep on disk: each cell is found again by the fingerprint of its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from render_agent.engines.make_engine import describe_engine, engine_traits
from render_agent.errors import RenderAgentError, SetupError
from render_agent.options import CHANGEABLE, RunConfig
from render_agent.report.sweep.plan import Cell, Sweep
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import Run, check, resume_run, start_run

Watch = Callable[[Run], object]


def find_cells(sweep: Sweep) -> dict[str, RunData]:
    """Return the run of every cell that was begun, by label; of several the one that got farthest.

    A folder that cannot be read as a run is passed over.
    """
    by_fingerprint: dict[str, RunData] = {}
    for path in list_runs(Path(sweep.cells[0].config.output)):
        try:
            run = RunData(path)
            fingerprint = run.config.fingerprint
        except RenderAgentError:
            continue
        known = by_fingerprint.get(fingerprint)
        if known is None or is_complete(run) >= is_complete(known):
            by_fingerprint[fingerprint] = run
    return {
        cell.label: by_fingerprint[cell.config.fingerprint]
        for cell in sweep.cells
        if cell.config.fingerprint in by_fingerprint
    }


def is_complete(run: RunData) -> bool:
    """Whether a run has come to its end and none of its questions failed or is active."""
    results = run.saved_results
    return results is not None and not (results["counts"]["failed"] or results["counts"]["active"])


def check_cells(sweep: Sweep, begun: Mapping[str, RunData], *, run_code: bool = True) -> None:
    """Refuse a sweep before anything runs where a cell that is not begun cannot begin.

    SetupError, which names the cell. No model is loaded. run_code: whether a policy's file may be run, which
    shows whether it can.
    """
    for cell in sweep.cells:
        if cell.label in begun:
            continue
        code = engine_traits(cell.config.engine).code_of(cell.config)
        describe = describe_engine if run_code or not code else _check_file
        try:
            check(build(cell.config), describe)
        except SetupError as error:
            raise type(error)(f"{cell.label}: {error}") from error


def run_cell(cell: Cell, begun: RunData | None, watch: Watch) -> None:
    """Take a cell to its end: begin it, or go on where it was cut off or failed.

    SetupError, EngineError or RunLogError where it has to stop; typed again, it goes on.
    """
    changes = {name: getattr(cell.config, name) for name in sorted(CHANGEABLE - {"output"})}
    watch(start_run(cell.config) if begun is None else resume_run(begun, changes))


def _check_file(config: RunConfig) -> dict[str, Any]:
    """Look whether the file of a policy is there, and do not run it. SetupError where it is not."""
    if not Path(config.model or "").is_file():
        raise SetupError(f"there is no file {config.model}")
    return {}
