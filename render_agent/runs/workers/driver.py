"""The driver: dispatches scenes to worker processes, logs their turns, and replaces workers that die."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import psutil

from render_agent.config import RunConfig
from render_agent.dialogue.state import Phase, QuestionState
from render_agent.engines.registry import MakeEngine
from render_agent.errors import EngineError, RenderAgentError
from render_agent.runs.failures import Failures
from render_agent.runs.log.folder import RunLog
from render_agent.runs.log.lines import Failed
from render_agent.runs.phase_controller import Observer
from render_agent.runs.workers.cluster import cluster, own_raylets, resources
from render_agent.runs.workers.scene_queue import (
    MAX_DEATHS_IN_A_ROW,
    MAX_DEATHS_PER_SCENE,
    SceneQueue,
)
from render_agent.runs.workers.worker import (
    Drawn,
    Message,
    Play,
    Ready,
    Setup,
    TaskBatch,
    Took,
    Worker,
)
from render_agent.system.contained_paths import picture_path
from render_agent.text.reasons import reason_of

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds after which the driver stops waiting for workers, to wait again."""

CLOSE_SECONDS = 10.0
"""Seconds that a worker gets for giving its engine back at the end."""

MIN_SILENT_SECONDS = 120.0
MAX_SILENT_TIMES = 10
UNLEARNED_SILENT_SECONDS = 3600.0
"""A worker that was silent for so long is given up: so many times what any took for as much, not less than the first.

The third is for what none of the run has done yet.
"""

RAY_KILLED = (
    "Ray's own process on this machine, its raylet, was killed (by the system for want of memory, as a rule: fewer"
    " --workers need less); nothing that was logged is lost, go on with --continue"
)


@dataclass(eq=False)
class WorkerSlot:
    """Where one worker after another works: the next takes the place of one that died.

    stream: what the present worker tells of its present task. scenes: those that it has. deaths:
    how many died here in a row without a turn.  process: its number where it runs on this machine. silent: for how
    many seconds it has told of no turn.
    """

    number: int
    config: RunConfig
    worker: Any = None
    stream: Any = None
    scenes: list[str] = field(default_factory=list)
    batch_size: int = 0
    deaths: int = 0
    label: str = ""
    process: int | None = None
    silent: float = 0.0

    @property
    def ready(self) -> bool:
        """Whether its worker has an engine and nothing to do."""
        return self.worker is not None and self.stream is None and self.batch_size > 0

    @property
    def deed(self) -> str:
        """What it is waited for to do."""
        return "turn" if self.batch_size else "beginning"


class Driver:
    """Owns the log, the states and the workers; nothing else writes any of them."""

    def __init__(
        self,
        ray: Any,
        configs: Sequence[RunConfig],
        setup: Setup,
        states: Sequence[QuestionState],
        log: RunLog,
        observer: Observer,
        gpus: float | None,
        most: str,
    ) -> None:
        self.ray = ray
        self.setup = ray.put(setup)
        self.log = log
        self.observer = observer
        self.states = {state.id: state for state in states}
        self.lacking = {state.id for state in states if not state.active and self._lacks(state)}
        self.by_scene: dict[str, list[QuestionState]] = {}
        for state in states:
            self.by_scene.setdefault(state.question.scene, []).append(state)
        scenes = [scene for scene in self.by_scene if self._work(scene)]
        self.queue = SceneQueue(scenes, lambda scene: len(self._work(scene)))
        active = [state.question for state in states if state.active]
        self.failures = Failures(most, active)
        self.slots = [WorkerSlot(number, config) for number, config in enumerate(configs)]
        self.gpus = gpus
        self.raylets = own_raylets()
        self.last_error: RenderAgentError = EngineError("no worker could be started")
        self.longest: dict[str, float] = {}

    def run(self) -> None:
        """Dispatch until every question is at its end. EngineError or RunStoppedError where no worker is left."""
        for slot in self.slots:
            self._start(slot)
        while self.queue or any(slot.scenes for slot in self.slots):
            open_slots = [slot for slot in self.slots if slot.worker is not None]
            if not open_slots:
                raise self.last_error
            for slot in open_slots:
                if slot.ready:
                    self._dispatch(slot, open_slots)
            streams = {slot.stream: slot for slot in open_slots if slot.stream is not None}
            began = time.monotonic()
            for stream in self._wait(list(streams)):
                self._hear(streams[stream])
            if not all(map(_alive, self.raylets)):
                raise EngineError(RAY_KILLED)
            # no more than was waited for: this process may have been stopped itself
            waited = min(time.monotonic() - began, 2 * POLL_SECONDS)
            for slot in streams.values():
                slot.silent += waited
                if slot.stream is not None and self._stuck(slot):
                    self._give_up(slot)
        self.log.sync()

    def _wait(self, streams: Sequence[Any]) -> Sequence[Any]:
        """Return those of the workers' streams that tell something, after a while none."""
        try:
            ready, _ = self.ray.wait([*streams], num_returns=1, timeout=POLL_SECONDS)
        except SystemError as error:
            # Ray covers what a signal's handler raised as its wait came to its end
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
        return list(ready)

    def _stuck(self, slot: WorkerSlot) -> bool:
        """Whether a worker has told nothing for longer than the run's other turns, or beginnings, let expect."""
        learned = self.longest.get(slot.deed)
        most = (
            UNLEARNED_SILENT_SECONDS
            if learned is None
            else max(MIN_SILENT_SECONDS, MAX_SILENT_TIMES * learned)
        )
        return slot.silent > most and not self.ray.wait([slot.stream], timeout=0)[0]

    def _give_up(self, slot: WorkerSlot) -> None:
        """End a worker that tells nothing more, as if it had died: another one gets its scenes."""
        logger.warning("%s is ended: it told of no turn for %d s", slot.label, slot.silent)
        if slot.process is not None:
            # Ray only asks it to end, and one that is stopped does not hear.
            with suppress(OSError):
                os.kill(slot.process, signal.SIGKILL)
        self._died(slot)

    def _heard(self, slot: WorkerSlot) -> None:
        """Learn how long a worker may be silent."""
        self.longest[slot.deed] = max(slot.silent, self.longest.get(slot.deed, 0.0))
        slot.silent = 0.0

    def close(self) -> None:
        """Send the workers home: those with nothing to do orderly, the others at once."""
        if not all(map(_alive, self.raylets)):
            return  # there is nobody who would send them
        leaving = [slot.worker.close.remote() for slot in self.slots if slot.ready]
        if leaving:
            self.ray.wait(leaving, num_returns=len(leaving), timeout=CLOSE_SECONDS)
        for slot in self.slots:
            self._dismiss(slot)

    def _start(self, slot: WorkerSlot) -> None:
        """Begin a worker; it tells when it is ready."""
        actor = self.ray.remote(Worker)
        needs = resources(slot.config, self.gpus)
        slot.worker = actor.options(max_restarts=0, **needs).remote(
            slot.config, self.setup, slot.number
        )
        slot.label = f"worker {slot.number}"
        slot.batch_size, slot.process, slot.silent = 0, None, 0.0
        slot.stream = slot.worker.begin.options(num_returns="streaming").remote()

    def _dispatch(self, slot: WorkerSlot, slots: Sequence[WorkerSlot]) -> None:
        """Give the next scenes to a free worker, if there are any for it."""
        free = sum(not other.scenes for other in slots)
        numbers = [other.number for other in slots]
        slot.scenes = self.queue.take(slot.number, slot.batch_size, numbers, free)
        states = [state for scene in slot.scenes for state in self._work(scene)]
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
        slot.silent = 0.0
        if active := [state for state in states if state.active]:
            self.observer.began(self._phase(active[0]), active)
        slot.stream = slot.worker.play.options(num_returns="streaming").remote(batch)

    def _hear(self, slot: WorkerSlot) -> None:
        """Write down the next that a worker tells, and learn whether it is done or dead."""
        errors = self.ray.exceptions
        try:
            messages = self.ray.get(next(slot.stream))
        except StopIteration:
            slot.stream = None
            self._done(slot.scenes)
            slot.scenes = []
        except errors.RayTaskError:
            raise  # a fault of the program
        except errors.RayError as error:
            logger.warning("%s died: %s", slot.label, reason_of(error))
            self._died(slot)
        else:
            for message in messages:
                if slot.worker is not None or isinstance(message, logging.LogRecord):
                    self._take(slot, message)
            self.log.sync()
            stopped = [message for message in messages if isinstance(message, RenderAgentError)]
            if stopped and slot.worker is not None:
                if not isinstance(stopped[0], EngineError):  # no other worker can mend it
                    raise stopped[0]
                self._close(slot, stopped[0])

    def _take(self, slot: WorkerSlot, message: Message) -> None:
        match message:
            case Drawn(file, png):
                self.log.pictures.store(file, png)
            case Took(question_id, turn):
                state = self.states[question_id]
                self.log.append(question_id, turn)
                state.take(turn)
                slot.deaths = 0
                self._heard(slot)
                self.failures.went_on()
                self.observer.took(state, turn)
            case Failed():
                self._heard(slot)
                state, reason = self.states[message.question_id], message.error or ""
                state.fail(reason, message.events)
                self._write(message)
                self.failures.failed(state.question, reason, of_scene=message.of_scene)
            case logging.LogRecord():
                logging.getLogger(message.name).handle(message)
            case Ready(batch_size, process, machine):
                self._heard(slot)
                slot.batch_size = batch_size
                own = self.gpus is None and machine == platform.node()
                slot.process = process if own else None
                slot.label = f"worker {slot.number} (process {process} on {machine})"
                logger.info("%s is ready", slot.label)
            case RenderAgentError():  # what it stops is seen to where it was heard
                pass

    def _close(self, slot: WorkerSlot, error: RenderAgentError) -> None:
        """Dismiss a worker for good whose engine is to blame, and not what it was asked."""
        logger.warning("%s is closed: %s", slot.label, error)
        self.last_error = error
        scenes, slot.scenes = slot.scenes, []
        self._dismiss(slot)
        self.queue.put_back(scenes)

    def _died(self, slot: WorkerSlot) -> None:
        """Take back the scenes of a dead worker and begin another in its slot."""
        slot.deaths += 1
        self.last_error = EngineError(
            f"every worker died, the last one was {slot.label}: run.log says what is known of it; with"
            " fewer --workers each has more memory"
        )
        most = MAX_DEATHS_IN_A_ROW if slot.scenes else MAX_DEATHS_PER_SCENE
        if self._lost(slot):
            slot.deaths = 0  # the scene was to blame, not the slot
        if slot.deaths < most and self.queue:
            self._start(slot)

    def _lost(self, slot: WorkerSlot) -> list[str]:
        """Dismiss a worker and take its scenes back; return the scenes that are given up."""
        self._dismiss(slot)
        self._done(slot.scenes)
        given_up = self.queue.give_back(slot.number, slot.scenes)
        slot.scenes = []
        for scene in given_up:
            for state in self._work(scene):
                error = (
                    f"{MAX_DEATHS_PER_SCENE} workers died with the scene {scene} in hand: see run.log, and try"
                    " it again with --continue and --workers 1"
                )
                state.fail(error)
                self._write(Failed(state.id, len(state.turns), self._phase(state), error))
        return given_up

    def _dismiss(self, slot: WorkerSlot) -> None:
        if slot.worker is not None:
            self.ray.kill(slot.worker)
        slot.worker = slot.stream = None

    def _done(self, scenes: Sequence[str]) -> None:
        self.lacking -= {state.id for scene in scenes for state in self.by_scene[scene]}

    def _write(self, failed: Failed) -> None:
        self.log.append_error(failed)
        self.observer.failed(self.states[failed.question_id])

    def _phase(self, state: QuestionState) -> Phase:
        batched = self.slots[0].config.max_batched_turns
        return "batched" if len(state.turns) < batched else "finishing"

    def _work(self, scene: str) -> list[QuestionState]:
        """Return the questions of a scene that a worker has something to do for."""
        return [s for s in self.by_scene[scene] if s.active or s.id in self.lacking]

    def _lacks(self, state: QuestionState) -> bool:
        """Whether a picture that a question was shown is gone, torn or another."""
        return any(
            not self.log.pictures.there(view.file, turn.sha256.get(view.file))
            for turn in state.turns
            for view in turn.views
        )


def dispatch(
    config: RunConfig,
    states: Sequence[QuestionState],
    log: RunLog,
    observer: Observer,
    make_engine: MakeEngine,
    play: Play,
) -> None:
    """Take every active question to its end in the workers that the options ask for.

    make_engine, play: are called in the workers. SetupError where no worker can be set up,
    EngineError or RunStoppedError where none is left, RunLogError where the log cannot be written.
    """
    configs = worker_configs(config)
    scenes = {state.question.scene for state in states if state.active}
    configs = configs[: max(1, len(scenes))]
    with (
        _scratch(log.path) as scratch,
        cluster(config.ray, len(configs)) as ray,
    ):
        machines = sum(node["Alive"] for node in ray.nodes())
        setup = Setup(
            [state.question for state in states],
            make_engine,
            play,
            neighbours=ceil(len(configs) / machines),
            scratch=scratch,
        )
        gpus = ray.cluster_resources().get("GPU", 0) if config.ray else None
        driver = Driver(ray, configs, setup, states, log, observer, gpus, config.max_failures)
        try:
            driver.run()
        finally:
            driver.close()


@contextmanager
def _scratch(run: Path) -> Iterator[Path]:
    """Give a folder for the workers' files, removed at the end; what a killed driver left is removed too."""
    folder = Path(tempfile.gettempdir())
    name = f"render-agent-{hashlib.sha256(bytes(run.absolute())).hexdigest()[:12]}"
    for old in folder.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    scratch = folder / f"{name}-{secrets.token_hex(4)}"
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def worker_configs(config: RunConfig) -> list[RunConfig]:
    """Return the options of each worker: those of the run, with its device where devices are named."""
    # failures are counted here, where those of all workers are known
    alone = replace(config, workers=1, devices=(), ray=None, max_failures="100%")
    if config.devices:
        # On a cluster a worker sees its own GPUs only, and counts them from 0.
        named = [
            "cuda:0" if config.ray and device.startswith("cuda") else device
            for device in config.devices
        ]
        return [replace(alone, device=device) for device in named]
    return [alone] * config.workers
