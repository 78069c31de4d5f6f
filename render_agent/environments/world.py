"""The shared state of an environment's episodes: questions, scenes, views, rewards, and the folder that records them."""

from __future__ import annotations

import os
import random
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Phase
from render_agent.environments.recorder import Recorder
from render_agent.environments.rewards import DEFAULT_WEIGHTS, NamedObjectsShown, Rewards
from render_agent.errors import SetupError, UsageError
from render_agent.options import OPTIONS, RunConfig, parse_options
from render_agent.render.viewer import Viewer
from render_agent.render.visibility.room_visibility import Rooms
from render_agent.runs.build import build, make_views, parse_agent
from render_agent.runs.episode import Episode, OutsideEngine
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.preflight import check_choices, input_hashes
from render_agent.runs.runner import turn_taker
from render_agent.tasks.ground_truth import load_facts
from render_agent.views.free_views import FreeViews
from render_agent.views.image_store import MemoryImages


class MemoryLog(TurnLog):
    """Discards the lines of an episode and keeps its images in memory."""

    def __init__(self) -> None:
        self.images = MemoryImages()

    def append(self, line: LogLine) -> None:
        """Do nothing, because the episode's state has the turn."""

    def sync(self) -> None:
        """Do nothing, because nothing was written."""


class World:
    """The shared part of environments. Thread-safe."""

    def __init__(
        self,
        config: RunConfig,
        # the questions; None reads those that the options select
        questions: Sequence[Question] | None = None,
        rewards: Mapping[str, float] | None = None,
        record: str | PathLike[str] | None = None,  # folder for run folders; None records nothing
    ) -> None:
        if parse_agent(config.agent).chooses:
            raise UsageError(
                f"agent {config.agent} asks for several replies per turn, but an environment takes one. Omit agent."
            )
        self.parts = build(config)
        self.config = config
        if not config.alone:
            raise UsageError("an environment runs in this process. Omit workers, devices and ray.")
        self.questions = list(questions or self.parts.questions())
        check_choices(self.parts, self.questions, at_hand=False)
        self.rewards = Rewards(DEFAULT_WEIGHTS if rewards is None else rewards, config.probe)
        self.facts = load_facts(self.questions, config.annotations)
        if self.rewards.needs_boxes:
            self._check_boxes()
        if record is not None:  # scenes are only read from files with these digests
            self.parts = replace(self.parts, recorded=input_hashes(self.parts, self.questions))
        self.scenes = self.parts.scenes(self.questions)
        self.recorder = None
        if record is not None:
            self.recorder = Recorder(self.parts, self.questions, Path(record))
            weakref.finalize(self, self.recorder.close)  # also at exit; most trainers close nothing
        self._views = make_views(self.parts, self.scenes, MemoryImages(), self.questions)
        _ = self.viewer  # created before several threads need it
        self._rooms = Rooms(config.image_size)
        self._measuring = Lock()
        self._process = os.getpid()
        self._is_closed = False

    @classmethod
    def of_benchmark(
        cls,
        benchmark: str | PathLike[str],
        ids: Sequence[str],
        rewards: Mapping[str, float] | None,
        record: str | PathLike[str] | None,
        model: str | None,
        run_options: Mapping[str, Any],
    ) -> World:
        """Return the world of a benchmark; the arguments are those of `Environment.from_benchmark`."""
        check_options(run_options)
        settings = {"batch": True, "benchmark": benchmark, "id": ids, **run_options}
        return cls(run_config(settings, model), None, rewards, record)

    @property
    def is_parallel(self) -> bool:
        """True if several threads may render at once."""
        return self.config.renderer == "rasteriser"

    @property
    def viewer(self) -> Viewer | None:
        """The viewer that draws the views; None if the dialogues have none."""
        return self._views.viewer if isinstance(self._views, FreeViews) else None

    @property
    def _is_fork(self) -> bool:
        return os.getpid() != self._process

    def require_open(self) -> None:
        """Raise UsageError if the world is closed, or if this process is a fork, which lacks the renderer's threads."""
        if self._is_closed:
            raise UsageError("the environment is closed. Create another one.")
        if self._is_fork:
            raise UsageError(
                "the environment was created before this process was forked, and works only in the process that"
                " created it. Create one in each process."
            )

    def start(
        self, question: Question, log: TurnLog | None = None
    ) -> tuple[Episode, NamedObjectsShown]:
        """Start an episode, and run it up to its first request."""
        self.require_open()
        state = self.parts.state(question, self.scenes)
        if log is None:
            log = MemoryLog() if self.recorder is None else self.recorder.open(question)
        views = self._views
        if isinstance(views, FreeViews):
            views = views.with_store(
                self.parts.image_stress.wrap_store(log.images, self.config.seed)
            )
        turns = turn_taker(self.parts, OutsideEngine(), views, log, [question])
        return Episode(turns, state, self.phase_of), self._named_objects(state)

    def phase_of(self, turn: int) -> Phase:
        """Return the phase in which a run takes this turn."""
        return "batched" if turn < self.config.num_batched_turns else "finishing"

    def end(self, episode: Episode) -> None:
        """Release the log of an episode, finished or not."""
        if self.recorder is not None and not self._is_fork:
            self.recorder.release(episode.turns.log)

    def close(self) -> None:
        """Free the renderer and finish the recorded run. A fork does neither, because both belong to its parent."""
        if self._is_closed or self._is_fork:
            return
        self._is_closed = True
        self._views.close()
        if self.recorder is not None:
            self.recorder.close()

    def _named_objects(self, state: QuestionState) -> NamedObjectsShown:
        viewer = self.viewer
        if viewer is None or not self.rewards.needs_boxes:
            return NamedObjectsShown(state, None, None, self._measuring)
        question = state.question
        with self._measuring:
            room = self._rooms.room(
                question.scene,
                partial(self.scenes.get, question),
                partial(self.scenes.space, question),
                self.facts[question.scene],
            )
        return NamedObjectsShown(state, room, viewer.renderer, self._measuring)

    def _check_boxes(self) -> None:
        unknown = [q.scene for q in self.questions if q.scene not in self.facts]
        if unknown:
            raise SetupError(
                f"the rewards {', '.join(self.rewards.weights)} need object boxes, but scene {unknown[0]} has none. Pass"
                " annotations, or omit these rewards."
            )
        if self.parts.blind:
            raise UsageError("rewards for what is visible need views. Omit views='none'.")


# Options that affect how a run is carried out but not its dialogues, or that the caller's policy decides.
IDLE_OPTIONS = {
    name
    for name, entry in OPTIONS.items()
    if entry.metadata["group"] in ("engine", "speed", "place", "display")
} - {"max_batched_turns"} | {"temperature", "max_new_tokens", "verifier", "rubric", "judge_mode"}

# Options that apply to one question about one scan; all others of their group select from a benchmark.
QUESTION_OPTIONS = {"ply", "question", "option", "up", "unit", "annotations"}


def check_options(options: Mapping[str, Any], *, single: bool = False) -> None:
    """Raise UsageError if an option has no effect in an environment, which the user would not notice."""
    for name, value in options.items():
        if value is None or name not in OPTIONS:
            continue
        if name in IDLE_OPTIONS:
            raise UsageError(f"{name} has no effect in an environment. Omit it.")
        is_of_questions = OPTIONS[name].metadata["group"] == "questions"
        if name in ("batch", "ply", "question", "option"):
            raise UsageError(f"{name} is given by the arguments of an environment. Omit it.")
        if single and is_of_questions and name not in QUESTION_OPTIONS:
            raise UsageError(f"{name} has no effect on one question about one scan. Omit it.")


def run_config(settings: Mapping[str, Any], model: str | None) -> RunConfig:
    """Return the options of a run that is equivalent to an environment."""
    engine = {"engine": "scripted", "model": "python:policy"} if model is None else {"model": model}
    return RunConfig(**parse_options({**settings, **engine})).absolute()


class QuestionOrder:
    """Cycles through questions. Thread-safe."""

    def __init__(
        self,
        questions: Sequence[Question],
        seed: int | None = None,  # shuffles every pass; None keeps the order
    ) -> None:
        self._questions = list(questions)
        self._random = None if seed is None else random.Random(seed)
        self._pending: list[Question] = []
        self._lock = Lock()

    def next(self) -> Question:
        """Return the next question."""
        with self._lock:
            if not self._pending:
                self._pending = self._questions[::-1]
                if self._random is not None:
                    self._random.shuffle(self._pending)
            return self._pending.pop()
