"""What the commands do and print; each returns its exit code."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from render_agent.agents.registry import describe_choosing
from render_agent.analysis.export.loggers import logged
from render_agent.analysis.live.background import precomputing
from render_agent.beliefs.belief_summary import summed_up
from render_agent.cli.turn_text import belief_lines, turn_lines
from render_agent.config import OPTIONS, RunConfig
from render_agent.config.engine import code_of, refuse_code
from render_agent.dialogue.state import Question, QuestionState, Status
from render_agent.engines.base import Engine
from render_agent.engines.registry import MakeEngine, make_engine
from render_agent.engines.token_estimate import estimate, sentence
from render_agent.errors import RunLogError, UsageError
from render_agent.questions.notes import question_notes
from render_agent.questions.scans import missing_scans
from render_agent.runs.log.folder import NO_RUNS, RunFolder, find_run, list_runs
from render_agent.runs.log.program_log import program_log
from render_agent.runs.log.reader import read_states
from render_agent.runs.log.results import row as question_row
from render_agent.runs.merge_shards import merge
from render_agent.runs.preflight import disk_needed, pictures_needed
from render_agent.runs.progress import Progress
from render_agent.runs.runner import Preview, Run, continued_config, preview, resume_run, start_run
from render_agent.score.seed_variance import spread_table
from render_agent.score.tables import figure, score_tables
from render_agent.text.console import plain_console
from render_agent.text.display import counted, duration, shown_on, size
from render_agent.text.reasons import short_repr
from render_agent.text.sanitize import json_text, one_line
from render_agent.web.browser import open_page

FAILED = 1

SHOWN_IDS = 12
"""So many ids are told where one is not known."""


def new_run(config: RunConfig, *, browser: bool = False) -> int:
    """Start a run and take it to its end; with --repeat one after the other, each with its own seed.

    browser: whether the page of a person who plays is opened there too.
    """
    config = config.absolute()
    if config.repeat == 1:
        return _execute(start_run(config, reads_scan=True), browser=browser)
    names, code = [], 0
    for number in range(config.repeat):
        run = start_run(replace(config, seed=config.seed + number, repeat=1), reads_scan=True)
        names.append(run.path)
        code = max(code, _execute(run, browser=browser, as_json=False))
    results = [RunFolder(path).results() or {} for path in names]
    if config.json:  # one document
        click.echo(json_text(results))
    if not config.quiet:
        _console().print(spread_table(results))
    return code


def merge_runs(output: Path, names: Sequence[str]) -> int:
    """Join the shards of a run into one run folder and print its scores."""
    path, results = merge(output, [find_run(output, name) for name in names])
    left = results["counts"]["active"] + results["counts"]["failed"]
    console = _console()
    console.print(score_tables(results))
    console.print(f"the run: {path}", soft_wrap=True)
    if left:
        line = shlex.join([*program(), "--continue", str(path)])
        console.print(f"{counted(left, 'question')} not done. To go on: {line}", soft_wrap=True)
    return 0


def dry_run(config: RunConfig) -> int:
    """Print what a run would ask and show first; nothing is run, no model is loaded."""
    config = config.absolute()
    shown = _previewed(config)
    types = Counter(question.type for question in shown.questions)
    missing = [] if config.blind else missing_scans(shown.questions)
    without = sum(entry.questions for entry in missing)
    needed = disk_needed(config, shown.questions, shown.bytes_a_pixel)
    drawn = pictures_needed(config, shown.questions)
    drawing = shown.seconds_a_view * drawn
    cost = estimate(config, len(shown.questions) - without, shown.messages)
    chosen = describe_choosing(config, shown.questions)
    notes = [*question_notes(config, shown.questions), *filter(None, [chosen["note"]])]
    if config.json:
        summary = {
            "questions": len(shown.questions),
            "types": types,
            "missing": without,
            "missing_scenes": {entry.dataset: entry.scenes for entry in missing},
            "notes": notes,
            "choosing": chosen,
            "pictures_at_most": drawn,
            "messages": shown.messages,
            "pictures": str(shown.folder),
            "disk_bytes": needed,
            "drawing_seconds": drawing,
            "estimate": asdict(cost),
        }
        click.echo(json_text(summary))
        return 0
    console = plain_console()
    scenes = len({question.scene for question in shown.questions})
    scan = "all have a scan" if not without else f"{without} without a scan"
    console.print(
        f"{counted(len(shown.questions), 'question')} about {counted(scenes, 'scene')}, {scan}"
    )
    for entry in missing:
        console.print(f"  no scan in {entry.dataset}: {', '.join(entry.scenes)}", soft_wrap=True)
    for note in notes:
        console.print(f"  {note}", soft_wrap=True)
    for name, count in sorted(types.items()):
        console.print(f"  {name}: {count}")
    if config.turn_agent.chooses:
        console.print(f"  {_agent_words(chosen)}", soft_wrap=True)
    console.print(
        f"at most {counted(drawn, 'picture')}, {size(needed)} of disk and {duration(drawing)} of drawing (if"
        f" every question takes {counted(config.max_turns, 'turn')}); the model's time comes on top",
        soft_wrap=True,
    )
    if config.asks_model:
        console.print(sentence(cost), soft_wrap=True)
    for message in shown.messages:
        console.rule(message["role"], align="left")
        for piece in message["content"]:
            words = piece.get("text") or f"[picture {shown.folder / piece['image']}]"
            console.print(words, soft_wrap=True)
    return 0


DRY_RUN = "render-agent-dry-run-"

KEPT_SECONDS = 3600.0
"""How long the pictures of a dry run are kept: the next one removes those that are older."""


def _previewed(config: RunConfig) -> Preview:
    """Return the first view and prompt of a run, its pictures in a new temporary folder, which is removed on failure."""
    for old in Path(tempfile.gettempdir()).glob(f"{DRY_RUN}*"):
        with suppress(OSError):
            status = old.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > KEPT_SECONDS:
                shutil.rmtree(old)
    folder = Path(tempfile.mkdtemp(prefix=DRY_RUN))
    try:
        return preview(config, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _agent_words(chosen: Mapping[str, Any]) -> str:
    """Describe the choice of moves in words."""
    replies = f"{chosen['samples']} replies a turn"
    if chosen["groups"] > 1:
        replies += f" to each of {chosen['groups']} wordings"
    names = ", ".join(entry["name"] for entry in chosen["verifiers"])
    return f"agent {chosen['agent']}: {replies}{f', scored by {names}' if names else ''}"


def dry_continue(output: Path, which: str, changes: Mapping[str, Any]) -> int:
    """Print what going on with a run would do; nothing is run or written, no model is loaded."""
    folder = find_run(output, which)
    config = continued_config(folder, changes)
    states = read_states(folder) if folder.has_questions else []
    failed = sum(state.status is Status.FAILED for state in states)
    left = failed + sum(state.active for state in states)
    turns = sum(len(state.turns) for state in states)
    if config.json:
        counts = {"questions": len(states), "active": left, "failed": failed, "turns": turns}
        click.echo(json_text({"run": str(folder.path), **counts}))
        return 0
    console = plain_console()
    if not folder.has_questions:
        console.print(f"{folder.name} has no questions yet: they would be chosen first")
    elif folder.finished and not left:
        console.print(f"{folder.name} is complete: nothing is left to do")
    else:
        console.print(
            f"{folder.name} has {turns} turns of {len(states)} questions: it would go on with {left} of them"
            + (f", of which {failed} failed" if failed else ""),
            soft_wrap=True,
        )
    return 0


def continue_run(
    output: Path, which: str, changes: Mapping[str, Any], *, allow_code: bool = False
) -> int:
    """Take an earlier run to its end; `changes` are the options typed beside --continue.

    allow_code: whether a file of Python that it names may be run.
    """
    folder = find_run(output, which)
    if not allow_code and changes.get("model") is None and _came_with(folder):
        refuse_code(folder.config, str(folder.path / "config.json"))
    run = resume_run(folder, changes)
    if folder.results() and not any(state.active for state in run.states):
        run.close()
        console = _console()
        console.print(f"{folder.name} is complete: nothing is left to do")
        _print_results(folder.results() or {}, run, console, as_json=run.config.json)
        return 0
    return _execute(run)


def _came_with(folder: RunFolder) -> bool:
    """Whether the policy's file of a run lies beside the run, as one of a foreign folder would, or is another user's."""
    code = Path(code_of(folder.config) or "")
    try:
        beside = code.resolve().is_relative_to(folder.path.resolve().parent)
        return beside or code.stat().st_uid not in (0, os.getuid())
    except OSError:  # it is gone, which is said elsewhere
        return False


def _execute(run: Run, *, browser: bool = False, as_json: bool = True) -> int:
    results, console = watch(run, browser=browser), _console()
    _print_results(results, run, console, as_json=run.config.json and as_json)
    failed = results["counts"]["failed"]
    if failed:
        console.print(
            f"{failed} failed (see {run.path / 'run.log'}). To try again: {continue_line(run)}",
            soft_wrap=True,
        )
    return FAILED if failed else 0


def watch(run: Run, *, browser: bool = False, again: str | None = None) -> dict[str, Any]:
    """Take a run to its end, show how far it is, and return its results.

    again: the line that goes on with it, said where it is stopped (by default --continue).
    """
    console = _console()
    with program_log(run.path / "run.log", verbose=run.config.verbose):
        try:
            with shown_on(console, quiet=run.config.quiet, verbose=run.config.verbose) as display:
                note = (lambda words: None) if run.config.quiet else display.note
                note(f"run folder: {run.path}")
                if run.log.warning:
                    display.warn(run.log.warning)
                progress = Progress(run.states, display, max_batched_turns=run.max_batched_turns)
                with logged(run, progress, display.warn, note) as observer, precomputing(run):
                    results = run.go(observer, _engine_maker(run, console, browser=browser))
        except BaseException:
            if run.log.there:
                line = f"stopped; nothing is lost. To go on: {again or continue_line(run)}"
                console.print(line, soft_wrap=True)
            raise
        finally:
            run.close()
    return results


def _engine_maker(run: Run, console: Console, *, browser: bool) -> MakeEngine:
    """Return the function that makes the engine; it prints the address of an engine with a page."""
    if run.config.asks_model or not run.config.alone:
        return make_engine

    def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
        engine = make_engine(config, questions)
        if address := getattr(engine, "address", None):
            console.print(f"answer in the browser: {address}", soft_wrap=True)
            if browser:
                open_page(address)
        return engine

    return make


def continue_line(run: Run) -> str:
    """Return what to type to go on with a run."""
    standard = run.config.output == OPTIONS["output"].default
    output = [] if standard else ["--output", run.config.output]
    return shlex.join([*program(), "--continue", run.path.name, *output])


def program() -> list[str]:
    """Return the words that start this program as it was started."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return ["python", "-m", "render_agent"]
    path = shutil.which(called.name)
    on_path = path is not None and Path(path).resolve() == called.resolve()
    return [called.name if on_path else str(called)]


def _print_results(
    results: Mapping[str, Any], run: Run, console: Console, *, as_json: bool
) -> None:
    config, path = run.config, run.path
    if as_json:
        click.echo(json_text(results))
    if config.quiet:
        console.print(str(path), soft_wrap=True)
        return
    if config.batch:
        console.print(score_tables(results))
    else:
        _print_answer(results["questions"][0], run.states[0], path, console)
    _print_agent(config, results["notes"] if config.batch else (), console)
    if "beliefs" in results:
        console.print(summed_up(results["beliefs"]), soft_wrap=True)
    console.print(f"the run: {path}", soft_wrap=True)
    standard = config.output == OPTIONS["output"].default
    line = [*program(), "report", path.name if standard else str(path)]
    console.print(f"next: {shlex.join(line)}", soft_wrap=True)


def _print_answer(
    row: Mapping[str, Any], state: QuestionState, path: Path, console: Console
) -> None:
    """Print the question that was typed, its answer in its own words, and the last view before it."""
    turns = counted(row["turns"], "turn")
    console.print(f"question: {state.question.text}", soft_wrap=True)
    answer = in_words(state.question, row["answer"])
    console.print(f"answer: {answer} ({row['status']}, {turns})", soft_wrap=True)
    _print_scan(state, console)
    if views := [view for view in state.views if view.kind != "top"]:
        console.print(f"its last view: {path / views[-1].file}", soft_wrap=True)


def _print_scan(state: QuestionState, console: Console) -> None:
    """Print how the scan of a question was read: its kind, unit and upright axis, and what had to be assumed."""
    if state.turns and state.turns[0].scan:
        console.print(f"scan: {'; '.join(state.turns[0].scan)}", soft_wrap=True)


def in_words(question: Question, answer: str | None) -> str:
    """Return an answer as a person reads it: a letter with its option."""
    options = [option for option in question.options if answer and option.startswith(f"{answer}.")]
    return options[0] if options else answer or "none"


def _print_agent(config: RunConfig, printed: Sequence[str], console: Console) -> None:
    """Print the agent and its verifiers, unless a printed note names them."""
    if config.turn_agent.chooses and not any(note.startswith("agent: ") for note in printed):
        console.print(f"agent: {config.agent_words}", soft_wrap=True)


def list_them(output: Path, *, as_json: bool) -> None:
    """Print the runs in a folder, oldest first."""
    rows = [_run_row(path) for path in list_runs(output)]
    if as_json:
        click.echo(json_text(rows))
        return
    if not rows:
        click.echo(f"no runs in {output}: {NO_RUNS}")
        return
    for error in filter(None, (row["error"] for row in rows)):
        click.echo(error, err=True)
    for line in _lines(rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None):
        click.echo(line)


def _lines(rows: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    """Return the table of runs, a line each; width: the columns of the terminal, into which what matters most is put."""
    header = {name: name for name in RUN_COLUMNS}
    table = [
        header,
        *({name: "–" if row[name] is None else str(row[name]) for name in header} for row in rows),
    ]
    for dropped in range(len(LEFT_OUT_FIRST) + 1):
        shown = [name for name in RUN_COLUMNS if name not in LEFT_OUT_FIRST[:dropped]]
        line = " ".join(f"{{{name}:{RUN_COLUMNS[name]}}}" for name in shown)
        lines = [one_line(line.format(**cells)).rstrip() for cells in table]
        if width is None or max(map(len, lines)) <= width:
            break
    return lines


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

LEFT_OUT_FIRST = (
    "agent",
    "date",
    "engine",
    "questions",
    "views",
    "answered",
    "benchmark",
    "minutes",
)
"""The columns that a narrow terminal does without, first those that the name of a run or --json tells anyway."""


def _began(path: Path) -> datetime:
    """Return when a run began: by its name, which a copy keeps; of another name by the age of its file."""
    try:
        return datetime.strptime(path.name.partition("_")[0], "%Y%m%dT%H%M%S")
    except ValueError:
        return datetime.fromtimestamp((path / "config.json").stat().st_mtime)


def _run_row(path: Path) -> dict[str, Any]:
    """Return the row of a run in `ls`; minutes: of its rendering and generating, over all processes."""
    row: dict[str, Any] = dict.fromkeys(RUN_COLUMNS) | {"run": path.name, "error": None}
    try:
        folder = RunFolder(path)
        results = folder.results()
        saved = folder.record["config"]
        row |= {
            "date": _began(path).isoformat(" ", "minutes"),
            "benchmark": "one scan" if saved.get("ply") else saved.get("benchmark"),
            "views": saved.get("views"),
            "status": "unfinished",
            "questions": len(folder.questions()) if folder.has_questions else None,
            "engine": saved["engine"],
            "model": folder.record["engine"]["model"],
            "agent": saved.get("agent", "single"),
        }
        if results:
            seconds = results["totals"]["seconds"]
            row |= {
                "status": results["status"],
                "answered": results["counts"]["answered"],
                "minutes": round((seconds["rendering"] + seconds["generating"]) / 60, 1),
                "official": figure(results["official_over_scored"]["score"]),
            }
    except (RunLogError, OSError) as error:
        return row | {"status": "unreadable", "error": str(error)}
    return row


def show(output: Path, which: str, question_id: str | None, *, as_json: bool) -> None:
    """Print a run's scores, or one question's dialogue: that of the only question where one was typed."""
    folder = find_run(output, which)
    if question_id is None and not as_json and not folder.config.batch and folder.results():
        question_id = folder.questions()[0].id
    if question_id is not None:
        _show_question(folder, question_id, as_json=as_json)
        return
    results = folder.results()
    if as_json:
        click.echo(json_text(results or {"status": "unfinished"}))
        return
    console = plain_console()
    if results is None:
        console.print(f"{folder.name} is unfinished: {len(folder.turns())} turns so far.")
        line = shlex.join([*program(), "--continue", str(folder.path)])
        console.print(f"To go on: {line}", soft_wrap=True)
        return
    console.print(score_tables(results))
    _print_agent(folder.config, results["notes"], console)
    console.print(f"the run: {folder.path}", soft_wrap=True)


def _show_question(folder: RunFolder, question_id: str, *, as_json: bool) -> None:
    questions = {question.id: question for question in folder.questions()}
    question = questions.get(question_id)
    if question is None:
        ids = list(questions)
        some = ", ".join(ids[:SHOWN_IDS]) + (" …" if len(ids) > SHOWN_IDS else "")
        raise UsageError(
            f"{folder.name} has no question with the id {short_repr(question_id)}: its ids: {some}"
        )
    if as_json:
        click.echo(json_text(folder.lines(question_id)))
        return
    console = plain_console()
    console.print(f"{question.type} about {question.scene}", style="bold")
    for words in (question.text, *question.options):
        console.print(words)
    lines = folder.turns(question_id)
    (state,) = read_states(folder, lines, questions=[question])
    row = question_row(state)
    console.print(f"answer: {in_words(question, row['answer'])} ({row['status']})")
    truth = "not known" if question.truth is None else in_words(question, question.truth)
    verdict = "" if row["score"] is None else f": {_verdict(row['score'])}"
    console.print(f"truth: {truth}{verdict}")
    _print_scan(state, console)
    for line in lines:
        console.rule(f"turn {line.head.number + 1} ({line.head.phase})", align="left")
        for words in turn_lines(folder.path, line):
            console.print(words, soft_wrap=True)
    beliefs = list(belief_lines(folder, state))
    if beliefs:
        console.rule("beliefs", align="left")
    for words in beliefs:
        console.print(words, soft_wrap=True)


def _verdict(score: float) -> str:
    """Return a score between 0 and 1 in words."""
    if score in (0.0, 1.0):
        return "right (score 100)" if score else "wrong (score 0)"
    return f"partly right (score {figure(100 * score)})"


def _console() -> Console:
    return plain_console(stderr=True)
