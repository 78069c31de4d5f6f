"""Runs started and continued from Python, as the command line does it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from render_agent.analysis.export.loggers import logged
from render_agent.analysis.live.background import precomputing
from render_agent.api.dialogue import Dialogue
from render_agent.api.engines import (
    PYTHON,
    Answering,
    EngineChoice,
    LoadedEngine,
    choose_engine,
    missing_engine,
)
from render_agent.api.keywords import AskOptions, ContinueOptions, RunOptions
from render_agent.api.results import OUTPUT, RunResults
from render_agent.api.scenes import ScanInput, read_as, scan_file
from render_agent.config import RunConfig
from render_agent.config.flags import checked, errors_name_keywords
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine
from render_agent.engines.registry import MakeEngine
from render_agent.errors import UsageError
from render_agent.runs.log.folder import RunFolder, find_run
from render_agent.runs.log.program_log import program_log
from render_agent.runs.phase_controller import Observer, Silent
from render_agent.runs.runner import Run, resume_run, start_run

logger = logging.getLogger(__name__)

COMMAND_LINE = {
    "json": "see RunResults.results",
    "quiet": "nothing is printed unless progress=True",
    "repeat": "call run once for every seed",
}
"""Options that only the command line has, and what to do instead."""


@errors_name_keywords()
def ask(
    scan: ScanInput,
    question: str,
    *,
    options: Sequence[str] = (),
    engine: Answering | LoadedEngine = "transformers",
    model: str | None = None,
    output: str | Path | None = None,
    progress: bool = False,
    **run_options: Unpack[AskOptions],
) -> Dialogue:
    """Ask one question of one scan and return the dialogue about it, as `render-agent --ply` does.

    scan: a file (PLY, GLB, OBJ …); or a trimesh or Open3D geometry, an opened scene, or arrays
    (points, colours) or (points, colours, faces), in metres, z up, which are kept as a PLY file in
    `scans` below the output. options: the choices, where there are some. engine: as in `--engine`; or a
    model from `load_engine`; or an engine of your own, or a function that takes a request and returns the
    text of a reply. output: where its run folder goes (default experiment_logs). progress: whether to
    show progress. run_options: all other options of a run, by name.

    A question that an error stopped comes back too: see `Dialogue.error`. SetupError where it cannot
    begin, EngineError where its model is gone.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room01"]
    >>> question = "Is the piano left or right of the armchair, seen from the sofa?"
    >>> dialogue = render_agent.ask(
    ...     room, question, options=["left", "right"], model="small", image_size=(320, 240)
    ... )  # doctest: +SKIP
    >>> dialogue.answer  # doctest: +SKIP
    'B'
    >>> def blunt(request):
    ...     return '{"answer": "yes", "done": true}'
    >>> render_agent.ask(room, "Is there a piano?", engine=blunt, output="runs").answer
    'yes'
    """
    folder = Path(OUTPUT if output is None else output)
    settings: dict[str, Any] = {
        "ply": scan_file(scan, folder / "scans"),
        **read_as(scan),
        "question": question,
        "option": options,
        **run_options,
        "model": model,
        "output": folder,
    }
    return _run(settings, engine, progress).dialogue("question")


@errors_name_keywords()
def run(
    *,
    engine: Answering | LoadedEngine = None,
    progress: bool = False,
    **options: Unpack[RunOptions],
) -> RunResults:
    """Run a benchmark, or part of it, to its end and return its results, as `render-agent --batch` does.

    engine: as in `ask`, transformers unless given. options: those of a run, by name, with the defaults
    of the command line; environment and configuration files are not read. progress: whether to show it.

    What stops a run, Ctrl-C in a notebook too, leaves a run folder that `continue_run` goes on with.
    SetupError where it cannot begin, EngineError where its model is gone.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", scene="room00", limit=2, output="runs", max_turns=2
    ... )
    >>> len(results.questions)
    2
    """
    return _run({"batch": options.get("ply") is None, **options}, engine, progress)


@errors_name_keywords()
def continue_run(
    which: str | Path = "recent",
    *,
    output: str | Path = OUTPUT,
    engine: LoadedEngine | Answering = None,
    progress: bool = False,
    **changes: Unpack[ContinueOptions],
) -> RunResults:
    """Go on with a run that was stopped and return its results, as `render-agent --continue` does.

    which: a run folder, a name in `output`, or the newest. engine: one that was made in Python has to
    be given again. changes: options of speed, place and display that are to differ. UsageError where one
    would change results; RunLogError where there is no such run, or it is in use.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", limit=1, output="runs", max_turns=2
    ... )
    >>> render_agent.continue_run(results.path).finished
    True
    """
    _refuse_command_line_options(changes)
    folder = find_run(Path(output), str(which))
    chosen = choose_engine(engine, changes)
    if engine is None and folder.record["engine"]["name"] == PYTHON:
        chosen = missing_engine(folder.config.model_name)
    _same_engine(folder, chosen)
    return _finish(resume_run(folder, checked(changes)), chosen, progress)


def _run(
    options: Mapping[str, Any], engine: Answering | LoadedEngine, progress: bool
) -> RunResults:
    _refuse_command_line_options(options)
    chosen = choose_engine(engine, options)
    config = RunConfig(**checked({**options, **chosen.options})).absolute()
    chosen.check(config)
    return _finish(start_run(config, chosen.describe), chosen, progress)


def _finish(run: Run, chosen: EngineChoice, progress: bool) -> RunResults:
    make = _announced(chosen.make) if run.config.gives_one_reply else chosen.make
    with program_log(run.path / "run.log", verbose=run.config.verbose):
        try:
            chosen.check(run.config)
            with (
                _observer(run, progress) as observer,
                logged(run, observer, logger.warning) as observer,
                precomputing(run),
            ):
                run.go(observer, make)
        except BaseException as error:
            error.add_note(
                f"Nothing is lost. To go on: render_agent.continue_run({str(run.path)!r})"
            )
            raise
        finally:
            run.close()
    return RunResults(RunFolder(run.path))


def _refuse_command_line_options(options: Mapping[str, object]) -> None:
    for name, remedy in COMMAND_LINE.items():
        if name in options:
            raise UsageError(f"{name} is an option of the command line: {remedy}")


def _same_engine(folder: RunFolder, chosen: EngineChoice) -> None:
    """UsageError where another engine than the saved one is to go on with a run."""
    saved = folder.config
    for name, value in chosen.options.items():
        if checked({name: value})[name] != getattr(saved, name):
            raise UsageError(
                f"{folder.name} has the {name} {getattr(saved, name)!r}: go on with the same"
            )


def _announced(make: MakeEngine) -> MakeEngine:
    """Return the function that makes the engine of a person and prints the address of its page."""

    def made(config: RunConfig, questions: Sequence[Question]) -> Engine:
        from render_agent.text.console import plain_console
        from render_agent.web.browser import open_page

        engine = make(config, questions)
        address = str(getattr(engine, "address", ""))
        console = plain_console(stderr=True)
        console.print(f"answer in the browser: {address}", soft_wrap=True)
        open_page(address)
        return engine

    return made


@contextmanager
def _observer(run: Run, progress: bool) -> Iterator[Observer]:
    if not progress:
        yield Silent()
        return
    from render_agent.runs.progress import Progress
    from render_agent.text.console import plain_console
    from render_agent.text.display import shown_on

    with shown_on(plain_console(stderr=True), verbose=run.config.verbose) as display:
        yield Progress(run.states, display, max_batched_turns=run.max_batched_turns)
