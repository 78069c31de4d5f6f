"""A sweep taken to its end, or to where it stands: its runs, then its table and its plot."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from render_agent.analysis.sweep.grid import check_cells, find_cells, is_complete, run_cell
from render_agent.analysis.sweep.output import (
    COLUMN_HEADS,
    caption,
    footnotes,
    row_cells,
    row_names,
    title,
    write_sweep,
)
from render_agent.analysis.sweep.plan import Sweep, read_sweep
from render_agent.analysis.sweep.table import (
    CUT_OFF,
    NOT_BEGUN,
    Row,
    sweep_rows,
)
from render_agent.cli.commands.runs import program, watch
from render_agent.config.engine import refuse_code
from render_agent.errors import RenderAgentError, UsageError
from render_agent.extras import require
from render_agent.questions.selection import choose_questions
from render_agent.runs.log.folder import RunFolder
from render_agent.text.console import plain_console, plain_table
from render_agent.text.reasons import shortened
from render_agent.text.sanitize import json_text

COMPLETE, FAILED = 0, 1

WIDTH = 150
"""Characters that the table has where there is no terminal to ask."""


def sweep(
    file: Path, typed: Mapping[str, Any], *, dry_run: bool = False, allow_code: bool = False
) -> int:
    """Run what a file of a sweep asks for and return the exit code.

    typed: options of the command line, as RunConfig takes them. allow_code: whether policies' files that it
    names may be run, which a dry run never does. Cells that are complete are left as they
    are, others go on or begin. An error of one cell does not keep the others from running; one that can
    be known before stops all. UsageError or SetupError then, in one sentence.
    """
    shown = ("json", "quiet", "verbose")
    plan = read_sweep(
        file,
        {name: value for name, value in typed.items() if name not in (*shown, "output")},
        Path(typed.get("output", "experiment_logs")),
    )
    quiet, as_json = bool(typed.get("quiet")), bool(typed.get("json"))
    console = plain_console(stderr=True, quiet=quiet)
    if not console.is_terminal:
        console.width = WIDTH
    begun = find_cells(plan)
    if not (dry_run or allow_code):
        for cell in plan.cells:
            refuse_code(cell.config, f"{file}, {shortened(cell.label, 200)},")
    check_cells(plan, begun, run_code=not dry_run)
    if dry_run:
        _tell_plan(plan, begun, plain_console())
        return COMPLETE
    require("a sweep", "matplotlib")
    again = shlex.join([*program(), *sys.argv[1:]])
    errors = _run_cells(plan, console, again, quiet=quiet, verbose=bool(typed.get("verbose")))
    rows, notes = sweep_rows(plan, find_cells(plan))
    files = write_sweep(plan, rows, notes)
    failed = bool(errors) or any(
        row["failed"] or row["status"] in (CUT_OFF, NOT_BEGUN) for row in rows
    )
    if as_json:
        printed = {
            "name": plan.name,
            "baseline": plan.baseline.row,
            "cells": rows,
            "notes": notes,
        }
        named = {key: str(path) for key, path in files.items()}
        click.echo(json_text({**printed, "errors": errors, "files": named}))
    console.print(sweep_table(plan, rows, notes))
    for label, error in errors.items():
        console.print(f"{label}: {error}", style="red", soft_wrap=True)
    if failed:
        console.print(f"not all is done. To go on: {again}", soft_wrap=True)
    if not as_json:
        click.echo("\n".join(str(path) for path in files.values()), err=True)
    return FAILED if failed else COMPLETE


def _run_cells(
    plan: Sweep, console: Console, again: str, *, quiet: bool, verbose: bool
) -> dict[str, str]:
    """Take every cell to its end; return by label what kept one from it."""
    errors = {}
    number = len(plan.cells)
    for place, cell in enumerate(plan.cells, start=1):
        folder = find_cells(plan).get(cell.label)  # another process may have begun it meanwhile
        where = f"cell {place} of {number}: {cell.label}"
        if folder is not None and is_complete(folder):
            console.print(f"{where} is complete: {folder.path}", soft_wrap=True)
            continue
        console.print(where, soft_wrap=True)
        shown = replace(cell, config=replace(cell.config, quiet=quiet, verbose=verbose))
        try:
            run_cell(shown, folder, lambda run: watch(run, again=again))
        except RenderAgentError as error:  # the other cells may well run; said at the end too
            errors[cell.label] = str(error)
            console.print(f"{where}: {error}", soft_wrap=True)
    return errors


def _tell_plan(plan: Sweep, begun: Mapping[str, RunFolder], console: Console) -> None:
    console.print(f"sweep {plan.name}: {len(plan.cells)} runs in {plan.cells[0].config.output}")
    for cell in plan.cells:
        folder = begun.get(cell.label)
        if folder is None:
            stands = f"{len(choose_questions(cell.config))} questions"
        else:
            stands = f"{'complete' if is_complete(folder) else 'goes on'}: {folder.path}"
        base = " (baseline)" if cell.row == plan.baseline.row else ""
        console.print(f"  {cell.label}{base}: {stands}", soft_wrap=True)


def sweep_table(plan: Sweep, rows: list[Row], notes: Mapping[str, list[str]]) -> Table:
    """Return the figures of all cells as a person reads them."""
    table = plain_table(title(plan))
    head, names = row_names(plan, rows)
    table.add_column(head, overflow="fold")
    for name in COLUMN_HEADS:
        table.add_column(name, justify="right", no_wrap=True)
    for name, row in zip(names, rows, strict=True):
        table.add_row(name, *row_cells(row, plan.baseline.row))
    table.caption = "\n".join(
        [" ".join(caption(plan)), *(f"- {line}" for line in footnotes(rows, notes))]
    )
    return table


def check_file(file: str) -> Path:
    """Return the path of a file of a sweep. UsageError where there is none."""
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"there is no file {file}")
    return path
