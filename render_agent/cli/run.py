"""Start and resume runs, show their progress, and print their results."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import STATUS_LABELS, QuestionState
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import EngineFactory
from render_agent.options import OPTIONS, RunConfig
from render_agent.report.sentences.facts import cost_fact, facts_line
from render_agent.runs.build import Parts, make_engine
from render_agent.runs.log.caveats import caveats
from render_agent.runs.log.program_log import program_log
from render_agent.runs.loggers import logged
from render_agent.runs.progress import Progress
from render_agent.runs.read import find_run
from render_agent.runs.run_part import result_tables, run_parts
from render_agent.runs.runner import Run, resume_run, start_run
from render_agent.util.console import plain_console
from render_agent.util.display import count_noun, display_on
from render_agent.util.sanitize import printable_json
from render_agent.util.web.browser import open_page

FAILED = 1  # exit code if questions failed


def new_run(config: RunConfig, *, browser: bool = False) -> int:
    """Start a run and complete it; return the exit code."""
    with display_on(_console(), quiet=config.quiet):
        run = start_run(config.absolute(), reads_scan=True)
    return _print_end(run_with_progress(run, browser=browser), run)


def resume_saved_run(
    output: Path, name: str, changes: Mapping[str, Any], *, allow_code: bool
) -> int:
    """Resume a run with options given with --continue, and complete it; return the exit code."""
    folder = find_run(output, name)
    with display_on(_console(), quiet=changes.get("quiet", folder.config.quiet)):
        run = resume_run(folder, changes, allow_code=allow_code)
    if folder.saved_results and not any(state.active for state in run.states):
        run.close()
        console = _console()
        console.print(f"{folder.name} is complete. Nothing to resume.")
        _print_results(folder.final_results or {}, run, console, as_json=run.config.json)
        return 0
    return _print_end(run_with_progress(run), run)


def _print_end(results: Mapping[str, Any], run: Run) -> int:
    """Print the results of a run and how to retry failed questions; return the exit code."""
    console = _console()
    _print_results(results, run, console, as_json=run.config.json)
    num_failed = results["counts"]["failed"]
    if num_failed:
        console.print(
            f"{num_failed} failed (see {run.path / 'run.log'}). Retry with: {continue_line(run)}",
            soft_wrap=True,
        )
    return FAILED if num_failed else 0


def run_with_progress(
    run: Run, *, browser: bool = False, resume_command: str | None = None
) -> dict[str, Any]:
    """Complete a run while showing progress, and return its results."""
    console = _console()
    with program_log(run.path / "run.log", verbose=run.config.verbose):
        try:
            with display_on(console, quiet=run.config.quiet, verbose=run.config.verbose) as display:
                display.note(f"run folder: {run.path}")
                if run.log.warning:
                    display.warn(run.log.warning)
                progress = Progress(
                    run.states,
                    display,
                    max_batched_turns=run.config.num_batched_turns,
                    billing=run.parts.billing,
                )
                make = _engine_maker(run, console, display.warn, browser=browser)
                with logged(run, progress, display.warn, display.note) as observer:
                    results = run.go(observer, make)
        except BaseException:
            if run.log.exists:
                line = f"Stopped; progress is saved. Resume with: {resume_command or continue_line(run)}"
                console.print(line, soft_wrap=True)
            raise
        finally:
            run.close()
    return results


def _engine_maker(
    run: Run, console: Console, warn: Callable[[str], None], *, browser: bool
) -> EngineFactory:
    """Return a function that creates the engine, warns of failed checks, and announces the page of the human engine."""
    if not run.config.alone:
        return make_engine

    def make(config: RunConfig, questions: Sequence[Question]) -> Engine:
        engine = make_engine(config, questions)
        for caveat in (getattr(engine, "start_check", None) or {"caveats": ()})["caveats"]:
            warn(caveat)
        if address := getattr(engine, "address", None):
            console.print(f"Answer in the browser: {address}", soft_wrap=True)
            if browser:
                open_page(address)
        return engine

    return make


def continue_line(run: Run) -> str:
    consent = ["--allow-code"] if run.parts.engine.code_file(run.config) else []
    return command_line("--continue", run_argument(run.path), *consent)


def run_argument(path: Path) -> str:
    """Return how the command line names a run: by its name in the default folder, otherwise by its path."""
    is_default = path.absolute().parent == Path(str(OPTIONS["output"].default)).absolute()
    return path.name if is_default else str(path)


def command_line(*arguments: str) -> str:
    """Return the command that started this program, with other arguments."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return shlex.join(["python", "-m", "render_agent", *arguments])
    path = shutil.which(called.name)
    on_path = path is not None and Path(path).resolve() == called.resolve()
    return shlex.join([called.name if on_path else str(called), *arguments])


def _print_results(
    results: Mapping[str, Any], run: Run, console: Console, *, as_json: bool
) -> None:
    config, path = run.config, run.path
    if as_json:
        click.echo(printable_json(results))
    if config.quiet:
        console.print(str(path), soft_wrap=True)
        return
    if config.batch:
        console.print(result_tables(results))
    else:
        _print_answer(results["questions"][0], run.states[0], path, console)
    print_agent(run.parts, results["notes"] if config.batch else (), console)
    for part in run_parts():
        if words := part.summary(results):
            console.print(words, soft_wrap=True)
    if cost := cost_fact(run.parts, results):
        console.print(facts_line(cost), soft_wrap=True)
    console.print(f"run: {path}", soft_wrap=True)
    console.print(f"next: {command_line('report', run_argument(path))}", soft_wrap=True)


def _print_answer(
    row: Mapping[str, Any], state: QuestionState, path: Path, console: Console
) -> None:
    """Print the question, its answer, and the last view before the answer."""
    turns = count_noun(row["turns"], "turn")
    console.print(f"question: {state.question.text}", soft_wrap=True)
    answer = in_words(state.question, row["answer"])
    console.print(f"answer: {answer} ({STATUS_LABELS[state.status]}, {turns})", soft_wrap=True)
    print_caveats(state, console)
    print_scan(state, console)
    if views := [view for view in state.views if view.kind != "top"]:
        console.print(f"last view: {path / views[-1].file}", soft_wrap=True)


def print_caveats(state: QuestionState, console: Console) -> None:
    """Print the caveats that follow from the turns of a question."""
    for caveat in caveats(state.turns):
        console.print(f"warning: {caveat}", style="yellow", soft_wrap=True, markup=False)


def print_scan(state: QuestionState, console: Console) -> None:
    """Print how the scan of a question was read: type, unit and up axis, and what was assumed."""
    if state.turns and state.turns[0].scan:
        console.print(f"scan: {'; '.join(state.turns[0].scan)}", soft_wrap=True)


def in_words(question: Question, answer: str | None) -> str:
    """Format an answer for people: a letter with the text of its option."""
    options = [option for option in question.options if answer and option.startswith(f"{answer}.")]
    return options[0] if options else answer or "none"


def print_agent(parts: Parts, notes: Sequence[str], console: Console) -> None:
    """Print the agent and its verifiers, unless a note has already named them."""
    if parts.agent.chooses and not any(note.startswith("agent: ") for note in notes):
        console.print(f"agent: {parts.agent_words}", soft_wrap=True)


def _console() -> Console:
    return plain_console(stderr=True)
