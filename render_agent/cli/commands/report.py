"""The commands that write the report of a run, and pack it to hand on."""

from __future__ import annotations

from pathlib import Path

import click

from render_agent.cli.options import RUN, WHERE_RUNS_LIE, NewPath, option


@click.command("report")
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


@click.command("bundle")
@RUN
@option(
    "--to",
    type=NewPath(),
    metavar="FILE.zip|DIR",
    help="The zip or the new folder to write (default: the run's name with .zip, here).",
)
@WHERE_RUNS_LIE
@option(
    "--no-diagnosis", is_flag=True, help="Do not compute what the cameras saw; it needs the scans."
)
def bundle_command(run: str, to: str | None, output: str, no_diagnosis: bool) -> None:
    """Pack RUN and its report into one zip or folder, to be mailed or put on a web server.

    It holds the pages, the pictures, the scenes in 3D, the results and the options, without paths of this
    machine, servers and keys. It opens from disk in any browser, by its index.html.

    \b
    Examples:
      render-agent bundle recent
      render-agent bundle recent --to public/run
    """
    from render_agent.analysis.report.build import build, missing_assets
    from render_agent.analysis.report.bundle import bundle, check_free
    from render_agent.runs.log.folder import find_run
    from render_agent.text.display import size, stage

    folder = find_run(Path(output), run)
    place = Path(to or f"{folder.name}.zip")
    check_free(place)
    index, report = build(folder, diagnose=not no_diagnosis)
    for sentence in missing_assets(report, index.parent):
        click.echo(sentence, err=True)
    with stage(f"writing {place}"):
        number = bundle(report, index.parent, place)
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    click.echo(str(place))
    click.echo(f"{number:,} files, {size(sum(file.stat().st_size for file in files))}", err=True)
