"""`merge`: merge the shards of a run."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from render_agent.cli.shared_options import RUNS_FOLDER, complete_runs


@click.command("merge", panel="Work with runs")
@click.argument("runs", nargs=-1, required=True, metavar="RUNS…", shell_complete=complete_runs)
@RUNS_FOLDER
def merge_command(runs: tuple[str, ...], output: Path) -> None:
    """Merge the shards I/N of one run into a new run folder.

    The merged run can be resumed like any other.

    \b
    Examples:
      render-agent merge SHARD_1 SHARD_2
    """
    from render_agent.cli.run import command_line, run_argument
    from render_agent.runs.merge_shards import merge_shards
    from render_agent.runs.read import find_run
    from render_agent.runs.run_part import result_tables
    from render_agent.util.console import plain_console
    from render_agent.util.display import count_noun

    path, results = merge_shards(output, [find_run(output, name) for name in runs])
    num_unfinished = results["counts"]["active"] + results["counts"]["failed"]
    console = plain_console(stderr=True)
    console.print(result_tables(results))
    console.print(f"run: {path}", soft_wrap=True)
    if num_unfinished:
        line = command_line("--continue", run_argument(path))
        console.print(
            f"{count_noun(num_unfinished, 'question')} not done. Resume with: {line}",
            soft_wrap=True,
        )
