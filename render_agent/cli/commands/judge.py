"""`judge`: let a model rate images."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, engine_config, engine_flags, option
from render_agent.errors import SetupError, UsageError, os_errors

if TYPE_CHECKING:
    from render_agent.agents.verifiers.judge.batch_score import Score
    from render_agent.util.console import PlainTable

# Suffixes of images in folders, in any case.
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")


@click.command("judge", panel="Other")
@click.argument("images", nargs=-1, required=True, metavar="IMAGES…", type=click.Path())
@option(
    "--rubric",
    default="view",
    metavar="FILE|NAME",
    help="Rubric: a YAML file, or the name of a built-in one.",
)
@option(
    "--question", default="", metavar="TEXT", help="Question that the views should help answer."
)
@option(
    "--named",
    default="",
    metavar="TEXT",
    help='Objects that the question names, such as "the chair and the table".',
)
@option(
    "--mode",
    type=click.Choice(["yes", "json"]),
    default="yes",
    help="Score: the probability of yes, or the rubric's criteria as JSON.",
)
@option(
    "--earlier",
    multiple=True,
    metavar="IMAGE",
    type=click.Path(),
    help="A view that came before the images. Repeatable.",
)
@engine_flags
@option("--csv", "csv_file", metavar="FILE", help="Write one row per image to FILE.")
@AS_JSON
@click.pass_context
def judge_command(context: click.Context, /, images: tuple[str, ...], **options: Any) -> None:
    """Let a model judge how well each of IMAGES (files or folders) shows what a question needs.

    \b
    Examples:
      render-agent judge views/ --question "How many chairs?" --csv scores.csv
      render-agent judge a.png b.png --mode json --question "How wide is the bed?"

    Put other run options, such as --device, before the command. Exit code 1 if an image could not be judged.
    """
    from render_agent.agents.verifiers.judge.batch_score import batch_score
    from render_agent.agents.verifiers.judge.rubric import load_rubric
    from render_agent.dialogue.tokens import reported_total
    from render_agent.runs.build import make_engine
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    rubric, mode, question = load_rubric(options["rubric"]), options["mode"], options["question"]
    prompts = [rubric.prompts(mode, text) for text in ("?", "")]
    if not question.strip() and prompts[0] != prompts[1]:
        raise UsageError(f"the rubric {rubric.name} needs a question. Pass --question TEXT.")
    names = files_of(images)
    engine = {name: options[name] for name in ("engine", "model", "batch_size")}
    config, csv_file = engine_config(context, engine), options["csv_file"]
    if csv_file:  # fail before the model runs for a long time
        with os_errors(SetupError, f"write {csv_file}"):
            Path(csv_file).open("a").close()
    system, user = rubric.prompts(mode, question, options["named"])
    with closing(make_engine(config, [])) as model:
        scores = batch_score(
            names,
            [system] * len(names),
            [user] * len(names),
            config.batch_size,
            engine=model,
            mode=mode,
            rubric=rubric,
            earlier=[options["earlier"]] * len(names),
            max_new_tokens=config.max_new_tokens,
        )
    criteria = list(rubric.criteria) if mode == "json" else []
    rows = [_row(name, score, criteria) for name, score in zip(names, scores, strict=True)]
    tokens = reported_total(score.tokens for score in scores)
    num_failed = sum(score.value is None for score in scores)
    totals = {
        "judged": len(scores) - num_failed,
        "failed": num_failed,
        "tokens_in": tokens["in"],
        "tokens_out": tokens["out"],
        "seconds": sum(row["seconds"] for row in rows),
    }
    if csv_file:
        with (
            os_errors(SetupError, f"write {csv_file}"),
            Path(csv_file).open(
                "w", encoding="utf-8", errors="backslashreplace", newline=""
            ) as stream,
        ):
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    if options["as_json"]:
        document = {"rubric": rubric.name, "mode": mode, "question": question}
        click.echo(printable_json({**document, "totals": totals, "pictures": rows}))
    else:
        plain_console().print(_table(rows, totals, criteria, f"{rubric.name}, {mode}: {question}"))
    if num_failed:
        context.exit(1)


def files_of(images: Sequence[str]) -> list[str]:
    """Return the named files, and the images in named folders, sorted by name."""
    names: dict[str, None] = {}
    for name in images:
        path = Path(name)
        if not path.is_dir():
            names[str(path)] = None
            continue
        inside = [file for file in sorted(path.rglob("*")) if file.suffix.lower() in SUFFIXES]
        images_inside = [str(file) for file in inside if file.is_file()]
        if not images_inside:
            raise UsageError(f"no images in {path} ({', '.join(SUFFIXES)})")
        names.update(dict.fromkeys(images_inside))
    return list(names)


def _row(name: str, score: Score, criteria: Sequence[str]) -> dict[str, Any]:
    """Return the row of an image, with None for missing values and a column per criterion."""
    findings = {criterion: score.criteria.get(criterion) for criterion in criteria}
    return {
        "picture": name,
        "score": score.value,
        "support": score.support,
        "why_not": score.reason or None,
        **{f"criteria.{c}": finding and finding.value for c, finding in findings.items()},
        **{f"criteria.{c}.reason": finding and finding.reason for c, finding in findings.items()},
        "tokens_in": score.tokens.prompt if score.tokens.are_reported else None,
        "tokens_out": score.tokens.reply if score.tokens.are_reported else None,
        "seconds": round(score.seconds, 6),
    }


def _table(
    rows: Sequence[Mapping[str, Any]],
    totals: Mapping[str, Any],
    criteria: Sequence[str],
    title: str,
) -> PlainTable:
    from render_agent.util.console import PlainTable

    table = PlainTable(title)
    columns = {"score": "score", **{name: f"criteria.{name}" for name in criteria}}
    table.add_column("image")
    for name in columns:
        table.add_column(name, right=True)
    table.add_column("reason")
    for row in rows:
        cells = ["–" if row[name] is None else f"{row[name]:.3f}" for name in columns.values()]
        table.add_row(row["picture"], *cells, row["why_not"] or "")
    tokens = "tokens: not reported"
    if totals["tokens_in"] is not None:
        tokens = f"tokens in {totals['tokens_in']:,}, out {totals['tokens_out']:,}"
    table.caption = f"judged {totals['judged']} of {len(rows)} · {tokens} · {totals['seconds']:.1f} s of engine time"
    return table
