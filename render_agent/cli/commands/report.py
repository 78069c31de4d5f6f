"""`report`: write the pages of a run."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.options import RUN, WHERE_RUNS_LIE, option


@click.command("report", panel="Inspect runs")
@RUN
@WHERE_RUNS_LIE
@option(
    "--processes",
    type=click.IntRange(1),
    help="How many processes diagnose and write pages (default: one a core).",
)
@option(
    "--no-diagnosis", is_flag=True, help="Do not compute what the cameras saw; it needs the scans."
)
def report_command(run: str, output: str, processes: int | None, no_diagnosis: bool) -> None:
    """Write the report of RUN (recent, a name or a path) into its folder and print its index.

    It opens from disk in any browser. A run in progress may be reported, and is stamped so. Scans and
    pictures that are gone are told of; the pages do without them.

    \b
    Examples:
      render-agent report recent
      render-agent report recent --no-diagnosis
    """
    from time import perf_counter

    from render_agent.analysis.report.build import build, missing_assets
    from render_agent.runs.log.folder import find_run
    from render_agent.text.display import counted

    began = perf_counter()
    index, report = build(
        find_run(Path(output), run), processes=processes, diagnose=not no_diagnosis
    )
    click.echo(str(index))
    for sentence in missing_assets(report, index.parent):
        click.echo(sentence, err=True)
    seconds = perf_counter() - began
    pages = counted(len(report.states), "question")
    click.echo(f"{pages}, {seconds:.1f} s; open the file in a browser", err=True)
