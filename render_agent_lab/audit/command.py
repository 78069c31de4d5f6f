"""The command that says how much of a benchmark is answered without looking."""

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
    help="Into how many parts the scenes are dealt, each held out in turn.",
)
@option("--seed", type=int, default=0, metavar="N", help="Deals the scenes, grows the forests.")
@option(
    "--to",
    type=NewPath(),
    metavar="FILE",
    help="Write the ids of the questions that fall there, one a line, for --exclude.",
)
@option("--against", metavar="FILE", help="Another list of ids to leave out: how far it agrees.")
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
    """Say how much of QUESTIONS (a benchmark's name, or a file) is answered without looking, and which of them.

    Three methods that see no picture answer every question, fitted on the other scenes: the commonest answer of
    its type, that of the categories that it names, and a random forest on its words. Needs the extra audit.

    \b
    Examples:
      render-agent audit rooms
      render-agent --questions test.jsonl audit vsibench --to leave_out.txt
      render-agent --batch --questions test.jsonl --exclude leave_out.txt

    Other options of a run that choose questions stand before the command.
    """
    from render_agent.options import RunConfig
    from render_agent.runs.build import build
    from render_agent.tasks.question_files import load_questions
    from render_agent.tasks.selection import narrowed
    from render_agent.tasks.vsibench import read_ids
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import json_text
    from render_agent.util.whole_files import write_whole
    from render_agent_lab.audit.audit import audit, overlap

    if to is not None and Path(to).is_dir():
        raise UsageError(f"--to {to} is a folder: name a file")
    alone = ("ply", "question", "option")
    options = {name: value for name, value in (context.obj or {}).items() if name not in alone}
    config = RunConfig(**{**options, "batch": True, "benchmark": questions, "views": "none"})
    file = Path(questions)
    chosen = (
        narrowed(load_questions(file, file.stem), config)
        if file.is_file()
        else build(config).questions()
    )
    others = None if against is None else read_ids(Path(against))
    figures = audit(chosen, folds, seed)
    if others is not None:
        figures["overlap"] = overlap(figures, others)
    if to is not None and not figures["falling"]:
        click.echo(f"no question falls: {to} is not written, and --exclude not needed", err=True)
    elif to is not None:
        lines = "".join(f"{question_id}\n" for question_id in figures["falling"])
        write_whole(Path(to), lines.encode())
    if as_json:
        click.echo(json_text(figures))
    else:
        plain_console().print(audit_table(figures))


def audit_table(figures: dict[str, Any]) -> Any:
    """Return the scores of the methods that do not look, by type, and what falls to them."""
    from render_agent.score.intervals import FEW_SCENES
    from render_agent.score.tables import figure, interval, probability, signed
    from render_agent.util.console import plain_table

    table = plain_table(
        f"Answered without looking: {figures['n']} questions, {figures['scenes']} scenes, {figures['folds']} folds"
    )
    table.add_column("question type", no_wrap=True)
    for name in (
        "n",
        "chance",
        "frequency",
        "category",
        "text",
        "best − chance",
        "95 % interval",
        "Holm",
    ):
        table.add_column(name, justify="right")
    rows = {**figures["types"], "mean of tasks": figures["overall"]}
    for name, row in rows.items():
        methods = row["methods"]
        best = max(methods.values(), key=lambda entry: entry["gain"])
        table.add_row(
            name.replace("object_", ""),
            str(row["n"]),
            figure(row["chance"]),
            *(figure(entry["score"]) for entry in methods.values()),
            signed(best["gain"]),
            interval(best["gain_interval"]) or "–",
            probability(best["p_holm"]),
        )
    table.caption = (
        f"{len(figures['falling'])} questions fall: without them no method is sure to be above chance."
        "\n- chance: uniform over the options; of numbers and texts the commonest answer of the other scenes"
        "\n- Holm: p over scenes, corrected for all methods and types"
    )
    if any(e["p"] is None for row in rows.values() for e in row["methods"].values()):
        table.caption += f"\n- {FEW_SCENES}"
    if agreed := figures.get("overlap"):
        table.caption += (
            f"\n- the other list has {agreed['theirs']}; {agreed['both']} are on both, by chance there would be"
            f" {agreed['expected']:.0f}; text scores {agreed['text_left_out'] or 0:.1f} on what it leaves out,"
            f" {agreed['text_kept'] or 0:.1f} on what it keeps"
        )
    return table
