"""The driver: dispatches scenes to workers, writes down what they tell, replaces those that die."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.config import RunConfig
from render_agent.dialogue.state import Phase, QuestionState
from render_agent.errors import EngineError
from render_agent.runs.log.folder import RunLog
from render_agent.runs.phase_controller import Observer
from render_agent.runs.workers.cluster import resources
from render_agent.runs.workers.messages import (
    Drawn,
    Failed,
    Message,
    Noted,
    Ready,
    Stopped,
    TaskBatch,
    Took,
)
from render_agent.runs.workers.scene_queue import (
    MAX_DEATHS_IN_A_ROW,
    MAX_DEATHS_PER_SCENE,
    SceneQueue,
)
from render_agent.runs.workers.worker import Setup, Worker
from render_agent.system.contained_paths import picture_path

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
"""Seconds after which the driver stops waiting for workers, to wait again."""

CLOSE_SECONDS = 10.0
"""Seconds that a worker gets for giving its engine back at the end."""


@dataclass(eq=False)
class Place:
    """Where one worker after another works: the next takes the place of one that died.

    stream: what the present worker tells of its present task. scenes: those that it has. deaths:
    how many died here in a row without a turn.
    """

    number: int
    config: RunConfig
    worker: Any = None
    stream: Any = None
    scenes: list[str] = field(default_factory=list)
    batch_size: int = 0
    deaths: int = 0
    who: str = ""

    @property
    def ready(self) -> bool:
        """Whether its worker has an engine and nothing to do."""
        return self.worker is not None and self.stream is None and self.batch_size > 0


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
        self.places = [Place(number, config) for number, config in enumerate(configs)]
        self.gpus = gpus
        self.last_error = EngineError("no worker could be started")

    def run(self) -> None:
        """Dispatch until every question is at its end. EngineError where no worker is left."""
        for place in self.places:
            self._start(place)
        while self.queue or any(place.scenes for place in self.places):
            open_places = [place for place in self.places if place.worker is not None]
            if not open_places:
                raise self.last_error
            for place in open_places:
                if place.ready:
                    self._dispatch(place, open_places)
            streams = {place.stream: place for place in open_places if place.stream is not None}
            for stream in self._wait(list(streams)):
                self._hear(streams[stream])

    def _wait(self, streams: Sequence[Any]) -> Sequence[Any]:
        """Return those of the workers' streams that tell something, after a while none."""
        try:
            told, _ = self.ray.wait([*streams], num_returns=1, timeout=POLL_SECONDS)
        except SystemError as error:
            # Ray covers what a signal's handler raised as its wait came to its end
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None
        return list(told)

    def close(self) -> None:
        """Send the workers home: those with nothing to do orderly, the others at once."""
        leaving = [place.worker.close.remote() for place in self.places if place.ready]
        if leaving:
            self.ray.wait(leaving, num_returns=len(leaving), timeout=CLOSE_SECONDS)
        for place in self.places:
            self._dismiss(place)

    def _start(self, place: Place) -> None:
        """Begin a worker; it tells when it is ready."""
        actor = self.ray.remote(Worker)
        needs = resources(place.config, self.gpus)
        place.worker = actor.options(max_restarts=0, **needs).remote(
            place.config, self.setup, place.number
        )
        place.who = f"worker {place.number}"
        place.batch_size = 0
        place.stream = place.worker.begin.options(num_returns="streaming").remote()

    def _dispatch(self, place: Place, places: Sequence[Place]) -> None:
        """TaskBatch the next scenes to a free worker, if there are any for it."""
        free = sum(not other.scenes for other in places)
        numbers = [other.number for other in places]
        place.scenes = self.queue.take(place.number, place.batch_size, numbers, free)
        states = [state for scene in place.scenes for state in self._work(scene)]
        if not states:
            return
        files = {view.file for state in states for view in state.views}
        pictures = {
            file: picture_path(self.log.path, file).read_bytes()
            for file in files
            if self.log.pictures.there(file)
        }
        batch = TaskBatch([(state.question, state.turns) for state in states], pictures)
        logger.info("%s gets %s", place.who, ", ".join(place.scenes))
        if active := [state for state in states if state.active]:
            self.observer.began(self._phase(active[0]), active)
        place.stream = place.worker.play.options(num_returns="streaming").remote(batch)

    def _hear(self, place: Place) -> None:
        """Write down the next that a worker tells, and learn whether it is done or dead."""
        errors = self.ray.exceptions
        try:
            messages = self.ray.get(next(place.stream))
        except StopIteration:
            place.stream = None
            self._done(place.scenes)
            place.scenes = []
        except errors.RayTaskError:
            raise  # a fault of the program
        except errors.RayError as error:
            logger.warning("%s died: %s", place.who, " ".join(str(error).split()))
            self._died(place)
        else:
            stopped = [message for message in messages if isinstance(message, Stopped)]
            for message in messages:
                self._take(place, message)
            self.log.sync()
            if stopped:
                self._stopped(place, stopped[0])

    def _take(self, place: Place, message: Message) -> None:
        """Write one message down."""
        match message:
            case Drawn(file, png):
                self.log.pictures.store(file, png)
            case Took(question_id, turn):
                state = self.states[question_id]
                self.log.append(question_id, turn)
                state.take(turn)
                place.deaths = 0
                self.observer.took(state, turn)
            case Failed(question_id, turn, phase, error, events):
                self._fail(self.states[question_id], turn, phase, error, events)
            case Noted(record):
                logging.getLogger(record.name).handle(record)
            case Ready(batch_size, process, machine):
                place.batch_size = batch_size
                place.who = f"worker {place.number} (process {process} on {machine})"
                logger.info("%s is ready", place.who)
            case Stopped():
                pass

    def _stopped(self, place: Place, message: Stopped) -> None:
        """Close the place of a worker whose engine is gone; raise what no other worker can mend."""
        if not isinstance(message.error, EngineError):
            raise message.error
        logger.warning("%s stops: %s", place.who, message.error)
        self.last_error = message.error
        self._lost(place)

    def _died(self, place: Place) -> None:
        """Take back the scenes of a dead worker and begin another in its place."""
        place.deaths += 1
        self.last_error = EngineError(
            f"every worker died, the last one was {place.who}: run.log says what is known of it; with"
            " fewer --workers each has more memory"
        )
        most = MAX_DEATHS_IN_A_ROW if place.scenes else MAX_DEATHS_PER_SCENE
        if self._lost(place):
            place.deaths = 0  # the scene was to blame, not the place
        if place.deaths < most and self.queue:
            self._start(place)

    def _lost(self, place: Place) -> list[str]:
        """Dismiss a worker and take its scenes back; return the scenes that are given up."""
        self._dismiss(place)
        self.lacking -= {state.id for scene in place.scenes for state in self.by_scene[scene]}
        given_up = self.queue.give_back(place.number, place.scenes)
        place.scenes = []
        for scene in given_up:
            for state in self._work(scene):
                self._fail(
                    state,
                    len(state.turns),
                    self._phase(state),
                    f"{MAX_DEATHS_PER_SCENE} workers died with the scene {scene} in hand: see run.log, and try"
                    " it again with --continue and --workers 1",
                )
        return given_up

    def _dismiss(self, place: Place) -> None:
        if place.worker is not None:
            self.ray.kill(place.worker)
        place.worker = place.stream = None

    def _done(self, scenes: Sequence[str]) -> None:
        self.lacking -= {state.id for scene in scenes for state in self.by_scene[scene]}

    def _fail(
        self,
        state: QuestionState,
        turn: int,
        phase: Phase,
        error: str,
        events: Sequence[str] = (),
    ) -> None:
        self.log.append_error(state.id, turn, phase, error, events)
        state.fail(error, events)
        self.observer.failed(state)

    def _phase(self, state: QuestionState) -> Phase:
        batched = self.places[0].config.max_batched_turns
        return "batched" if len(state.turns) < batched else "finishing"

    def _work(self, scene: str) -> list[QuestionState]:
        """Return the questions of a scene that a worker has something to do for."""
        return [s for s in self.by_scene[scene] if s.active or s.id in self.lacking]

    def _lacks(self, state: QuestionState) -> bool:
        """Whether a picture that a question was shown is gone."""
        return any(not self.log.pictures.there(view.file) for view in state.views)
