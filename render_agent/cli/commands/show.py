"""`show`: print the scores of a run, or the dialogue of a question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from render_agent.cli.shared_options import AS_JSON, RUN, RUNS_FOLDER, option
from render_agent.errors import UsageError

if TYPE_CHECKING:
    from render_agent.runs.read import RunData

MAX_LISTED_IDS = 12  # question ids listed in an error message


@click.command("show", panel="Inspect runs")
@RUN
@click.argument("question", required=False)
@option("--all", "every", is_flag=True, help="Also show all other aggregate scores.")
@RUNS_FOLDER
@AS_JSON
def show_command(run: str, question: str | None, output: Path, as_json: bool, every: bool) -> None:
    """Show the scores of RUN, or one question's dialogue.

    RUN is recent, a name or a path; QUESTION is the id of a question.

    \b
    Examples:
      render-agent show recent
      render-agent show recent 3
    """
    from render_agent.cli.run import command_line, print_agent, run_argument
    from render_agent.report.sentences.facts import cost_fact, facts_line, request_facts
    from render_agent.runs.log.lock import RUNNING, status_of_unfinished
    from render_agent.runs.read import find_run
    from render_agent.runs.run_part import result_tables
    from render_agent.util.console import plain_console
    from render_agent.util.display import count_noun
    from render_agent.util.sanitize import printable_json

    folder = find_run(output, run)
    if question is None and not as_json and not folder.config.batch and folder.saved_results:
        question = folder.questions[0].id  # the only question
    if question is not None:
        _show_question(folder, question, as_json=as_json)
        return
    results, can_resume = folder.final_results, folder.parts.engine.resumable
    is_finished = results is not None
    if results is None and not can_resume:
        results = folder.results
    if as_json:
        click.echo(printable_json(results or {"status": status_of_unfinished(folder.path)}))
        return
    console = plain_console()
    if not is_finished:
        status = status_of_unfinished(folder.path)
        console.print(
            f"{folder.name} {'is' if status == RUNNING else 'was'} {status}:"
            f" {count_noun(len(folder.turns), 'turn')} so far."
        )
        if status == RUNNING:
            return
    if results is None:
        line = command_line("--continue", run_argument(folder.path))
        console.print(f"Resume with: {line}", soft_wrap=True)
        return
    console.print(result_tables(results, every=every))
    print_agent(folder.parts, results["notes"], console)
    console.print(f"requests: {facts_line(request_facts(folder.config, results))}")
    if cost := cost_fact(folder.parts, results):
        console.print(facts_line(cost), soft_wrap=True)
    console.print(f"run: {folder.path}", soft_wrap=True)


def _show_question(folder: RunData, question_id: str, *, as_json: bool) -> None:
    from render_agent.cli.run import in_words, print_caveats, print_scan
    from render_agent.dialogue.state import STATUS_LABELS
    from render_agent.report.report_part import report_parts
    from render_agent.report.sentences.labels import result_label
    from render_agent.report.turn_text import turn_lines
    from render_agent.runs.log.row import score_of
    from render_agent.tasks.question_types import type_label
    from render_agent.util.console import plain_console
    from render_agent.util.reasons import short_repr
    from render_agent.util.sanitize import printable_json

    questions = {question.id: question for question in folder.questions}
    question = questions.get(question_id)
    if question is None:
        ids = list(questions)
        listed_ids = ", ".join(ids[:MAX_LISTED_IDS]) + (" …" if len(ids) > MAX_LISTED_IDS else "")
        raise UsageError(
            f"{folder.name} has no question with the id {short_repr(question_id)}. Its ids: {listed_ids}"
        )
    if as_json:
        click.echo(
            printable_json([line for line in folder.lines() if line["question_id"] == question_id])
        )
        return
    _ = folder.select([question_id], folder.name).file_notes  # warns
    console = plain_console()
    console.print(f"{type_label(question.type)} about {question.scene}", style="bold")
    for words in (question.text, *question.options):
        console.print(words)
    lines = [line for line in folder.turns if line.question_id == question_id]
    state = next(state for state in folder.dialogues if state.id == question_id)
    score = score_of(state)
    console.print(f"answer: {in_words(question, state.answer)} ({STATUS_LABELS[state.status]})")
    truth = (
        "unknown" if question.ground_truth is None else in_words(question, question.ground_truth)
    )
    console.print(f"ground truth: {truth}")
    if score is not None:
        console.print(f"result: {result_label(question, state.answer_text, score)}")
    print_caveats(state, console)
    print_scan(state, console)
    for line in lines:
        console.rule(f"turn {line.number + 1} ({line.phase})", align="left")
        for words in turn_lines(folder.path, line):
            console.print(words, soft_wrap=True)
    for part in report_parts().values():
        part_lines = list(part.lines(folder, state))
        if part_lines:
            console.rule(part.heading, align="left")
        for words in part_lines:
            console.print(words, soft_wrap=True)
