"""`doctor`: check what this machine can run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, option

if TYPE_CHECKING:
    from render_agent.cli.commands.doctor.checks import Check
    from render_agent.util.console import PlainTable

READY = "This machine is ready. Try: render-agent --batch --benchmark rooms"
BY_THE_MODEL, BY_RULE = "--model small --image-size 320x240", "--engine scripted"


@click.command("doctor", panel="Other")
@AS_JSON
@option(
    "--probe",
    "probe_models",
    is_flag=True,
    help="Also test the bundled model, and --model if it is on this machine.",
)
@click.pass_context
def doctor_command(context: click.Context, /, as_json: bool, probe_models: bool) -> None:
    """Check what this machine can run, and what to install.

    Checks renderers, engines, memory and data. Exit code 1 if no run is possible.

    \b
    Examples:
      render-agent doctor
      render-agent doctor --probe
    """
    context.exit(run_doctor(context.obj, as_json=as_json, probe=probe_models))


def run_doctor(options: Mapping[str, Any], *, as_json: bool, probe: bool = False) -> int:
    """Print what this machine can run; return 1 if no run over the bundled rooms is possible, otherwise 0."""
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    checks = list(run_checks(options, probe))
    preventing = [check for check in checks if check.prevents]
    if as_json:
        report = {"ready": not preventing, "findings": [asdict(check) for check in checks]}
        click.echo(printable_json(report))
        return int(bool(preventing))
    console = plain_console()
    console.print(_table(checks))
    for check in preventing:
        console.print(f"No run is possible until this is fixed: {check.name}", style="red")
    if not preventing:
        working = {check.name for check in checks if check.works}
        answering = BY_THE_MODEL if {"transformers", "bundled model"} <= working else BY_RULE
        console.print(f"{READY} {answering}", soft_wrap=True)
    return int(bool(preventing))


def run_checks(options: Mapping[str, Any], probe: bool) -> Iterator[Check]:
    """Yield all checks and show the current part."""
    from render_agent.cli.commands.doctor import checks
    from render_agent.util.display import stage

    parts = {
        "machine": checks.machine_checks(Path(options.get("output") or "experiment_logs")),
        "renderers": checks.renderer_checks(),
        "engines": checks.engine_checks(options, probe=probe),
        "data": checks.data_checks(options),
        "packages": checks.package_checks(),
    }
    for name, of_part in parts.items():
        with stage(f"checking {name}", announce=True):
            yield from of_part


def _table(checks: Sequence[Check]) -> PlainTable:
    from rich.text import Text

    from render_agent.util.console import PlainTable

    table = PlainTable()
    for _ in range(3):
        table.add_column("")
    part = ""
    for check in checks:
        if check.part != part:
            part = check.part
            table.add_section()
            table.add_row("", Text(part, style="bold"))
        detail = Text(check.detail)
        if not check.works and check.remedy:
            detail.append(f"\n→ {check.remedy}", style="bold")
        colour = "green" if check.works else "red" if check.prevents else "yellow"
        table.add_row(Text("yes" if check.works else "no", style=colour), check.name, detail)
    return table
