"""The command that lets a model judge anybody's pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from render_agent.cli.completion import files, models, rubrics
from render_agent.cli.options import AS_JSON, option
from render_agent.config.flags import Auto
from render_agent.errors import UsageError

if TYPE_CHECKING:
    from render_agent.agents.verifiers.judge.rubric import Rubric
    from render_agent.agents.verifiers.judge.score import Score
    from render_agent.config import RunConfig

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
"""Names of the files that are taken from a folder end so, in any case."""

DECIDED_HERE = ("batch", "ply", "question", "option", "max_turns")
"""Options of a run that judge sets itself."""


@click.command("judge")
@click.argument("images", nargs=-1, required=True, metavar="IMAGES…", shell_complete=files)
@option(
    "--rubric",
    default="view",
    metavar="FILE|NAME",
    shell_complete=rubrics,
    help="What is asked: a YAML file, or the name of a shipped one.",
)
@option("--question", default="", metavar="TEXT", help="What the views are to help answer.")
@option(
    "--named",
    default="",
    metavar="TEXT",
    help='What the question names, such as "the chair and the table".',
)
@option(
    "--mode",
    type=click.Choice(["yes", "json", "pairwise"]),
    default="yes",
    help="The probability of yes; the rubric's criteria as JSON; or the better of every two.",
)
@option(
    "--earlier",
    multiple=True,
    metavar="IMAGE",
    shell_complete=files,
    help="A view that came before them; may be given several times.",
)
@option(
    "--engine",
    type=click.Choice(["transformers", "vllm", "openai", "scripted"]),
    help="Who judges (default: that of a run).",
)
@option(
    "--model", metavar="NAME", help="The model (default: that of a run).", shell_complete=models
)
@option(
    "--batch-size",
    type=Auto(),
    help="Requests handed over at once (default: auto, what memory holds).",
)
@option(
    "--longest-side",
    type=click.IntRange(32, 8192),
    default=1024,
    help="Larger pictures are scaled down to so many pixels.",
)
@option("--csv", "csv_file", metavar="FILE", help="Write a row a picture there.")
@AS_JSON
@click.pass_context
def judge_command(context: click.Context, /, images: tuple[str, ...], **options: Any) -> None:
    """Let a model judge how well each of IMAGES (files, or folders of them) shows what a question needs.

    \b
    Examples:
      render-agent judge views/ --question "How many chairs are there?" --csv scores.csv
      render-agent --device cuda judge a.png b.png --mode pairwise --question "How wide is the bed?"

    Other options of a run stand before the command. Exit code 1 where a picture could not be judged.
    """
    from render_agent.agents.verifiers.judge.rubric import load_rubric

    rubric = load_rubric(options["rubric"])
    prompts = rubric.prompts(options["mode"], options["question"], options["named"])
    if not options["question"].strip() and rubric.asks_about_a_question(options["mode"]):
        raise UsageError(f"the rubric {rubric.name} asks about a question: give --question TEXT")
    files = files_of(images)
    config = run_config(context.obj or {}, options)
    if options["csv_file"]:
        from render_agent.agents.verifiers.judge.score import check_writable

        check_writable(Path(options["csv_file"]))
    scores = _scores(config, files, prompts, rubric, options)
    _tell([str(file) for file in files], scores, rubric, options)
    if any(score.fault for score in scores):
        context.exit(1)


def files_of(images: Sequence[str]) -> list[Path]:
    """Return the files that are named, and the pictures in the folders that are, in order of their names.

    UsageError where a folder holds none. What is named by itself is taken, whatever it is.
    """
    files: dict[Path, None] = {}
    for name in images:
        path = Path(name)
        if not path.is_dir():
            files[path] = None
            continue
        inside = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in SUFFIXES and file.is_file()
        ]
        if not inside:
            raise UsageError(f"there is no picture in {path} ({', '.join(SUFFIXES)})")
        files.update(dict.fromkeys(inside))
    return list(files)


def run_config(options: dict[str, Any], given: dict[str, Any]) -> RunConfig:
    """Return the options for the engine: those of a run, overridden by those of the command.

    UsageError where an option contradicts another one.
    """
    from render_agent.config import RunConfig

    own = {
        name: given[name] for name in ("engine", "model", "batch_size") if given[name] is not None
    }
    taken = {name: value for name, value in options.items() if name not in DECIDED_HERE}
    return RunConfig(**{**taken, **own, "batch": True, "max_turns": 1})


def _scores(
    config: RunConfig,
    files: Sequence[Path],
    prompts: tuple[str, str],
    rubric: Rubric,
    options: dict[str, Any],
) -> list[Score]:
    """Return a score for every file. SetupError where the engine is not at hand."""
    from contextlib import closing

    from render_agent.agents.verifiers.judge.batch_score import batch_score
    from render_agent.engines.registry import make_engine

    system, user = prompts
    with closing(make_engine(config, [])) as engine:
        return batch_score(
            files,
            [system] * len(files),
            [user] * len(files),
            config.batch_size,
            engine=engine,
            mode=options["mode"],
            rubric=rubric,
            earlier=[options["earlier"]] * len(files),
            longest_side=options["longest_side"],
            max_new_tokens=config.max_new_tokens,
        )


def _tell(
    names: Sequence[str], scores: Sequence[Score], rubric: Rubric, options: dict[str, Any]
) -> None:
    """Print the scores, and write them where that was asked for."""

    from render_agent.agents.verifiers.judge.score import judge_table, rows_of, totals, write_csv
    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text

    mode = options["mode"]
    criteria = list(rubric.criteria or ()) if mode == "json" else []
    rows, figures = rows_of(names, scores, criteria), totals(scores)
    if options["csv_file"]:
        write_csv(Path(options["csv_file"]), rows)
    if options["as_json"]:
        printed = {"rubric": rubric.name, "mode": mode, "question": options["question"]}
        click.echo(json_text({**printed, "totals": figures, "pictures": rows}))
    else:
        title = f"{rubric.name}, {mode}: {options['question']}"
        plain_console().print(judge_table(rows, figures, criteria, mode, title))
