"""All findings together, printed as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from render_agent.cli.commands.doctor.data import examine_data
from render_agent.cli.commands.doctor.engines import BUNDLED_MODEL, TRANSFORMERS, examine_engines
from render_agent.cli.commands.doctor.machine import examine_machine, examine_packages
from render_agent.cli.commands.doctor.probe import RUNNING, Finding, end
from render_agent.cli.commands.doctor.renderers import examine_renderers
from render_agent.text.console import plain_console
from render_agent.text.display import stage
from render_agent.text.sanitize import json_text

READY = "This machine is ready: render-agent --batch --benchmark rooms"
BY_THE_MODEL, BY_RULE = "--model small --image-size 320x240", "--engine scripted"


def examine(options: Mapping[str, Any], *, as_json: bool, probe: bool = False) -> int:
    """Print what this machine can do, and return 0 where a run over the bundled rooms is possible.

    options: of a run, by name, as the command line resolved them. probe: let models answer too.
    Returns 1 where no run is.
    """
    findings = list(_findings(options, probe))
    preventing = [finding for finding in findings if finding.prevents]
    if as_json:
        report = {"ready": not preventing, "findings": [f.to_json() for f in findings]}
        click.echo(json_text(report))
        return int(bool(preventing))
    console = plain_console()
    console.print(_table(findings))
    for finding in preventing:
        console.print(f"No run is possible until this is fixed: {finding.name}", style="red")
    if not preventing:
        working = {finding.name for finding in findings if finding.works}
        answering = BY_THE_MODEL if {TRANSFORMERS, BUNDLED_MODEL} <= working else BY_RULE
        console.print(f"{READY} {answering}", soft_wrap=True)
    return int(bool(preventing))


POLL_SECONDS = 0.1


def _findings(options: Mapping[str, Any], probe: bool) -> Iterator[Finding]:
    """Give all findings, looked for side by side; what is waited for is told."""
    output = Path(options.get("output") or "experiment_logs")
    parts = {
        "looking at the machine and its packages": examine_machine(output),
        "letting every renderer draw a triangle": examine_renderers(),
        "importing what engines need, and asking the hub": examine_engines(options, probe=probe),
        "looking for questions and scans": examine_data(options),
        "importing what installed packages bring": examine_packages(),
    }
    with ThreadPoolExecutor(len(parts)) as pool:
        started = {words: pool.submit(list, findings) for words, findings in parts.items()}
        try:
            for words, findings in started.items():
                with stage(words, announced=True):
                    found = findings.result()
                yield from found
        except BaseException:  # nobody waits for the probes any more
            while wait(started.values(), POLL_SECONDS).not_done:
                for process in tuple(RUNNING):
                    end(process)
            raise


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(show_header=False)
    part = ""
    for finding in findings:
        if finding.part != part:
            part = finding.part
            table.add_section()
            table.add_row("", Text(part, style="bold"), "")
        detail = Text(finding.detail)
        if not finding.works and finding.remedy:
            detail.append(f"\n→ {finding.remedy}", style="bold")
        table.add_row(_mark(finding), finding.name, detail)
    return table


def _mark(finding: Finding) -> Text:
    if finding.works:
        return Text("yes", style="green")
    return Text("no", style="red" if finding.prevents else "yellow")
