"""The driver: dispatches scenes to worker processes, logs their turns, and restarts workers that die."""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, Phase, Turn
from render_agent.engines.make_engine import MakeEngine
from render_agent.errors import EngineError, RenderAgentError
from render_agent.options import RunConfig
from render_agent.runs.failures import Failures
from render_agent.runs.log.writer import RunLog
from render_agent.runs.phase_controller import Observer
from render_agent.runs.workers.cluster import cluster, resources
from render_agent.runs.workers.worker import (
    Drawn,
    Message,
    Play,
    Ready,
    Setup,
    TaskBatch,
    Worker,
)
from render_agent.util.contained_paths import picture_path
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Longest wait for a message of the workers."""

CLOSE_SECONDS = 10.0
"""Seconds that workers get to close their engines at the end."""

STALL_SECONDS = 3600.0
"""A worker without a message for this long counts as dead; loading a large model takes minutes."""

MAX_SCENE_DEATHS = 2
"""Workers that may die with a scene before its questions fail: it is retried once."""

MAX_SLOT_DEATHS = 5
"""Consecutive deaths without a turn after which a slot stays empty."""

MAX_BATCHES_PER_TASK = 8
"""Maximum size of a task, in full batches."""


@dataclass(eq=False)
class WorkerSlot:
    """The place of one worker and of its successors after it dies.

    stream: the messages of its current task. scenes: those of the task. deaths: consecutive deaths without a turn.
    heard: when its last message came.
    """

    number: int
    config: RunConfig
    worker: Any = None
    stream: Any = None
    scenes: list[str] = field(default_factory=list)
    batch_size: int = 0
    deaths: int = 0
    heard: float = 0.0
    label: str = ""

    @property
    def ready(self) -> bool:
        """Whether its worker has an engine and nothing to do."""
        return self.worker is not None and self.stream is None and self.batch_size > 0


class Driver:
    """Owns the log, the states and the workers; nothing else changes any of them."""

    def __init__(
        self,
        ray: Any,
        configs: Sequence[RunConfig],
        setup: Setup,
        states: Sequence[QuestionState],
        log: RunLog,
        observer: Observer,
        gpus: float | None,
        most_failures: str,
    ) -> None:
        self.ray = ray
        self.setup = ray.put(setup)
        self.log = log
        self.observer = observer
        self.gpus = gpus
        self.states = {state.id: state for state in states}
        self.by_scene: dict[str, list[QuestionState]] = {}
        for state in states:
            self.by_scene.setdefault(state.question.scene, []).append(state)
        scenes = [scene for scene in self.by_scene if self._active(scene)]
        self.fresh = sorted(scenes, key=lambda scene: (-len(self._active(scene)), scene))
        self.returned: list[str] = []
        """Scenes of workers that died; each is a task of its own, after all others."""
        self.scene_deaths = Counter[str]()
        self.failures = Failures(most_failures, [s.question for s in states if s.active])
        self.slots = [WorkerSlot(number, config) for number, config in enumerate(configs)]
        self.last_error: RenderAgentError = EngineError("no worker could be started")

    def run(self) -> None:
        """Dispatch until every question is done. EngineError or RunStoppedError if no worker is left."""
        for slot in self.slots:
            self._start(slot)
        while self.fresh or self.returned or any(slot.scenes for slot in self.slots):
            working = [slot for slot in self.slots if slot.worker is not None]
            if not working:
                raise self.last_error
            for slot in working:
                if slot.ready:
                    self._dispatch(slot, working)
            streams = {slot.stream: slot for slot in working if slot.stream is not None}
            heard = [streams[stream] for stream in self._wait([*streams])]
            for slot in heard:
                self._hear(slot)
            for slot in streams.values():
                if slot not in heard and time.monotonic() - slot.heard > STALL_SECONDS:
                    self._died(slot, f"no message for {STALL_SECONDS:.0f} s")
        self.log.sync()

    def close(self) -> None:
        """Close the engines of idle workers, and end all workers."""
        closing = [slot.worker.close.remote() for slot in self.slots if slot.ready]
        if closing:
            self.ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
        for slot in self.slots:
            self._end(slot)

    def _wait(self, streams: list[Any]) -> list[Any]:
        """Return the streams that have messages, empty after POLL_SECONDS."""
        try:
            ready, _ = self.ray.wait(streams, num_returns=1, timeout=POLL_SECONDS)
        except SystemError as error:
            # Ray wraps what a signal handler raised during its wait
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
        return list(ready)

    def _start(self, slot: WorkerSlot) -> None:
        """Start a worker; it sends Ready when it has its engine."""
        actor = self.ray.remote(Worker)
        needs = resources(slot.config, self.gpus)
        slot.worker = actor.options(max_restarts=0, **needs).remote(
            slot.config, self.setup, slot.number
        )
        slot.label, slot.batch_size = f"worker {slot.number}", 0
        slot.heard = time.monotonic()
        slot.stream = slot.worker.begin.options(num_returns="streaming").remote()

    def _dispatch(self, slot: WorkerSlot, working: Sequence[WorkerSlot]) -> None:
        """Give the next scenes to a free worker, if any are left."""
        slot.scenes = self._take(slot, working)
        states = [state for scene in slot.scenes for state in self._active(scene)]
        if not states:
            return
        files = {
            view.file: turn.sha256.get(view.file)
            for state in states
            for turn in state.turns
            for view in turn.views
        }
        pictures = {
            file: picture_path(self.log.path, file).read_bytes()
            for file, digest in files.items()
            if self.log.pictures.there(file, digest)
        }
        batch = TaskBatch([(state.question, state.turns) for state in states], pictures)
        logger.info("%s gets %s", slot.label, ", ".join(slot.scenes))
        self.observer.began(self._phase(states[0]), states)
        slot.heard = time.monotonic()
        slot.stream = slot.worker.play.options(num_returns="streaming").remote(batch)

    def _take(self, slot: WorkerSlot, working: Sequence[WorkerSlot]) -> list[str]:
        """Take scenes off the queue: the largest first, fewer at a time towards the end."""
        if not self.fresh:
            return [self.returned.pop(0)] if self.returned else []
        free = sum(not other.scenes for other in working)
        left = sum(len(self._active(scene)) for scene in (*self.fresh, *self.returned))
        wanted = share(left, slot.batch_size, len(working), free)
        taken = [self.fresh.pop(0)]
        count = len(self._active(taken[0]))
        while self.fresh and count + len(self._active(self.fresh[0])) <= wanted:
            taken.append(self.fresh.pop(0))
            count += len(self._active(taken[-1]))
        return taken

    def _hear(self, slot: WorkerSlot) -> None:
        """Handle the next messages of a worker, or the end of its task or of the worker."""
        errors = self.ray.exceptions
        try:
            messages = self.ray.get(next(slot.stream))
        except StopIteration:
            slot.stream, slot.scenes = None, []
        except errors.RayTaskError:
            raise  # a bug
        except errors.RayError as error:
            self._died(slot, reason_of(error))
        else:
            slot.heard = time.monotonic()
            for message in messages:
                self._handle(slot, message)
            self.log.sync()
            stopped = [message for message in messages if isinstance(message, RenderAgentError)]
            if stopped and not isinstance(stopped[0], EngineError):  # every worker has it
                raise stopped[0]
            if stopped:
                self._close(slot, stopped[0])

    def _handle(self, slot: WorkerSlot, message: Message) -> None:
        match message:
            case Drawn(file, png):
                self.log.pictures.store(file, png)
            case Turn():
                state = self.states[message.question_id]
                self.log.append(message)
                state.take(message)
                slot.deaths = 0
                self.failures.went_on()
                self.observer.took(state, message)
            case Failure():
                self._fail(message)
                question = self.states[message.question_id].question
                self.failures.failed(question, message.error, of_scene=message.of_scene)
            case logging.LogRecord():
                logging.getLogger(message.name).handle(message)
            case Ready(batch_size, process, machine):
                slot.batch_size = batch_size
                slot.label = f"worker {slot.number} (process {process} on {machine})"
                logger.info("%s is ready", slot.label)
            case RenderAgentError():  # handled by `_hear`, after the messages before it
                pass

    def _fail(self, failure: Failure) -> None:
        state = self.states[failure.question_id]
        state.fail(failure.error, failure.events)
        self.log.append(failure)
        self.observer.failed(state)

    def _close(self, slot: WorkerSlot, error: RenderAgentError) -> None:
        """Close a slot whose engine is gone; other workers get its scenes."""
        logger.warning("%s is closed: %s", slot.label, error)
        self.last_error = error
        self.returned += filter(self._active, slot.scenes)
        self._end(slot)

    def _died(self, slot: WorkerSlot, reason: str) -> None:
        """Return the scenes of a dead worker to the queue, or fail those that it died with before; restart it."""
        logger.warning("%s died: %s", slot.label, reason)
        self.last_error = EngineError(
            f"every worker died, the last one was {slot.label}: see run.log; with fewer --workers each has more memory"
        )
        for scene in filter(self._active, slot.scenes):
            self.scene_deaths[scene] += 1
            if self.scene_deaths[scene] < MAX_SCENE_DEATHS:
                self.returned.append(scene)
                continue
            error = (
                f"{MAX_SCENE_DEATHS} workers died with the scene {scene}: see run.log, and try again with --continue"
                " and --workers 1"
            )
            for state in self._active(scene):
                self._fail(Failure(state.id, len(state.turns), self._phase(state), error))
        self.log.sync()
        self._end(slot)
        slot.deaths += 1
        if slot.deaths < MAX_SLOT_DEATHS and (self.fresh or self.returned):
            self._start(slot)

    def _end(self, slot: WorkerSlot) -> None:
        if slot.worker is not None:
            self.ray.kill(slot.worker)
        slot.worker = slot.stream = None
        slot.scenes = []

    def _active(self, scene: str) -> list[QuestionState]:
        return [state for state in self.by_scene[scene] if state.active]

    def _phase(self, state: QuestionState) -> Phase:
        batched = self.slots[0].config.max_batched_turns
        return "batched" if len(state.turns) < batched else "finishing"


def share(questions: int, batch_size: int, workers: int, free: int) -> int:
    """Return how many of the remaining questions a free worker gets: half its share, in whole batches if possible.

    Less than a batch only if others of the `free` workers would get nothing; at most MAX_BATCHES_PER_TASK batches.
    """
    half = ceil(questions / (2 * workers))
    filled = min(batch_size, ceil(questions / free))
    return min(max(half, filled), MAX_BATCHES_PER_TASK * batch_size)


def dispatch(
    config: RunConfig,
    states: Sequence[QuestionState],
    log: RunLog,
    observer: Observer,
    make_engine: MakeEngine,
    play: Play,
) -> None:
    """Take every active question to its end in the workers that the options ask for.

    make_engine, play: called in the workers. SetupError if no worker can be set up, EngineError or RunStoppedError if
    none is left, RunLogError if the log cannot be written.
    """
    configs = worker_configs(config)
    scenes = {state.question.scene for state in states if state.active}
    configs = configs[: max(1, len(scenes))]
    with (
        tempfile.TemporaryDirectory(prefix="render-agent-", ignore_cleanup_errors=True) as scratch,
        cluster(config.ray, len(configs)) as ray,
    ):
        machines = sum(node["Alive"] for node in ray.nodes())
        setup = Setup(
            [state.question for state in states],
            make_engine,
            play,
            neighbours=ceil(len(configs) / machines),
            scratch=Path(scratch),
        )
        gpus = ray.cluster_resources().get("GPU", 0) if config.ray else None
        driver = Driver(ray, configs, setup, states, log, observer, gpus, config.max_failures)
        try:
            driver.run()
        finally:
            driver.close()


def worker_configs(config: RunConfig) -> list[RunConfig]:
    """Return the options of each worker: those of the run, with its own device if devices are named."""
    # the driver counts failures, which knows those of all workers
    alone = replace(config, workers=1, devices=(), ray=None, max_failures="100%")
    if config.devices:
        # On a cluster a worker sees its own GPUs only, and counts them from 0.
        named = [
            "cuda:0" if config.ray and device.startswith("cuda") else device
            for device in config.devices
        ]
        return [replace(alone, device=device) for device in named]
    return [alone] * config.workers
