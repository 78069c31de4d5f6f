"""The command that says how many scenes a difference needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from render_agent.cli.options import AS_JSON, RUN, WHERE_RUNS_LIE, option


@click.command("power")
@RUN
@option(
    "--difference",
    type=click.FloatRange(0, 100, min_open=True),
    required=True,
    metavar="POINTS",
    help="The difference of official scores that is to be seen, in points of percent.",
)
@option(
    "--power",
    "wanted",
    type=click.FloatRange(0.05, 0.999),
    default=0.8,
    metavar="SHARE",
    help="How likely it is to be seen, with p of at most 5 %.",
)
@option(
    "--against",
    metavar="RUN_B",
    help="A second run of the same questions: how far both vary together is measured on it.",
)
@WHERE_RUNS_LIE
@AS_JSON
def power_command(
    run: str, difference: float, wanted: float, against: str | None, output: str, as_json: bool
) -> None:
    """Say how many scenes and questions a difference from RUN needs to be seen.

    It follows from how much scenes differ in RUN, and from how far two runs vary together from scene to
    scene: measured with --against, else shown for several correlations. Questions are as many a scene as in RUN.

    \b
    Examples:
      render-agent power --difference 3
      render-agent power RUN_A --difference 3 --against RUN_B
    """
    from render_agent.errors import UsageError
    from render_agent.runs.log.folder import find_run
    from render_agent.runs.log.reader import results_of
    from render_agent.score.comparison import Side, compare, incomparable
    from render_agent.score.power import plan
    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text

    names = [run] if against is None else [run, against]
    sides = [
        Side(folder.name, results_of(folder), {})
        for folder in (find_run(Path(output), n) for n in names)
    ]
    if against is not None and (reasons := incomparable(*sides)):
        raise UsageError(f"{run} and {against} are not comparable: {'; '.join(reasons)}")
    compared = compare(*sides) if against is not None else None
    figures = plan(sides[0].results, difference, wanted, compared)
    if as_json:
        click.echo(json_text(figures))
    else:
        plain_console().print(_table(figures))


def _table(figures: dict[str, Any]) -> Any:
    from render_agent.text.console import plain_table

    table = plain_table(
        f"{figures['difference']:g} points, seen with a power of {100 * figures['power']:g} % at p ≤ 5 %"
    )
    for name in ("correlation", "scenes", "questions", f"seen with {figures['scenes']} scenes"):
        table.add_column(name, justify="right")
    for row in figures["needs"]:
        r = row["correlation"]
        table.add_row(
            "measured" if r is None else f"{r:g}",
            *("–" if row[name] is None else f"{row[name]:,}" for name in ("scenes", "questions")),
            f"{row['seen']:.1f} points",
        )
    table.caption = (
        "correlation: how far two runs of the same questions vary together from scene to scene. The last column:"
        " the least difference that as many scenes as this run has would show."
    )
    return table
