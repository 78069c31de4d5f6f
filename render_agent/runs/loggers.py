"""Experiment trackers (W&B, Trackio, TensorBoard, MLflow): log scalars during a run and final scores at its end."""

from __future__ import annotations

import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from typing import Any

import numpy as np

from render_agent import registry
from render_agent.dialogue.state import QuestionState, Status
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Phase, Turn
from render_agent.options import public_options
from render_agent.runs.log.lines import replay
from render_agent.runs.log.row import scored_answers
from render_agent.runs.phase_controller import NullObserver, Observer
from render_agent.runs.read import NO_SCENES, RunData
from render_agent.runs.runner import Run
from render_agent.score.intervals import macro_estimate
from render_agent.score.means import MACRO, tally_scores
from render_agent.score.summary import headline
from render_agent.util.reasons import MAX_REASON_CHARS, truncate
from render_agent.util.sanitize import redact_keys

logger = logging.getLogger(__name__)

PROJECT = "render_agent"  # default project; overridden by the environment variable of each tracker
POINTS = 200  # maximum number of points per curve

Say = Callable[[str], None]


class RunLogger(ABC):
    """A run in one tracker. An exception disables the logger and does not stop the run."""

    seen_by = ""
    """How to view the run; `{runs}` is replaced by the folder that contains the run folders."""

    @abstractmethod
    def __init__(self, folder: RunData, *, overwrite: bool) -> None:
        """Create the run in the tracker, or reopen it if it exists."""

    @abstractmethod
    def log(self, figures: Mapping[str, float], step: int) -> None:
        """Log scalars at a step (the number of turns completed so far)."""

    @abstractmethod
    def close(self) -> None:
        """Flush buffers and mark the run as finished."""


class WandbLogger(RunLogger):
    """Weights & Biases, offline without an API key. Base class for compatible tools."""

    seen_by = "if it was offline, upload it with: wandb sync wandb/latest-run"
    tool = "wandb"

    def __init__(self, folder: RunData, *, overwrite: bool) -> None:
        tool = import_module(self.tool)
        project = os.environ.get(f"{self.tool.upper()}_PROJECT", PROJECT)
        with redirect_stdout(sys.stderr):  # stdout is reserved for --json
            self.run = tool.init(
                project=project, config=_options(folder), **self._names(folder, tool)
            )

    def _names(self, folder: RunData, tool: Any) -> dict[str, Any]:
        tool.setup(settings=tool.Settings(silent=True))
        is_configured = "WANDB_MODE" in os.environ or tool.login(prompt=False, verify=False)
        return {
            "id": _run_id(folder),
            "name": folder.name,
            "resume": "allow",
            "mode": None if is_configured else "offline",
            "settings": tool.Settings(console="off", silent=True, x_disable_stats=True, disable_git=True, disable_code=True),
        }  # fmt: skip

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self.run.log(dict(figures), step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self.run.finish()


class TrackioLogger(WandbLogger):
    """Trackio, which is API-compatible with wandb."""

    seen_by = "view it with: trackio show"
    tool = "trackio"

    def _names(self, folder: RunData, tool: Any) -> dict[str, Any]:
        return {"name": _run_id(folder), "resume": "allow", "embed": False}


class TensorBoardLogger(RunLogger):
    """TensorBoard: writes event files to `tensorboard/NAME` in the folder of the run folders."""

    seen_by = "view it with: tensorboard --logdir {runs}/tensorboard"

    def __init__(self, folder: RunData, *, overwrite: bool) -> None:
        from torch.utils.tensorboard import SummaryWriter

        place = folder.path.parent / "tensorboard" / folder.name
        if overwrite:
            for file in place.glob("events.out.tfevents.*"):
                file.unlink()
        self.writer = SummaryWriter(str(place))
        rows = [f"| {name} | {_cell(value)} |" for name, value in _options(folder).items()]
        self.writer.add_text("options", "\n".join(["| option | value |", "|---|---|", *rows]))

    def log(self, figures: Mapping[str, float], step: int) -> None:
        for name, value in figures.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class MlflowLogger(RunLogger):
    """MLflow: logs scalars as metrics and options as parameters to MLFLOW_TRACKING_URI."""

    seen_by = "view it with: mlflow ui"
    tag = "render_agent.run"

    def __init__(self, folder: RunData, *, overwrite: bool) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self.client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        experiment = self.client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else self.client.create_experiment(name)  # fmt: skip
        run_id = _run_id(folder)
        existing = [run.info.run_id for run in self.client.search_runs([experiment_id], f"tags.`{self.tag}` = '{run_id}'")]  # fmt: skip
        if overwrite:
            for old_id in existing:
                self.client.delete_run(old_id)
        if existing and not overwrite:
            self.id = existing[0]
            self.client.update_run(self.id, "RUNNING")
            return
        tags = {self.tag: run_id}
        self.id = self.client.create_run(experiment_id, tags=tags, run_name=folder.name).info.run_id
        # MLflow servers accept at most 100 parameters per call and 500 characters per value
        options = [Param(name, str(value)[:500]) for name, value in _options(folder).items()]
        for start in range(0, len(options), 100):
            self.client.log_batch(self.id, params=options[start : start + 100])

    def log(self, figures: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, step) for name, value in figures.items()]
        self.client.log_batch(self.id, metrics=metrics)

    def close(self) -> None:
        self.client.set_terminated(self.id)


def _run_id(folder: RunData) -> str:
    return f"{folder.name}-{folder.record['fingerprint'][:8]}"


def _options(folder: RunData) -> dict[str, Any]:
    """Return the run's options without API keys and paths, its model, and the relative path of its report."""
    options = public_options(folder.config.to_json())
    model = str(folder.record["engine"]["model"])
    return options | {"model": model, "report": f"{folder.name}/report/index.html"}


def _cell(value: object) -> str:
    return "" if value is None else " ".join(str(value).split()).replace("|", "\\|")


class LoggingObserver(Observer):
    """Forwards events to another observer and logs scalars to the trackers."""

    def __init__(self, folder: RunData, states: Sequence[QuestionState], names: Sequence[str], to: Observer, say: Say, *, overwrite: bool = False) -> None:  # fmt: skip
        self.states, self.to, self.say = states, to, say
        self.step = sum(len(state.turns) for state in states)
        self.stride = -(-sum(state.max_turns for state in states) // POINTS)
        self.loggers: dict[str, RunLogger] = {}
        for name in names:
            with self._disable_on_error(name):
                self.loggers[name] = registry.load("logger", name)(folder, overwrite=overwrite)

    def on_phase_start(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        self.to.on_phase_start(phase, states)

    def on_turn(self, state: QuestionState, turn: Turn) -> None:
        self.to.on_turn(state, turn)
        self.step += 1
        if self.step % self.stride == 0:
            self.log(scalars(self.states))

    def on_failure(self, state: QuestionState) -> None:
        self.to.on_failure(state)

    def log(self, figures: Mapping[str, float]) -> None:
        for name, run_logger in list(self.loggers.items()):
            with self._disable_on_error(name):
                run_logger.log(figures, self.step)

    def finish(self, folder: RunData) -> None:
        """Send the final scores, and the last scalars if they were not sent yet."""
        figures = scalars(self.states) if self.step % self.stride else {}
        self.log({**figures, **final_scalars(folder.score(self.states))})

    def close(self) -> None:
        for name, run_logger in list(self.loggers.items()):
            with self._disable_on_error(name):
                run_logger.close()

    @contextmanager
    def _disable_on_error(self, name: str) -> Iterator[None]:
        """Disable a logger that raises, with one warning."""
        try:
            yield
        except (Exception, SystemExit) as error:
            self.loggers.pop(name, None)
            logger.warning("logging to %s stopped", name, exc_info=error)
            reason = redact_keys(" ".join(str(error).split()) or type(error).__name__)
            self.say(f"logging to {name} stopped: {truncate(reason, MAX_REASON_CHARS)}")


def scalars(states: Sequence[QuestionState]) -> dict[str, float]:
    """Return a run's progress, tokens, seconds and score with its 95 % confidence interval in percent."""
    turns = [turn for state in states for turn in state.turns]
    status = Counter(state.status for state in states)
    tokens = Tokens.total(turn.tokens for turn in turns)
    generating = sum(turn.seconds.generating / turn.batch_size for turn in turns)
    figures: dict[str, float] = {
        "questions/done": len(states) - status[Status.ACTIVE],
        "questions/failed": status[Status.FAILED],
        "seconds/generating": generating,
        "seconds/rendering": sum(turn.seconds.rendering for turn in turns),
    }
    if tokens.prompt or not turns:  # otherwise the server reports none
        figures |= {"tokens/in": tokens.prompt, "tokens/out": tokens.reply, "tokens/from_cache": tokens.cached}  # fmt: skip
    answers = tally_scores(scored_answers(states))
    if len(answers.sums):
        figures["score"] = 100 * float(answers.means[MACRO])
        low, high = (100 * float(end) for end in macro_estimate(answers).score_interval)
        if not np.isnan(low):
            figures |= {"score_low": low, "score_high": high}
    return figures


def final_scalars(results: Mapping[str, Any]) -> dict[str, float]:
    """Return the known scores and counts in `results.json`, by name."""
    main = headline(results)
    low, high = main.bounds or (None, None)
    names = ("official", "official_raw", "micro", "without_order")
    figures = {
        "final/score": main.score,
        **{f"final/{name}": results[name] for name in names},
        "final/score_low": low,
        "final/score_high": high,
        **{f"final/types/{name}": entry.get("score") for name, entry in results["types"].items()},
        **{f"final/questions/{name}": count for name, count in results["counts"].items()},
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


@contextmanager
def logged(
    run: Run,
    observer: Observer,  # receives all events first
    say: Say,
    note: Say = logger.info,
) -> Iterator[Observer]:
    """Context manager for an observer that also logs the run to the trackers of `--log-to`."""
    if not run.config.log_to:
        yield observer
        return
    folder = RunData(run.path)
    logging_observer = LoggingObserver(folder, run.states, run.config.log_to, observer, say)
    try:
        yield logging_observer
        logging_observer.finish(folder)
    finally:
        logging_observer.close()
    for name in logging_observer.loggers:
        note(logged_line(name, folder))


def logged_line(name: str, folder: RunData) -> str:
    """Return a sentence on where to view a logged run."""
    hint = registry.load("logger", name).seen_by.format(runs=folder.path.parent)
    return f"logged {folder.name} to {name}{hint and f'; {hint}'}"


def log_finished(folder: RunData, name: str, say: Say) -> bool:
    """Log an existing run to a tracker, turn by turn; return False if the tracker failed."""
    states = [
        QuestionState(state.question, NO_SCENES, state.max_turns, blind=state.blind)
        for state in folder.dialogues
    ]
    by_id = {state.id: state for state in states}
    observer = LoggingObserver(folder, states, [name], NullObserver(), say, overwrite=True)
    for line in folder.turns:
        replay([line], by_id)
        if isinstance(line, Turn):
            observer.on_turn(by_id[line.question_id], line)
    observer.finish(folder)
    observer.close()
    return bool(observer.loggers)
