"""The command that has a model mark the free-text answers of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from render_agent.cli.commands.judge import run_config
from render_agent.cli.completion import models
from render_agent.cli.options import AS_JSON, RUN, WHERE_RUNS_LIE, option
from render_agent.config.flags import Auto


@click.command("llm-match")
@RUN
@option(
    "--engine",
    type=click.Choice(["transformers", "vllm", "openai", "scripted"]),
    help="Who marks (default: that of a run).",
)
@option(
    "--model", metavar="NAME", help="The model (default: that of a run).", shell_complete=models
)
@option("--batch-size", type=Auto(), help="Requests handed over at once (default: auto).")
@WHERE_RUNS_LIE
@AS_JSON
@click.pass_context
def llm_match_command(
    context: click.Context, /, run: str, output: str, as_json: bool, **options: Any
) -> None:
    """Have a model mark the free-text answers of RUN from 1 to 5, as OpenEQA's LLM-Match does.

    Those questions are marked whose metric is llm-match. The results with these scores are written beside the
    official ones, as results.llm-match.json.

    \b
    Examples:
      render-agent llm-match recent --engine openai --model gpt-4o
      render-agent --device cuda llm-match recent --model Qwen/Qwen3-VL-8B-Instruct

    Other options of a run stand before the command. Exit code 1 where an answer could not be marked.
    """
    from contextlib import closing

    from render_agent.analysis.llm_match import mark_answers, match_figures
    from render_agent.engines.registry import make_engine
    from render_agent.errors import UsageError
    from render_agent.runs.log.folder import RunLog, find_run
    from render_agent.runs.log.reader import read_states, results_of
    from render_agent.score.metrics import JUDGED
    from render_agent.score.tables import score_table
    from render_agent.text.console import plain_console
    from render_agent.text.sanitize import json_text

    folder = find_run(Path(output), run)
    states = read_states(folder)
    if not any(state.question.metric == JUDGED for state in states):
        raise UsageError(
            f"{folder.name} has no question whose metric is {JUDGED}: nothing is to be marked"
        )
    config = run_config(context.obj or {}, options)
    with closing(make_engine(config, [])) as engine:
        marked = mark_answers(states, engine, config.max_new_tokens)
    results = results_of(folder, states=states, marks=marked.scores)
    judge = {"engine": config.engine, "model": config.model_name}
    results["llm_match"] = {"judge": judge, **match_figures(states, marked)}
    if folder.finished:
        with closing(RunLog(folder)) as log:
            log.write_results_of(JUDGED, results)
    if as_json:
        click.echo(json_text(results))
    else:
        console = plain_console()
        console.print(score_table(results))
        console.print(_said(results["llm_match"]), soft_wrap=True)
    if marked.faults:
        context.exit(1)


def _said(match: dict[str, Any]) -> str:
    """Return the mean of the marks in words, and how many answers have none."""
    from render_agent.score.tables import figure, interval

    within = interval(match["interval"])
    words = f"LLM-Match by {match['judge']['model']}: {figure(match['score'])}"
    words += f" ({within})" if within else ""
    lacking = len(match["faults"])
    return f"{words}, {match['n']} answers" + (
        f", {lacking} could not be marked" if lacking else ""
    )
