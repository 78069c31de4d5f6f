"""The `audit` command: measures how much of a benchmark can be answered without looking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, NewPath, option
from render_agent.errors import UsageError


@click.command("audit", panel="Other")
@click.argument("questions", metavar="QUESTIONS", type=click.Path())
@option(
    "--folds",
    type=click.IntRange(2, 50),
    default=5,
    metavar="K",
    help="Number of folds; each holds out a part of the scenes.",
)
@option("--seed", type=int, default=0, metavar="N", help="Seed for the folds and the forests.")
@option(
    "--to",
    type=NewPath(),
    metavar="FILE",
    help="Write the ids of the pruned questions to FILE, one per line, for --exclude.",
)
@option("--against", metavar="FILE", help="Compare with another list of excluded question ids.")
@AS_JSON
@click.pass_context
def audit_command(
    context: click.Context,
    /,
    questions: str,
    folds: int,
    seed: int,
    to: str | None,
    against: str | None,
    as_json: bool,
) -> None:
    """Measure how much of QUESTIONS (a benchmark name or a file) can be answered without looking.

    Three methods that see no image answer every question after fitting on other scenes: the most frequent answer of
    its type, the most frequent answer for the categories it names, and a random forest on its words. Lists the
    questions to prune so that none of them beats chance. Requires the extra `audit`.

    \b
    Examples:
      render-agent audit rooms
      render-agent --questions test.jsonl audit vsibench --to leave_out.txt
      render-agent --batch --questions test.jsonl --exclude leave_out.txt

    Put run options that select questions before the command.
    """
    from render_agent.options import RunConfig
    from render_agent.runs.build import build
    from render_agent.tasks.row_files import load_questions
    from render_agent.tasks.selection import filter_questions
    from render_agent.tasks.vsibench import read_ids
    from render_agent.util.atomic_files import atomic_write
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json
    from render_agent_lab.audit.audit import audit, compare_exclusions

    if to is not None and Path(to).is_dir():
        raise UsageError(f"--to {to} is a folder. Name a file.")
    single_options = ("ply", "question", "option")
    options = {
        name: value for name, value in (context.obj or {}).items() if name not in single_options
    }
    config = RunConfig(**{**options, "batch": True, "benchmark": questions, "views": "none"})
    file = Path(questions)
    audit_questions = (
        filter_questions(load_questions(file, file.stem), config)
        if file.is_file()
        else build(config).questions()
    )
    other_ids = None if against is None else read_ids(Path(against))
    figures = audit(audit_questions, folds, seed)
    if other_ids is not None:
        figures["overlap"] = compare_exclusions(figures, other_ids)
    if to is not None and not figures["falling"]:
        click.echo(f"no questions to prune; {to} not written", err=True)
    elif to is not None:
        lines = "".join(f"{question_id}\n" for question_id in figures["falling"])
        atomic_write(Path(to), lines.encode())
    if as_json:
        click.echo(printable_json(figures))
    else:
        plain_console().print(audit_table(figures))


def audit_table(figures: dict[str, Any]) -> Any:
    """Return a table of blind scores by question type and the number of pruned questions."""
    from render_agent.score.intervals import FEW_SCENES
    from render_agent.score.tables import figure, format_signed, interval, probability
    from render_agent.util.console import PlainTable

    table = PlainTable(
        f"Answered without looking: {figures['n']} questions, {figures['scenes']} scenes, {figures['folds']} folds"
    )
    table.add_column("question type")
    for name in (
        "n",
        "chance",
        "frequency",
        "category",
        "text",
        "best − chance",
        "95 % CI",
        "Holm",
    ):
        table.add_column(name, right=True)
    rows = {**figures["types"], "mean of tasks": figures["overall"]}
    for name, row in rows.items():
        methods = row["methods"]
        best_method = max(methods.values(), key=lambda entry: entry["gain"])
        table.add_row(
            name.replace("object_", ""),
            str(row["n"]),
            figure(row["chance"]),
            *(figure(entry["score"]) for entry in methods.values()),
            format_signed(best_method["gain"]),
            interval(best_method["gain_interval"]) or "–",
            probability(best_method["p_holm"]),
        )
    table.caption = (
        f"{len(figures['falling'])} questions to prune: without them no method is significantly above chance."
        "\n- chance: uniform over the options; for numbers and texts the most frequent answer of the other scenes"
        "\n- Holm: p-value of a score above chance, over scenes, corrected for all methods and rows; 95 % CI: of this row"
        " alone, not corrected"
    )
    if any(e["p"] is None for row in rows.values() for e in row["methods"].values()):
        table.caption += f"\n- {FEW_SCENES}"
    if overlap := figures.get("overlap"):
        table.caption += (
            f"\n- the other list has {overlap['theirs']} questions; {overlap['both']} are on both lists"
            f" ({overlap['expected']:.0f} expected by chance); text scores {overlap['text_left_out'] or 0:.1f} on the"
            f" questions it excludes and {overlap['text_kept'] or 0:.1f} on those it keeps"
        )
    return table
