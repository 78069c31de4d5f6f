"""`bundle`: pack a run and its report."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import RUN, RUNS_FOLDER, NewPath, option


@click.command("bundle", panel="Inspect runs")
@RUN
@option(
    "--to",
    type=NewPath(),
    metavar="FILE.zip|DIR",
    help="Zip file or new folder to write (default: RUN.zip in the current folder).",
)
@RUNS_FOLDER
@option("--no-diagnosis", is_flag=True, help="Skip the visibility analysis, which needs the scans.")
def bundle_command(run: str, to: str | None, output: Path, no_diagnosis: bool) -> None:
    """Pack RUN and its report into one zip file or folder to share.

    The bundle contains the pages, images, 3D scenes, results and options, but no paths of this machine, server
    addresses or keys. Open its index.html in any browser.

    \b
    Examples:
      render-agent bundle recent
      render-agent bundle recent --to public/run
    """
    from render_agent.report.pages.build import build_report, missing_assets
    from render_agent.report.pages.bundle import bundle, check_free
    from render_agent.runs.read import find_run
    from render_agent.util.display import count_noun, format_bytes, stage

    folder = find_run(output, run)
    place = Path(to or f"{folder.name}.zip")
    check_free(place)
    index = build_report(folder, diagnose=not no_diagnosis)
    for sentence in missing_assets(folder, index.parent):
        click.echo(sentence, err=True)
    with stage(f"writing {place}"):
        number = bundle(folder, index.parent, place)
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    click.echo(str(place))
    click.echo(
        f"{count_noun(number, 'file')}, {format_bytes(sum(file.stat().st_size for file in files))}",
        err=True,
    )
