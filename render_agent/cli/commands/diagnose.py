"""The command that says why a run went as it did."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.options import AS_JSON, RUN, WHERE_RUNS_LIE, option


@click.command("diagnose", panel="Inspect runs")
@RUN
@WHERE_RUNS_LIE
@option(
    "--processes",
    type=click.IntRange(1),
    help="How many processes look at the scenes (default: one a core, where that is worth it).",
)
@AS_JSON
def diagnose_command(run: str, output: str, processes: int | None, as_json: bool) -> None:
    """Say why RUN (recent, a name or a path) went as it did.

    Did it fail because it never looked, because it looked and misjudged, or did it give no answer? Of a run with
    --probe, what broke first: perception, memory or reasoning?
    Objects are known from the official annotations or the truth beside a bundled room.

    \b
    Examples:
      render-agent diagnose recent
      render-agent diagnose recent --json
    """

    from render_agent.analysis.diagnosis.diagnose import diagnose_run
    from render_agent.analysis.diagnosis.failure_summary import failure_summary, failure_table
    from render_agent.analysis.diagnosis.failure_summary import reading as failure_reading
    from render_agent.analysis.diagnosis.summary import cause_table, notes, reading, summary
    from render_agent.runs.log.folder import find_run
    from render_agent.runs.log.reader import read_states
    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text

    folder = find_run(Path(output), run)
    states = read_states(folder)
    diagnoses = diagnose_run(folder, processes, states)
    figures = summary(states, diagnoses)
    beliefs = failure_summary(states, diagnoses, folder.config.image_size)
    if as_json:
        printed = {"reading": reading(figures["all"]), **figures}
        click.echo(json_text(printed if beliefs is None else {**printed, "beliefs": beliefs}))
        return
    console = plain_console()
    console.print(cause_table(figures))
    for line in notes(figures):
        console.print(line, soft_wrap=True)
    if beliefs is not None:
        console.print(failure_table(beliefs))
        console.print(failure_reading(beliefs["all"]), soft_wrap=True)
