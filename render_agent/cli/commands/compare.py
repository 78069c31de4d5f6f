"""`compare`: compare runs over the same questions, or plan how large a comparison must be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, WHERE_RUNS_LIE, NewPath, complete_runs, option
from render_agent.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from render_agent.runs.read import RunData
    from render_agent.score.comparison import Side

POWER = 0.8  # of the planned comparison


@click.command("compare", panel="Inspect runs")
@click.argument(
    "runs", nargs=-1, required=True, metavar="RUN_A RUN_B …", shell_complete=complete_runs
)
@option("--anyway", is_flag=True, help="Compare the questions in common of unlike runs.")
@option(
    "--page",
    type=NewPath(),
    is_flag=False,
    flag_value="",
    metavar="[DIR]",
    help="Also write pages with the dialogues side by side (default folder: compare/ beside RUN_A).",
)
@option("--no-diagnosis", is_flag=True, help="Leave what the cameras saw out of the pages.")
@option(
    "--power",
    type=click.FloatRange(0, 100, min_open=True),
    metavar="POINTS",
    help="Power analysis instead: scenes and questions needed to detect a difference of POINTS from RUN_A.",
)
@WHERE_RUNS_LIE
@AS_JSON
def compare_command(
    runs: tuple[str, ...],
    anyway: bool,
    page: str | None,
    no_diagnosis: bool,
    power: float | None,
    output: str,
    as_json: bool,
) -> None:
    """Compare runs with RUN_A over the same questions: differences, their intervals, and where they are.

    --power takes one run, or two, from which it measures the correlation between runs of the same questions.

    \b
    Examples:
      render-agent compare RUN_A RUN_B
      render-agent compare RUN_A RUN_B RUN_C --page
      render-agent compare RUN_A --power 3
    """
    if power is None:
        place = None if page is None else Path(page)
        compare_runs(Path(output), runs, anyway, place, not no_diagnosis, as_json)
        return
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import json_text

    figures = plan_power(Path(output), runs, power)
    if as_json:
        click.echo(json_text(figures))
    else:
        plain_console().print(power_table(figures))


def compare_runs(
    output: Path,
    names: Sequence[str],
    anyway: bool,
    page: Path | None,
    diagnose: bool,
    as_json: bool,
) -> None:
    """Compare every run with the first and print what differs; write it as pages if `page` is a folder.

    An empty path stands for a folder beside the first run. UsageError if runs are not comparable.
    """
    from render_agent.extras import require
    from render_agent.runs.read import compared_beliefs, find_run
    from render_agent.score.beliefs.belief_summary import WORDS
    from render_agent.score.comparison import correct, ladder
    from render_agent.score.intervals import add_holm
    from render_agent.score.tables import (
        changed_table,
        compared_beliefs_table,
        comparison_table,
        ladder_table,
    )
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import json_text

    if page is not None and page != Path() and _is_run(output, page):
        raise UsageError(f"--page {page} is a run: put --page last, or give it a new folder")
    if len(names) < 2:
        raise UsageError("compare needs at least two runs: render-agent compare RUN_A RUN_B")
    if page is not None:
        require("compare --page", "matplotlib")
    folders = [find_run(output, name) for name in names]
    if repeated := [f.name for f in folders[1:] if f.path.resolve() == folders[0].path.resolve()]:
        raise UsageError(f"{repeated[0]} would be compared with itself: name another run")
    alike = len({folder.name for folder in folders}) < len(folders)
    sides = [_side(folder, by_path=alike) for folder in folders]
    first, *others = sides
    steps = ladder(sides)
    pairs = [_pair(first, other, anyway=anyway) for other in others]
    correct(pairs)
    for comparison, folder in zip(pairs, folders[1:], strict=True):
        if beliefs := compared_beliefs(folders[0], folder):
            comparison["beliefs"] = beliefs
    add_holm([entry for comparison in pairs for entry in comparison.get("beliefs", {}).values()])
    if page is not None:
        from render_agent.report.pages.comparison.comparison_page import (
            comparison_folder,
            write_comparison,
        )

        place = comparison_folder([folder.path for folder in folders]) if page == Path() else page
        index = write_comparison(folders, pairs, place, diagnose=diagnose)
        click.echo(str(index), err=as_json)
    if as_json:
        rungs = {} if steps is None else {"ladder": steps}
        printed = pairs[0] if len(pairs) == 1 else {"comparisons": pairs}
        click.echo(json_text({**printed, **rungs}))
        return
    console = plain_console()
    for comparison in pairs:
        for reason in comparison["warnings"]:
            console.print(f"NOT COMPARABLE: {reason}", soft_wrap=True)
        console.print(comparison_table(comparison))
        changed = comparison["changed"]
        console.print(changed_table(comparison) if changed else "no question changed sides")
        if "beliefs" in comparison:
            console.print(compared_beliefs_table(comparison, WORDS))
    if steps is not None:
        console.print(ladder_table(steps))


def plan_power(output: Path, names: Sequence[str], difference: float) -> dict[str, Any]:
    """Return the scenes and questions needed to detect a difference from the first of one or two runs."""
    from render_agent.runs.read import find_run
    from render_agent.score.comparison import compare, incomparable
    from render_agent.score.power import plan

    if len(names) > 2:
        raise UsageError("--power takes one run, or two of the same questions")
    sides = [_side(find_run(output, name), by_path=False) for name in names]
    if len(sides) == 2 and (reasons := incomparable(*sides)):
        raise UsageError(f"{' and '.join(names)} are not comparable: {'; '.join(reasons)}")
    compared = compare(*sides) if len(sides) == 2 else None
    return plan(sides[0].results, difference, POWER, compared)


def power_table(figures: Mapping[str, Any]) -> Table:
    """Return the figures of a power analysis as a table."""
    from render_agent.util.console import plain_table

    table = plain_table(
        f"{figures['difference']:g} points, power {100 * figures['power']:g} % at p ≤ 5 %"
    )
    for name in (
        "correlation",
        "scenes",
        "questions",
        f"detectable with {figures['scenes']} scenes",
    ):
        table.add_column(name, justify="right")
    for row in figures["needs"]:
        r = row["correlation"]
        table.add_row(
            "measured" if r is None else f"{r:g}",
            *("–" if row[name] is None else f"{row[name]:,}" for name in ("scenes", "questions")),
            f"{row['seen']:.1f} points",
        )
    table.caption = (
        "correlation: between two runs of the same questions, from scene to scene. The last column: the smallest"
        " difference that this run's scenes can detect."
    )
    return table


def _is_run(output: Path, place: Path) -> bool:
    return place.name == "recent" or any(
        (path / "config.json").is_file() for path in (output / place, place)
    )


def _pair(first: Side, second: Side, *, anyway: bool) -> dict[str, Any]:
    """Compare one run with another. UsageError if they are not comparable."""
    from render_agent.score.comparison import compare_alike, differing

    sides = (("a", first.results), ("b", second.results))
    return {
        **compare_alike(first, second, anyway=anyway, way_out="--anyway"),
        "options": differing(first, second),
        "work": {side: results["totals"]["per_question"] for side, results in sides},
        "notes": {side: results["notes"] for side, results in sides},
    }


def _side(folder: RunData, *, by_path: bool) -> Side:
    from render_agent.config import fixed_options
    from render_agent.score.comparison import Side

    config = folder.config
    return Side(
        str(folder.path) if by_path else folder.name,
        folder.results,
        {"--subset": config.subset},
        fixed_options(config.to_json()),
    )
