"""`export`: convert runs for training and other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from render_agent import registry
from render_agent.cli.shared_options import RUNS_FOLDER, NewPath, complete_runs, option
from render_agent.extras import require
from render_agent.options import flag_of

if TYPE_CHECKING:
    from render_agent.runs.read import RunData

TABLES = ("csv", "turns-csv", "parquet", "turns-parquet")

FORMATS = (
    "messages",
    "pairs",
    *TABLES,
    "inspect",
    "rerun",
    "maps",
    *registry.built_in("logger"),
)

FORMATS_OF_FLAGS = {  # the formats that each flag applies to; --force applies to all
    "absolute": ("messages", "pairs"),
    "without_thinking": ("messages", "pairs"),
    "with_truth": ("messages",),
    "embed": ("inspect",),
    "diagnose": (*TABLES, "inspect"),
}


@click.command("export", panel="Work with runs")
@click.argument("runs", nargs=-1, metavar="[RUN]…", shell_complete=complete_runs)
@option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    required=True,
    help="messages: chat messages. pairs: pairs of a better and a worse reply. csv, parquet: one row per question, or"
    " per turn. inspect: log for Inspect. rerun: recording for Rerun. maps: true maps of the scenes. Trackers: what"
    " --log-to would have sent.",
)
@option(
    "--to",
    type=NewPath(),
    metavar="FILE|DIR",
    help="File or folder to write; not needed for trackers.",
)
@option(
    "--question",
    multiple=True,
    metavar="ID",
    help="Only the question with this id. Repeatable.",
)
@option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="Only this question type. Repeatable.",
)
@option("--correct", is_flag=True, help="Only questions that score at least 0.5.")
@option("--least-score", type=click.FloatRange(0, 1), help="Only questions that score at least X.")
@option("--absolute", is_flag=True, help="messages, pairs: absolute image paths.")
@option("--without-thinking", is_flag=True, help="messages, pairs: remove think blocks.")
@option("--with-truth", is_flag=True, help="messages: add the ground truth next to the messages.")
@option("--embed", is_flag=True, help="inspect: embed images in the log.")
@option(
    "--diagnose",
    is_flag=True,
    help="tables, inspect: add the diagnosis, which needs the scans.",
)
@option("--force", is_flag=True, help="Overwrite existing files.")
@RUNS_FOLDER
def export_command(
    runs: tuple[str, ...],
    form: str,
    to: str | None,
    question: tuple[str, ...],
    types: tuple[str, ...],
    correct: bool,
    least_score: float | None,
    output: Path,
    **flags: bool,
) -> None:
    """Export runs for training, tables and viewers.

    RUNS defaults to the most recent run.

    \b
    Examples:
      render-agent export recent --format messages --correct --to right.jsonl
      render-agent export RUN_A RUN_B --format parquet --to results.parquet
      render-agent export recent --format pairs --to pairs.jsonl
      render-agent export recent --format inspect --embed --to logs
      render-agent export recent --format rerun --question 3 --to 3.rrd
      render-agent export recent --format maps --to maps
    """
    # imported here so that the command line starts quickly
    from render_agent.errors import UsageError
    from render_agent.report.export.selection import select_questions
    from render_agent.report.export.writers import ExportOptions, export
    from render_agent.runs.read import find_run
    from render_agent.score.comparison import RIGHT

    for name, formats in FORMATS_OF_FLAGS.items():
        if flags[name] and form not in formats:
            raise UsageError(f"{flag_of(name)} needs --format {' or '.join(formats)}, not {form}")
    if correct and least_score is not None:
        raise UsageError("--correct and --least-score exclude each other. Pass one of them.")
    minimum_score = RIGHT if correct else least_score
    folders = [find_run(output, name) for name in runs or ("recent",)]
    if len({folder.path.resolve() for folder in folders}) < len(folders):
        raise UsageError("a run is named twice. Name each run once.")
    if form in registry.built_in("logger"):
        if to or question or types or minimum_score is not None:
            raise UsageError(
                f"--format {form} sends whole runs to a tracker. Omit --to and options that select questions."
            )
        _log(folders, form)
        return
    if to is None:
        raise UsageError(f"--format {form} needs an output path. Pass --to PATH.")
    selection = select_questions(folders, question, types, minimum_score)
    thinking, truth = not flags.pop("without_thinking"), flags.pop("with_truth")
    options = ExportOptions(thinking=thinking, truth=truth, **flags)
    click.echo(f"{export(selection, form, Path(to), options)} in {to}")


def _log(folders: Sequence[RunData], name: str) -> None:
    """Send runs to a tracker. Raises SetupError if its library is missing or it rejects them."""
    from render_agent.errors import SetupError
    from render_agent.runs.loggers import log_finished, logged_line

    require(f"--format {name}", name)
    for folder in folders:
        warnings: list[str] = []
        if not log_finished(folder, name, warnings.append):
            raise SetupError(f"{folder.name}: {'; '.join(warnings)}")
        click.echo("\n".join(warnings) or logged_line(name, folder))
