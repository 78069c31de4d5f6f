"""Starts and resumes runs from Python, with the options of the command line."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Unpack

from render_agent.api.engines import (
    PYTHON,
    Answering,
    EngineChoice,
    LoadedEngine,
    choose_engine,
    missing_engine,
)
from render_agent.api.keywords import RunOptions
from render_agent.api.results import OUTPUT, Dialogue, RunResults
from render_agent.api.scenes import ScanInput, read_as, scan_file
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import EngineFactory
from render_agent.errors import SetupError, UsageError
from render_agent.options import RunConfig, parse_options
from render_agent.runs.log.program_log import program_log
from render_agent.runs.loggers import logged
from render_agent.runs.phase_controller import NullObserver, Observer
from render_agent.runs.read import RunData, find_run
from render_agent.runs.runner import Run, resume_run, start_run
from render_agent.util.display import count_noun

logger = logging.getLogger(__name__)

# options available only on the command line -> their replacement in Python
COMMAND_LINE = {
    "json": "see RunResults.results",
    "quiet": "nothing is printed unless progress=True",
}


def ask(
    scan: ScanInput,
    question: str,
    *,
    options: Sequence[str] = (),
    engine: Answering | LoadedEngine = "transformers",
    model: str | Path | None = None,
    output: str | Path = OUTPUT,
    progress: bool = False,
    **run_options: Unpack[RunOptions],
) -> Dialogue:
    """Ask one question about one scan, like `render-agent --ply`.

    Args:
        scan: A file (PLY, GLB, OBJ …), a trimesh or Open3D geometry, an opened scene, or arrays (points, colours) or
            (points, colours, faces), in metres, z up. Scans in memory are saved as PLY files in `scans` within the
            output folder.
        question: The question.
        options: The choices of a multiple-choice question.
        engine: Name of an engine, as in `--engine`, a model from `load_engine`, an engine, or a function that maps a
            request to the text of a reply. The function may be a coroutine function. If it has a parameter
            `requests`, it maps a list of requests to a list of texts.
        model: As in `--model`.
        output: Folder for run folders.
        progress: Show progress.
        **run_options: Other options of a run.

    Returns:
        The dialogue, even if an error stopped it; see `Dialogue.error`.

    Raises:
        SetupError: The run cannot start.
        EngineError: The engine failed.

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
    folder = Path(output)
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


def run(
    *,
    engine: Answering | LoadedEngine = None,
    model: str | Path | None = None,
    output: str | Path = OUTPUT,
    progress: bool = False,
    **options: Unpack[RunOptions],
) -> RunResults:
    """Run a benchmark, or part of it, like `render-agent --batch`, and return the results.

    Use `continue_run` to resume an interrupted run.

    Args:
        engine: As in `ask`; transformers by default.
        model: As in `--model`.
        output: Folder for run folders.
        progress: Show progress.
        **options: Other options of a run. Environment variables and configuration files are not read.

    Returns:
        The results of the run.

    Raises:
        SetupError: The run cannot start.
        EngineError: The engine failed.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", scene="room00", limit=2, output="runs", max_turns=2
    ... )
    >>> len(results.questions)
    2
    """
    return _run({"batch": True, **options, "model": model, "output": output}, engine, progress)


def continue_run(
    which: str | Path = "recent",
    *,
    output: str | Path = OUTPUT,
    engine: LoadedEngine | Answering = None,
    progress: bool = False,
    **changes: Unpack[RunOptions],
) -> RunResults:
    """Resume a run, like `render-agent --continue`, and return the results.

    Args:
        which: A run folder, the name of a run in `output`, or `recent` for the newest run there.
        output: Folder of the run folders.
        engine: The engine of the run, if it was created in Python.
        progress: Show progress.
        **changes: Options that affect only speed, location or display. A run of a policy file (.py) needs its `model`
            again, because the file of someone else's run is not run without consent.

    Returns:
        The results of the run.

    Raises:
        UsageError: An option would change the results, or `model` is missing.
        RunLogError: The run does not exist or is in use.

    >>> import render_agent
    >>> results = render_agent.run(
    ...     benchmark="rooms", engine="scripted", limit=1, output="runs", max_turns=2
    ... )
    >>> render_agent.continue_run(results.path).finished
    True
    """
    _refuse_command_line_options(changes)
    folder = find_run(Path(output), str(which))
    choice = choose_engine(engine, changes)
    if engine is None and folder.record["engine"]["name"] == PYTHON:
        choice = missing_engine(folder.parts.model_name)
    for name, value in parse_options(choice.options).items():
        if value != (saved_value := getattr(folder.config, name)):
            raise UsageError(
                f"{name} cannot change when resuming {folder.name}, which has {saved_value!r}. Omit it."
            )
    if engine is not None:
        _refuse_other_source(folder, choice)
    run = resume_run(
        folder, parse_options(changes), choice.check_servers, allow_code="model" in changes
    )
    return _finish(run, choice, progress)


def _refuse_other_source(folder: RunData, choice: EngineChoice) -> None:
    """Raise SetupError if the source code of a Python engine has changed since the run started."""
    saved_source = folder.record["engine"].get("source")
    if (
        saved_source is not None
        and choice.describe(folder.config).get("source", saved_source) != saved_source
    ):
        raise SetupError(
            f"the engine {folder.model} is not the one that {folder.name} started with (its source code differs). Pass the"
            " original engine, or start a new run."
        )


def _run(
    options: Mapping[str, Any], engine: Answering | LoadedEngine, progress: bool
) -> RunResults:
    _refuse_command_line_options(options)
    choice = choose_engine(engine, options)
    config = RunConfig(**parse_options({**options, **choice.options})).absolute()
    choice.check(config)
    return _finish(start_run(config, choice.describe, choice.check_servers), choice, progress)


def _finish(run: Run, choice: EngineChoice, progress: bool) -> RunResults:
    make = _announce_address(choice.make) if run.parts.engine.single_sample else choice.make
    with program_log(run.path / "run.log", verbose=run.config.verbose):
        try:
            choice.check(run.config)
            with (
                _observer(run, progress) as observer,
                logged(run, observer, logger.warning) as observer,
            ):
                run.go(observer, make)
        except BaseException as error:
            choice.on_interrupt()  # the engine's state is undefined after an interruption
            error.add_note(f"Progress is saved. Resume with: {_resume_call(run)}")
            raise
        finally:
            run.close()
    if errors := [state.error for state in run.states if state.error]:
        logger.warning(
            "%s failed. Last error: %s. Retry with: %s",
            count_noun(len(errors), "question"),
            errors[-1],
            _resume_call(run),
        )
    return RunResults(RunData(run.path))


def _resume_call(run: Run) -> str:
    """Return the call that resumes a run; a policy file must be named again."""
    code = run.parts.engine.code_file(run.config)
    model = "" if code is None else f", model={code!r}"
    return f"render_agent.continue_run({str(run.path)!r}{model})"


def _refuse_command_line_options(options: Mapping[str, object]) -> None:
    for name, remedy in COMMAND_LINE.items():
        if name in options:
            raise UsageError(f"{name} is only available on the command line: {remedy}")


def _announce_address(make: EngineFactory) -> EngineFactory:
    """Wrap `make` so that it opens the page of the human engine and prints the address."""

    def make_and_announce(config: RunConfig, questions: Sequence[Question]) -> Engine:
        from render_agent.util.console import plain_console
        from render_agent.util.web.browser import open_page

        engine = make(config, questions)
        address = str(getattr(engine, "address", ""))
        console = plain_console(stderr=True)
        console.print(f"Answer in the browser: {address}", soft_wrap=True)
        open_page(address)
        return engine

    return make_and_announce


@contextmanager
def _observer(run: Run, progress: bool) -> Iterator[Observer]:
    if not progress:
        yield NullObserver()
        return
    from render_agent.runs.progress import Progress
    from render_agent.util.console import plain_console
    from render_agent.util.display import display_on

    with display_on(plain_console(stderr=True), verbose=run.config.verbose) as display:
        yield Progress(
            run.states,
            display,
            max_batched_turns=run.config.num_batched_turns,
            billing=run.parts.billing,
        )
