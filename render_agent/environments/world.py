"""The shared state of an environment's episodes: questions, scenes, views, rewards, and the folder that records them."""

from __future__ import annotations

import os
import random
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import structs
from PIL.Image import Image

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Phase, Turn
from render_agent.environments.episode import Episode, OutsideEngine
from render_agent.environments.recorder import Recorder
from render_agent.environments.rewards import DEFAULT_WEIGHTS, NamedObjectsShown, Rewards
from render_agent.errors import SetupError, UsageError
from render_agent.options import BENCHMARK_OPTIONS, OPTIONS, RunConfig, parse_options
from render_agent.render.viewer import Viewer
from render_agent.runs.build import build, make_views, parse_agent
from render_agent.runs.inputs import input_hashes
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.preflight import check_choices
from render_agent.runs.runner import turn_taker
from render_agent.tasks.ground_truth import load_facts, place_facts
from render_agent.views.free_views import FreeViews
from render_agent.views.image_store import MemoryImages
from render_agent.visibility.room_visibility import MAX_OPEN_ROOMS, RoomVisibility


class BranchLog(TurnLog):
    """Keeps the turns and images of an episode in memory until `record`, so that another branch can replace them."""

    def __init__(
        self,
        images: Mapping[str, Image] = MappingProxyType({}),  # images of earlier turns, by file
        recording: TurnLog | None = None,  # records the episode once it is over; None for nothing
        turns: Sequence[Turn] = (),  # earlier turns that are not in the recording
    ) -> None:
        self.images = MemoryImages(images)
        self.recording = recording
        self.lines: list[LogLine] = [*turns]

    def append(self, line: LogLine) -> None:
        if self.recording is not None:
            self.lines.append(line)

    def sync(self) -> None:
        """Do nothing, because nothing was written."""

    def record(self) -> TurnLog:
        """Write the turns and their images to the recording, and return it."""
        assert self.recording is not None
        store = self.recording.images
        for line in self.lines:
            if isinstance(line, Turn):
                for file in line.image_files:
                    if not store.is_saved(file):
                        store.save(file, np.array(self.images.get(file)))
                line = structs.replace(line, sha256=store.wait_for(line.image_files))
            self.recording.append(line)
        return self.recording


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
        self.rewards = Rewards(DEFAULT_WEIGHTS if rewards is None else rewards, config)
        self.facts = load_facts(self.questions, config)
        if self.rewards.needs_boxes:
            self._check_boxes()
        has_target = any(question.answer_form == "pose" for question in self.questions)
        if self.rewards.needs_target and not has_target:
            raise UsageError(
                f"the reward {self.rewards.needs_target[0]!r} needs questions of the type reach_view. Pass"
                " benchmark='views', or omit it."
            )
        if record is not None:  # scenes are only read from files with these digests
            self.parts = replace(self.parts, recorded=input_hashes(self.parts, self.questions))
        self.scenes = self.parts.scenes(self.questions)
        self.recorder = None
        if record is not None:
            self.recorder = Recorder(self.parts, self.questions, Path(record))
            weakref.finalize(self, self.recorder.close)  # also at exit; most trainers close nothing
        self._views = make_views(self.parts, self.scenes, MemoryImages(), self.questions)
        _ = self.viewer  # created before several threads need it
        self._rooms: OrderedDict[str, RoomVisibility] = OrderedDict()
        self._opening = Lock()
        self._process = os.getpid()
        self._is_closed = False

    def __reduce__(self) -> tuple[Any, ...]:
        folder = None if self.recorder is None else self.recorder.folder
        return World, (self.config, self.questions, self.rewards.weights, folder)

    def __deepcopy__(self, memo: Any) -> World:
        return self

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
        self,
        question: Question,
        log: TurnLog | None = None,  # None opens one
        turns: Sequence[Turn] = (),  # the turns of an earlier episode that it continues
    ) -> tuple[Episode, NamedObjectsShown]:
        """Start an episode, and run it up to its first request."""
        self.require_open()
        state = self.parts.state(question, self.scenes)
        state.turns.extend(turns)
        if log is None:
            log = BranchLog() if self.recorder is None else self.recorder.open(question)
        views = self._views
        if isinstance(views, FreeViews):
            views = views.with_store(
                self.parts.image_stress.wrap_store(log.images, self.config.seed)
            )
        taker = turn_taker(self.parts, OutsideEngine(), views, log, [question])
        return Episode(taker, state, self.phase_of), self._named_objects(state)

    def phase_of(self, turn: int) -> Phase:
        """Return the phase in which a run takes this turn."""
        return "batched" if turn < self.config.num_batched_turns else "finishing"

    def end(self, episode: Episode) -> None:
        """Release the log of an episode, finished or not."""
        if self.recorder is None or self._is_fork:
            return
        log = episode.turns.log
        if isinstance(log, BranchLog) and log.recording is not None:
            log = log.record()
        self.recorder.release(log)

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
            return NamedObjectsShown(state, None, None)
        return NamedObjectsShown(state, self._room(state.question), viewer.renderer)

    def _room(self, question: Question) -> RoomVisibility:
        """Return the room of a question. Rooms stay open, because other episodes may still use them."""
        name, scene = question.scene, self.scenes.get(question)
        with self._opening:
            room = self._rooms.pop(name, None)
            if room is None or room.scene is not scene:
                facts, size = place_facts(self.facts[name], scene), self.config.image_size
                room = RoomVisibility(scene, partial(self.scenes.space, question), facts, size)
            self._rooms[name] = room
            while len(self._rooms) > MAX_OPEN_ROOMS:
                self._rooms.popitem(last=False)
        return room

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


def check_options(options: Mapping[str, Any], *, single: bool = False) -> None:
    """Raise UsageError if an option has no effect in an environment, which the user would not notice."""
    for name, value in options.items():
        if value is None or name not in OPTIONS:
            continue
        if name in IDLE_OPTIONS:
            raise UsageError(f"{name} has no effect in an environment. Omit it.")
        if name in ("batch", "ply", "question", "option"):
            raise UsageError(f"{name} is given by the arguments of an environment. Omit it.")
        if single and name in BENCHMARK_OPTIONS:
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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def next(self) -> Question:
        """Return the next question."""
        with self._lock:
            if not self._pending:
                self._pending = self._questions[::-1]
                if self._random is not None:
                    self._random.shuffle(self._pending)
            return self._pending.pop()
