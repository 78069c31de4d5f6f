"""The driver: dispatches scenes to worker processes, logs their turns, and restarts dead workers."""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, Phase, Turn
from render_agent.engines.make_engine import EngineFactory
from render_agent.errors import EngineError, RenderAgentError
from render_agent.options import RunConfig
from render_agent.runs.log.writer import RunLog
from render_agent.runs.phase_controller import Failures, Observer
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
from render_agent.util.contained_paths import image_path
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0  # maximum wait for messages

CLOSE_SECONDS = 10.0  # time for workers to close their engines at the end

# Silence after which a worker counts as dead; loading a large model takes minutes.
STALL_SECONDS = 3600.0

MAX_SCENE_DEATHS = 2  # workers that may die with a scene before its questions fail, so one retry

MAX_SLOT_DEATHS = 5  # consecutive deaths without a turn after which a slot is not refilled

MAX_BATCHES_PER_TASK = 8  # maximum size of a task, in full batches


@dataclass(eq=False)
class WorkerSlot:
    """A place for one worker at a time. A dead worker is replaced."""

    number: int
    config: RunConfig
    worker: Any = None
    stream: Any = None
    """Messages of the current task."""
    scenes: list[str] = field(default_factory=list)
    """Scenes of the current task."""
    batch_size: int = 0
    deaths: int = 0
    """Consecutive deaths without a turn."""
    last_message_at: float = 0.0
    """Time of the last message."""
    label: str = ""

    @property
    def ready(self) -> bool:
        """True if the worker has an engine and no task."""
        return self.worker is not None and self.stream is None and self.batch_size > 0


class Driver:
    """Owns the log, the states and the workers of a run."""

    def __init__(
        self,
        ray: Any,
        configs: Sequence[RunConfig],
        setup: Setup,
        states: Sequence[QuestionState],
        log: RunLog,
        observer: Observer,
        gpus: float | None,
        max_failures: str,
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
        """Scenes of dead workers. Each becomes a separate task after all others."""
        self.scene_deaths = Counter[str]()
        self.failures = Failures(max_failures, [s.question for s in states if s.active])
        self.slots = [WorkerSlot(number, config) for number, config in enumerate(configs)]
        self.last_error: RenderAgentError = EngineError("no worker could be started")

    def run(self) -> None:
        """Dispatch tasks until every question is done. Raises EngineError or RunStoppedError if no worker is left."""
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
            slots_with_messages = [streams[stream] for stream in self._wait([*streams])]
            for slot in slots_with_messages:
                self._hear(slot)
            for slot in streams.values():
                if (
                    slot not in slots_with_messages
                    and time.monotonic() - slot.last_message_at > STALL_SECONDS
                ):
                    self._restart(slot, f"no message for {STALL_SECONDS:.0f} s")
        self.log.sync()

    def close(self) -> None:
        """Close the engines of idle workers, and stop all workers."""
        closing = [slot.worker.close.remote() for slot in self.slots if slot.ready]
        if closing:
            self.ray.wait(closing, num_returns=len(closing), timeout=CLOSE_SECONDS)
        for slot in self.slots:
            self._end(slot)

    def _wait(self, streams: list[Any]) -> list[Any]:
        """Return the streams with messages; empty after POLL_SECONDS."""
        try:
            ready, _ = self.ray.wait(streams, num_returns=1, timeout=POLL_SECONDS)
        except SystemError as error:
            # Ray wraps exceptions that signal handlers raise while it waits
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
        return list(ready)

    def _start(self, slot: WorkerSlot) -> None:
        """Start a worker; it sends Ready once it has an engine."""
        actor = self.ray.remote(Worker)
        requirements = resources(slot.config, self.gpus)
        slot.worker = actor.options(max_restarts=0, **requirements).remote(
            slot.config, self.setup, slot.number
        )
        slot.label, slot.batch_size = f"worker {slot.number}", 0
        slot.last_message_at = time.monotonic()
        slot.stream = slot.worker.begin.options(num_returns="streaming").remote()

    def _dispatch(self, slot: WorkerSlot, working: Sequence[WorkerSlot]) -> None:
        """Send the next scenes to an idle worker, if any are left."""
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
        images = {
            file: image_path(self.log.path, file).read_bytes()
            for file, digest in files.items()
            if self.log.images.is_saved(file, digest)
        }
        batch = TaskBatch([(state.question, state.turns) for state in states], images)
        logger.info("%s gets %s", slot.label, ", ".join(slot.scenes))
        self.observer.on_phase_start(self._phase(states[0]), states)
        slot.last_message_at = time.monotonic()
        slot.stream = slot.worker.play.options(num_returns="streaming").remote(batch)

    def _take(self, slot: WorkerSlot, working: Sequence[WorkerSlot]) -> list[str]:
        """Take scenes off the queue: largest first, fewer at a time towards the end."""
        if not self.fresh:
            return [self.returned.pop(0)] if self.returned else []
        free = sum(not other.scenes for other in working)
        remaining = sum(len(self._active(scene)) for scene in (*self.fresh, *self.returned))
        target = worker_share(remaining, slot.batch_size, len(working), free)
        scenes = [self.fresh.pop(0)]
        count = len(self._active(scenes[0]))
        while self.fresh and count + len(self._active(self.fresh[0])) <= target:
            scenes.append(self.fresh.pop(0))
            count += len(self._active(scenes[-1]))
        return scenes

    def _hear(self, slot: WorkerSlot) -> None:
        """Handle the next messages of a worker, or the end of its task or process."""
        errors = self.ray.exceptions
        try:
            messages = self.ray.get(next(slot.stream))
        except StopIteration:
            slot.stream, slot.scenes = None, []
        except errors.RayTaskError:
            raise  # a bug
        except errors.RayError as error:
            self._restart(slot, reason_of(error))
        else:
            slot.last_message_at = time.monotonic()
            for message in messages:
                self._handle(slot, message)
            self.log.sync()
            failure = next((sent for sent in messages if isinstance(sent, RenderAgentError)), None)
            if isinstance(failure, EngineError):
                self._close(slot, failure)
            elif failure is not None:  # would stop every worker
                raise failure

    def _handle(self, slot: WorkerSlot, message: Message) -> None:
        match message:
            case Drawn(file, png):
                self.log.images.store(file, png)
            case Turn():
                state = self.states[message.question_id]
                self.log.append(message)
                state.take(message)
                slot.deaths = 0
                self.failures.reset()
                self.observer.on_turn(state, message)
            case Failure():
                self._fail(message)
                question = self.states[message.question_id].question
                self.failures.add(question, message.error, of_scene=message.of_scene)
            case logging.LogRecord():
                logging.getLogger(message.name).handle(message)
            case Ready(batch_size, process, machine, start_check):
                self.log.add_start_check(start_check)
                slot.batch_size = batch_size
                slot.label = f"worker {slot.number} (process {process} on {machine})"
                logger.info("%s is ready", slot.label)
            case RenderAgentError():  # handled by `_hear`, after earlier messages
                pass

    def _fail(self, failure: Failure) -> None:
        state = self.states[failure.question_id]
        state.fail(failure.error, failure.events, failure.tokens)
        self.log.append(failure)
        self.observer.on_failure(state)

    def _close(self, slot: WorkerSlot, error: RenderAgentError) -> None:
        """Close a slot whose engine failed. Other workers get its scenes."""
        logger.warning("%s is closed: %s", slot.label, error)
        self.last_error = error
        self.returned += filter(self._active, slot.scenes)
        self._end(slot)

    def _restart(self, slot: WorkerSlot, reason: str) -> None:
        """Restart a dead worker. Return its scenes to the queue, or fail scenes that have killed a worker before."""
        logger.warning("%s died: %s", slot.label, reason)
        self.last_error = EngineError(
            f"all workers died, most recently {slot.label}. See run.log; fewer --workers leave more memory for each."
        )
        for scene in filter(self._active, slot.scenes):
            self.scene_deaths[scene] += 1
            if self.scene_deaths[scene] < MAX_SCENE_DEATHS:
                self.returned.append(scene)
                continue
            error = (
                f"{MAX_SCENE_DEATHS} workers died with the scene {scene}. See run.log, then resume with --continue"
                " --workers 1."
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
        max_batched_turns = self.slots[0].config.max_batched_turns
        return "batched" if len(state.turns) < max_batched_turns else "finishing"


def worker_share(questions: int, batch_size: int, workers: int, free: int) -> int:
    """Return the number of questions for an idle worker: half its share, in full batches if possible.

    It is less than a batch only if other idle workers would otherwise get nothing, and at most MAX_BATCHES_PER_TASK
    batches.
    """
    half = ceil(questions / (2 * workers))
    full_batch = min(batch_size, ceil(questions / free))
    return min(max(half, full_batch), MAX_BATCHES_PER_TASK * batch_size)


def dispatch(
    config: RunConfig,
    states: Sequence[QuestionState],
    log: RunLog,
    observer: Observer,
    make_engine: EngineFactory,
    play: Play,
    digests: Mapping[str, Any],
) -> None:
    """Run all active questions to completion in worker processes. Raises RunStoppedError."""
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
            digests,
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
    """Return the options of each worker: those of the run, with one device each if devices are specified."""
    # the driver counts the failures of all workers
    single = replace(config, workers=1, devices=(), ray=None, max_failures="100%")
    if config.devices:
        # On a cluster, a worker sees only its own GPUs, numbered from 0.
        devices = [
            "cuda:0" if config.ray and device.startswith("cuda") else device
            for device in config.devices
        ]
        return [replace(single, device=device) for device in devices]
    return [single] * config.workers
