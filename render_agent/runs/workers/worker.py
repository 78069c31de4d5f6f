"""The worker process: takes questions to their end with its own engine and renderer; also the messages between it
and the driver."""

from __future__ import annotations

import logging
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Turn
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import MakeEngine
from render_agent.errors import RenderAgentError
from render_agent.options import RunConfig
from render_agent.render.png import encode
from render_agent.runs.build import Parts, build
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.phase_controller import Observer, Silent
from render_agent.scans.cache import MAX_CACHE_BYTES, SceneCache
from render_agent.util.processes import cores
from render_agent.util.whole_files import write_whole
from render_agent.views.picture_store import Pictures


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """The questions of whole scenes, each with its turns so far, and the pictures of those turns.

    pictures: PNG bytes by file, relative to the run folder; what is not there is drawn again.
    """

    questions: Sequence[tuple[Question, Sequence[Turn]]]
    pictures: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has its engine: process `process` on the machine `machine`."""

    batch_size: int
    process: int
    machine: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A picture, as PNG; it is told before the turn that shows it."""

    file: str
    png: bytes


Message = Ready | Drawn | LogLine | logging.LogRecord | RenderAgentError
"""What a worker tells: last something for the driver's log, and why it cannot go on, its set-up or its engine."""

Send = Callable[[Message], None]

Play = Callable[[Parts, Engine, SceneCache, TurnLog, Observer, Sequence[QuestionState]], None]
"""Takes questions to their end with an engine, in this process. EngineError or RunLogError where that is impossible."""


@dataclass(frozen=True)
class Setup:
    """What every worker of a run is made of.

    questions: all of the run, since an engine may be built with them. neighbours: the workers that
    share a machine, this one included. scratch: a folder of this run alone.
    """

    questions: Sequence[Question]
    make_engine: MakeEngine
    play: Play
    neighbours: int
    scratch: Path


class Worker:
    """One process that runs batches of questions; made by Ray, on this machine or another.

    Its methods give lists of messages as they come.
    """

    def __init__(self, config: RunConfig, setup: Setup, number: int) -> None:
        threads = str(max(1, cores() // setup.neighbours))
        for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):  # read when the libraries are loaded
            os.environ[name] = threads
        self.config = config
        self.parts = build(config)
        self.setup = setup
        setup.scratch.mkdir(
            0o700, parents=True, exist_ok=True
        )  # pictures are nobody else's business
        self.folder = setup.scratch / str(number)
        self.scenes = self.parts.scenes(setup.questions, MAX_CACHE_BYTES // setup.neighbours)
        self._told: SimpleQueue[Message | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "worker")  # it owns the engine
        program = logging.getLogger("render_agent")
        program.setLevel(logging.DEBUG if config.verbose else logging.INFO)
        program.addHandler(_Forward(self._told.put))
        program.propagate = False

    def begin(self) -> Iterator[list[Message]]:
        """Make the engine."""
        yield from self._telling(self._begin)

    def play(self, batch: TaskBatch) -> Iterator[list[Message]]:
        """Take the questions of a batch to their end."""
        yield from self._telling(lambda: self._play(batch))

    def close(self) -> None:
        """Give the engine and the scratch folder back."""
        self._thread.submit(self.engine.close).result()
        self._clear()

    def _begin(self) -> None:
        self.engine = self.setup.make_engine(self.config, self.setup.questions)
        self._told.put(Ready(self.engine.batch_size, os.getpid(), platform.node()))

    def _play(self, batch: TaskBatch) -> None:
        self._clear()  # also what a worker that was killed left in the same place
        for file, png in batch.pictures.items():
            write_whole(self.folder / file, png, durable=False)
        config = self.config
        states = [
            QuestionState(
                question, self.scenes, config.max_turns, blind=self.parts.blind, turns=[*turns]
            )
            for question, turns in batch.questions
        ]
        log = ForwardingLog(self.folder, self._told.put)
        try:  # the driver's observer watches, by what is told
            self.setup.play(self.parts, self.engine, self.scenes, log, Silent(), states)
        finally:
            log.pictures.close()

    def _telling(self, work: Callable[[], None]) -> Iterator[list[Message]]:
        """Give what is told while `work` is done in the engine's thread, as much as there is at a time."""
        done = self._thread.submit(self._do, work)
        done.add_done_callback(lambda _: self._told.put(None))
        message = self._told.get()
        while message is not None:
            messages = [message]
            while not self._told.empty() and (message := self._told.get()) is not None:
                messages.append(message)
            yield messages
            if message is not None:
                message = self._told.get()
        done.result()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except RenderAgentError as error:
            self._told.put(error)

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class ForwardingPictures(Pictures):
    """Pictures that are also told to the driver; on disk here only while their questions are."""

    durable = False

    def __init__(self, folder: Path, send: Send) -> None:
        super().__init__(folder)
        self._send = send

    def _write(self, file: str, picture: NDArray[Any]) -> None:
        png = encode(picture)
        self.store(file, png)
        self._send(Drawn(file, png))


class ForwardingLog:
    """A log whose lines are told to the driver, in order."""

    def __init__(self, folder: Path, send: Send) -> None:
        self.pictures: Pictures = ForwardingPictures(folder, send)
        self._send = send

    def append(self, line: LogLine) -> None:
        """Send one line."""
        self._send(line)

    def sync(self) -> None:
        """The driver does it."""


class _Forward(QueueHandler):
    def __init__(self, send: Send) -> None:
        super().__init__(SimpleQueue())
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send(record)
