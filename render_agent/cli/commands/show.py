"""The commands that list runs, and show one or its dialogues."""

from __future__ import annotations

import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from render_agent.cli.commands.runs import in_words, print_agent, program
from render_agent.cli.options import AS_JSON, RUN, WHERE_RUNS_LIE
from render_agent.cli.turn_text import belief_lines, turn_lines
from render_agent.errors import RunLogError, UsageError
from render_agent.runs.log.folder import RunFolder, find_run, list_runs
from render_agent.runs.log.reader import read_states
from render_agent.runs.log.results import row as question_row
from render_agent.score.tables import figure, score_tables
from render_agent.text.console import plain_console
from render_agent.text.sanitize import json_text, one_line

SHOWN_IDS = 12
"""So many ids are told where one is not known."""

RUN_COLUMNS = {
    "run": "<24",
    "status": "<10",
    "questions": ">9",
    "answered": ">8",
    "official": ">8",
    "minutes": ">7",
    "date": "<16",
    "benchmark": "<10",
    "views": "<8",
    "engine": "<12",
    "model": "",
    "agent": "",
}
"""What is listed of a run, and how wide."""


@click.command("ls")
@WHERE_RUNS_LIE
@AS_JSON
def ls_command(output: str, as_json: bool) -> None:
    """List the runs, the newest last.

    \b
    Examples:
      render-agent ls
      render-agent ls --output results --json
    """
    rows = [_run_row(path) for path in list_runs(Path(output))]
    if as_json:
        click.echo(json_text(rows))
        return
    if not rows:
        click.echo(f"no runs in {output}")
        return
    line = " ".join(f"{{{name}:{width}}}" for name, width in RUN_COLUMNS.items())
    click.echo(line.format(**{name: name for name in RUN_COLUMNS}))
    for row in rows:
        told = {name: "–" if v is None else str(v) for name, v in row.items()}
        click.echo(one_line(line.format(**told)))


def _run_row(path: Path) -> dict[str, Any]:
    """Return what is listed of a run; minutes are those that its views and replies took, in all processes."""
    row: dict[str, Any] = dict.fromkeys(RUN_COLUMNS) | {"run": path.name}
    try:
        folder = RunFolder(path)
        found = folder.results()
        saved = folder.record["config"]
        began = datetime.fromtimestamp((path / "config.json").stat().st_mtime)
        row |= {
            "date": began.isoformat(" ", "minutes"),
            "benchmark": "one scan" if saved.get("ply") else saved.get("benchmark"),
            "views": saved.get("views"),
            "status": "unfinished",
            "questions": len(folder.questions()) if folder.has_questions else None,
            "engine": saved["engine"],
            "model": folder.record["engine"]["model"],
            "agent": saved.get("agent", "single"),
        }
        if found:
            seconds = found["totals"]["seconds"]
            row |= {
                "status": found["status"],
                "answered": found["counts"]["answered"],
                "minutes": round((seconds["rendering"] + seconds["generating"]) / 60, 1),
                "official": figure(found["official_over_scored"]["score"]),
            }
    except (RunLogError, KeyError, TypeError, AttributeError, ValueError, OSError):
        return row | {"status": "unreadable"}
    return row


@click.command("show")
@RUN
@click.argument("question", required=False)
@WHERE_RUNS_LIE
@AS_JSON
def show_command(run: str, question: str | None, output: str, as_json: bool) -> None:
    """Show RUN (recent, a name or a path): its scores, or the dialogue of one QUESTION (its id).

    \b
    Examples:
      render-agent show recent
      render-agent show recent 3
    """
    folder = find_run(Path(output), run)
    if question is not None:
        _show_question(folder, question, as_json=as_json)
        return
    found = folder.results()
    if as_json:
        click.echo(json_text(found or {"status": "unfinished"}))
        return
    console = plain_console()
    if found is None:
        console.print(f"{folder.name} is unfinished: {len(folder.turns())} turns so far.")
        line = shlex.join([*program(), "--continue", str(folder.path)])
        console.print(f"To go on: {line}", soft_wrap=True)
        return
    console.print(score_tables(found))
    print_agent(folder.config, found["notes"], console)
    console.print(f"the run: {folder.path}", soft_wrap=True)


def _show_question(folder: RunFolder, question_id: str, *, as_json: bool) -> None:
    question = next((q for q in folder.questions() if q.id == question_id), None)
    if question is None:
        ids = [q.id for q in folder.questions()]
        some = ", ".join(ids[:SHOWN_IDS]) + (" …" if len(ids) > SHOWN_IDS else "")
        raise UsageError(
            f"{folder.name} has no question with the id {question_id!r:.80}: its ids: {some}"
        )
    if as_json:
        click.echo(json_text([x for x in folder.lines() if x["question_id"] == question_id]))
        return
    console = plain_console()
    console.print(f"{question.type} about {question.scene}", style="bold")
    for words in (question.text, *question.options):
        console.print(words)
    state = next(s for s in read_states(folder) if s.id == question_id)
    asked = question_row(state)
    console.print(f"answer: {in_words(question, asked['answer'])} ({asked['status']})")
    truth = "not known" if question.truth is None else in_words(question, question.truth)
    verdict = "" if asked["score"] is None else f": {_verdict(asked['score'])}"
    console.print(f"truth: {truth}{verdict}")
    for line in folder.turns():
        if line.head.question_id != question_id:
            continue
        console.rule(f"turn {line.head.number + 1} ({line.head.phase})", align="left")
        for words in turn_lines(folder.path, line):
            console.print(words, soft_wrap=True)
    told = list(belief_lines(folder, state))
    if told:
        console.rule("beliefs", align="left")
    for words in told:
        console.print(words, soft_wrap=True)


def _verdict(score: float) -> str:
    """Return what a score between 0 and 1 says of an answer."""
    if score in (0.0, 1.0):
        return "right (score 100)" if score else "wrong (score 0)"
    return f"partly right (score {figure(100 * score)})"
