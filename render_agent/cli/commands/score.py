"""`score`: score a file of predictions, or judge the free-text answers of a run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import rich_click as click

from render_agent.cli.shared_options import (
    AS_JSON,
    PARSER,
    RUNS_FOLDER,
    engine_config,
    engine_flags,
    option,
)
from render_agent.errors import QuestionsError, UsageError


@click.command("score", panel="Other")
@click.argument("answers", metavar="PREDICTIONS.jsonl|RUN", type=click.Path())
@option("--questions", metavar="FILE|NAME", help="VSI-Bench questions (default: search for them).")
@PARSER
@option("--judge", is_flag=True, help="Let a model rate the free-text answers of RUN from 1 to 5.")
@engine_flags
@RUNS_FOLDER
@AS_JSON
@click.pass_context
def score_command(
    context: click.Context,
    /,
    answers: str,
    questions: str | None,
    parser: str,
    judge: bool,
    output: Path,
    as_json: bool,
    **engine: Any,
) -> None:
    """Score the predictions of any program.

    PREDICTIONS are answers to VSI-Bench, one line {"id": 0, "prediction": "A"} per question. Questions without a
    prediction score 0 and are counted. With --judge, RUN is a run with free-text answers; OpenEQA's LLM-Match scores go
    to results.llm-match.json next to the official results. Put other run options, such as --device, before the
    command. Exit code 1 if the judge could not score an answer.

    \b
    Examples:
      render-agent score predictions.jsonl --questions test.jsonl
      render-agent score recent --judge --engine openai --model gpt-4o
    """
    from render_agent.score.tables import score_table
    from render_agent.util.console import plain_console
    from render_agent.util.sanitize import printable_json

    if judge:
        results = _judge_run(output, answers, context, engine)
    else:
        results = _score_file(output, answers, questions, parser)
    if as_json:
        click.echo(printable_json(results))
    else:
        console = plain_console()
        console.print(score_table(results))
        if judge:
            console.print(_describe_judgement(results["llm_match"]), soft_wrap=True)
    if judge and results["llm_match"]["faults"]:
        context.exit(1)


def _score_file(output: Path, answers: str, questions: str | None, parser: str) -> dict[str, Any]:
    """Return the results of a file of predictions."""
    from render_agent.score.predictions import FORM, read_predictions, score_predictions
    from render_agent.tasks.vsibench import load_vsibench

    file = Path(answers)
    if not file.is_file():
        if answers == "recent" or any(path.is_dir() for path in (output / answers, file)):
            raise UsageError(
                f"{answers} is a run, not a file of predictions. Its scores are in render-agent show {answers}; pass"
                " --judge to rate its free-text answers."
            )
        raise QuestionsError(f"no predictions at {file}. Write a file with lines such as {FORM}.")
    answerable = load_vsibench(questions)
    return score_predictions(answerable, read_predictions(file, answerable), parser)


def _judge_run(
    output: Path, run: str, context: click.Context, engine: dict[str, Any]
) -> dict[str, Any]:
    """Score the free-text answers of a run with a model. Write the results next to the run, and return them."""
    from render_agent.engines.make_engine import engine_traits
    from render_agent.runs.build import make_engine
    from render_agent.runs.llm_match import mark_answers, match_figures
    from render_agent.runs.log.writer import RunLog
    from render_agent.runs.read import find_run
    from render_agent.score.questions import metric_of

    folder = find_run(output, run)
    states = folder.dialogues
    if not any(metric_of(state.question).needs_judge for state in states):
        raise UsageError(f"{folder.name} has no free-text questions (metric llm-match) to judge")
    config = engine_config(context, engine)
    with closing(make_engine(config, [])) as model:
        scores = mark_answers(states, model, config.max_new_tokens)
    results = folder.score(states, marks=scores.scores)
    judge = {"engine": config.engine, "model": engine_traits(config.engine).model_name(config)}
    results["llm_match"] = {"judge": judge, **match_figures(states, scores)}
    if folder.finished:
        with closing(RunLog(folder.path)) as log:
            log.write_results_of("llm-match", results)
    return results


def _describe_judgement(match: dict[str, Any]) -> str:
    """Describe the mean score of a judge, and the number of answers without a score."""
    from render_agent.score.tables import figure, interval

    text = f"LLM-Match by {match['judge']['model']}: {figure(match['score'])}"
    if bounds := interval(match["interval"]):
        text += f" ({bounds})"
    text += f", {match['n']} answers"
    num_missing = len(match["faults"])
    return f"{text}, {num_missing} could not be scored" if num_missing else text
