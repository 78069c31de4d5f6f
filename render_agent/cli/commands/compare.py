"""`compare`: compare runs over the same questions, or plan how large a comparison must be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUNS_FOLDER, NewPath, complete_runs, option
from render_agent.errors import UsageError

if TYPE_CHECKING:
    from render_agent.util.console import PlainTable


@click.command("compare", panel="Inspect runs")
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN_A RUN_B …", shell_complete=complete_runs
)
@option("--anyway", is_flag=True, help="Compare the common questions of runs that differ.")
@option(
    "--page",
    type=NewPath(),
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Also write pages with the dialogues side by side (default folder: compare/ next to RUN_A).",
)
@option("--no-diagnosis", is_flag=True, help="Omit the visibility analysis from the pages.")
@option(
    "--power",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="POINTS",
    help="Power analysis instead: scenes and questions needed to detect a difference of POINTS from RUN_A.",
)
@option(
    "--table",
    type=click.Choice(["markdown", "latex", "csv"]),
    help="Print only the table of scores and differences, to paste.",
)
@RUNS_FOLDER
@AS_JSON
def compare_command(
    runs: tuple[str, ...],
    anyway: bool,
    page: str | None,
    no_diagnosis: bool,
    power: float | None,
    output: Path,
    as_json: bool,
    table: str | None,
) -> None:
    """Compare runs, question by question.

    Shows the differences from RUN_A on the questions that the runs share, with confidence intervals.

    --power needs one run. With two runs, it uses their measured correlation.

    \b
    Examples:
      render-agent compare RUN_A RUN_B
      render-agent compare RUN_A RUN_B RUN_C --page
      render-agent compare RUN_A RUN_B --table latex
      render-agent compare RUN_A --power 3
    """
    from render_agent.extras import require
    from render_agent.report.comparison.compare_runs import (
        compare_runs,
        compared_figures,
        plan_power,
        sides_of,
    )
    from render_agent.report.comparison.comparison_table import FORMATS, table_cells
    from render_agent.report.comparison.runs_table import RunGroup, run_rows, runs_table
    from render_agent.report.sentences.verdicts import difference_lines
    from render_agent.runs.read import find_run
    from render_agent.score.comparison import ladder
    from render_agent.score.tables import (
        changed_table,
        comparison_table,
        differences_table,
        ladder_table,
        mcnemar_table,
    )
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    console = plain_console()
    if power is not None:
        figures = plan_power([find_run(output, name) for name in runs], power)
        if as_json:
            click.echo(printable_json(figures))
        else:
            console.print(power_table(figures))
        return
    if page and _is_run(output, Path(page)):
        raise UsageError(f"--page {page} is a run. Put --page last, or give it a new folder.")
    if len(runs) < 2:
        raise UsageError("compare needs at least two runs: render-agent compare RUN_A RUN_B")
    if page is not None:
        require("compare --page", "matplotlib")
    folders = [find_run(output, name) for name in runs]
    if duplicates := [f.name for f in folders[1:] if f.path.resolve() == folders[0].path.resolve()]:
        raise UsageError(f"{duplicates[0]} would be compared with itself. Name another run.")
    sides = sides_of(folders)
    steps = ladder(sides)
    pairs = compare_runs(folders, anyway=anyway, anyway_option="--anyway")
    if page is not None:
        from render_agent.report.pages.comparison.comparison_page import (
            comparison_folder,
            write_comparison,
        )

        place = Path(page) if page else comparison_folder([folder.path for folder in folders])
        index = write_comparison(folders, pairs, place, diagnose=not no_diagnosis)
        click.echo(str(index), err=as_json or table is not None)
    if table is not None:
        letters = [*ascii_lowercase, *(f"run {n}" for n in range(27, len(folders) + 1))]
        letters = letters[: len(folders)]
        click.echo(FORMATS[table][1](table_cells(pairs, letters)), nl=False)
        return
    all_runs = None
    if len(pairs) > 1:
        groups = [
            RunGroup(side.name, [folder]) for side, folder in zip(sides, folders, strict=True)
        ]
        all_runs = run_rows(groups, sides[0].name)
    if as_json:
        rungs = {} if steps is None else {"ladder": steps}
        document = pairs[0] if all_runs is None else {"runs": all_runs, "comparisons": pairs}
        click.echo(printable_json({**document, **rungs}))
        return
    if all_runs is not None:
        console.print(runs_table(all_runs, sides[0].name, "Compared runs"))
    for comparison in pairs:
        for reason in comparison["warnings"]:
            console.print(f"NOT COMPARABLE: {reason}", soft_wrap=True)
        for sentence in (comparison["verdict"], *comparison["other_verdicts"]):
            console.print(sentence)
        for line in difference_lines(comparison):
            console.print(f"- {line}")
        console.print(comparison_table(comparison))
        if comparison["mcnemar"]:
            console.print(mcnemar_table(comparison))
        console.print(
            changed_table(comparison)
            if comparison["changed"]
            else "no question was answered correctly by one run only"
        )
        for name, (title, labels) in compared_figures().items():
            if name in comparison:
                console.print(differences_table(title, comparison[name], labels))
    if steps is not None:
        console.print(ladder_table(steps))


def power_table(figures: Mapping[str, Any]) -> PlainTable:
    """Return the results of a power analysis as a table."""
    from render_agent.score.tables import interval
    from render_agent.util.console import PlainTable

    table = PlainTable(
        f"{figures['difference']:g} points of {figures['score_name']}, power {100 * figures['power']:g} % at p ≤ 5 %"
    )
    for name in (
        "correlation",
        "scenes",
        "95 % CI",
        "questions",
        f"detectable with {figures['scenes']} scenes",
        "95 % CI",
    ):
        table.add_column(name, right=True)
    for row in figures["needs"]:
        r = row["correlation"]
        table.add_row(
            "measured" if r is None else f"{r:g}",
            _count(row["scenes"]),
            " … ".join(map(_count, row["scenes_interval"])),
            _count(row["questions"]),
            f"{row['seen']:.1f} points",
            interval(row["seen_interval"]),
        )
    table.caption = (
        "correlation: between two runs over the same questions, across scenes. Detectable: minimum detectable difference"
        f" with the scenes of this run. 95 % CI: from the variance between {figures['scenes']} scenes, which is itself an estimate."
    )
    return table


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _is_run(output: Path, place: Path) -> bool:
    return place.name == "recent" or any(
        (path / "config.json").is_file() for path in (output / place, place)
    )
