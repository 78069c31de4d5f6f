"""`rescore`: recompute the results of a run from its log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, PARSER, RUN, RUNS_FOLDER


@click.command("rescore", panel="Work with runs")
@RUN
@PARSER
@RUNS_FOLDER
@AS_JSON
def rescore_command(run: str, parser: str, output: Path, as_json: bool) -> None:
    """Recompute the results of RUN from its log, even if it is unfinished.

    The official results of a finished run replace its results.json; those of another parser are written to a
    separate file next to it.

    \b
    Examples:
      render-agent rescore recent
      render-agent rescore recent --parser vlmevalkit
    """
    from render_agent.runs.log.writer import RunLog
    from render_agent.runs.read import find_run
    from render_agent.runs.run_part import result_tables
    from render_agent.score.summary import OFFICIAL
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    folder = find_run(output, run)
    results = folder.score(folder.dialogues, parser)
    if folder.finished:
        with closing(RunLog(folder.path)) as log:
            if parser == OFFICIAL:
                log.write_results(results)
            else:
                log.write_results_of(parser, results)
    if as_json:
        click.echo(printable_json(results))
        return
    console = plain_console()
    console.print(result_tables(results))
    console.print(f"run: {folder.path}", soft_wrap=True)
