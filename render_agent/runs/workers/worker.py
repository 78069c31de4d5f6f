"""The worker process, which runs questions with its own engine and renderer, and its messages to the driver."""

from __future__ import annotations

import logging
import os
import platform
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import LogLine, Turn
from render_agent.engines.engine import Engine
from render_agent.engines.make_engine import EngineFactory
from render_agent.errors import RenderAgentError
from render_agent.options import RunConfig
from render_agent.render.png import encode_png
from render_agent.runs.build import Parts, build
from render_agent.runs.log.writer import TurnLog
from render_agent.runs.phase_controller import NullObserver, Observer
from render_agent.scans.cache import MAX_CACHE_BYTES, SceneCache
from render_agent.util.atomic_files import RESUME, atomic_write
from render_agent.util.processes import count_cores
from render_agent.views.image_store import ImageStore


@dataclass(frozen=True, slots=True)
class TaskBatch:
    """The questions of whole scenes with their turns so far, and the images of those turns."""

    questions: Sequence[tuple[Question, Sequence[Turn]]]
    images: Mapping[str, bytes]
    """PNG data by path relative to the run folder. Missing images are rendered again."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Sent when a worker has an engine, with its process id and host name."""

    batch_size: int
    process: int
    machine: str
    start_check: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """An image as PNG, sent before the turn that shows it."""

    file: str
    png: bytes


# messages from a worker; an error says why its setup or engine failed
Message = Ready | Drawn | LogLine | logging.LogRecord | RenderAgentError

Send = Callable[[Message], None]

# runs questions to completion in this process; raises EngineError or RunLogError
Play = Callable[[Parts, Engine, SceneCache, TurnLog, Observer, Sequence[QuestionState]], None]


@dataclass(frozen=True)
class Setup:
    """Settings shared by all workers of a run."""

    questions: Sequence[Question]
    """All questions of the run; engines may depend on them."""
    recorded: Mapping[str, Any]
    """SHA-256 of the inputs of the run."""
    make_engine: EngineFactory
    play: Play
    neighbours: int
    """Workers on the same machine, including this one."""
    scratch: Path
    """Temporary folder of this run."""


class Worker:
    """A process that runs batches of questions, created by Ray on this or another machine.

    Its methods yield lists of messages as they arrive.
    """

    def __init__(self, config: RunConfig, setup: Setup, number: int) -> None:
        threads = str(max(1, count_cores() // setup.neighbours))
        # Read when the libraries are imported.
        for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = threads
        self.config = config
        self.parts = replace(build(config), recorded=setup.recorded)
        self.setup = setup
        setup.scratch.mkdir(0o700, parents=True, exist_ok=True)  # images are private
        self.folder = setup.scratch / str(number)
        self.scenes = self.parts.scenes(setup.questions, MAX_CACHE_BYTES // setup.neighbours)
        self._messages: SimpleQueue[Message | None] = SimpleQueue()
        self._thread = ThreadPoolExecutor(1, "worker")  # the thread that owns the engine
        program = logging.getLogger("render_agent")
        program.setLevel(logging.DEBUG if config.verbose else logging.INFO)
        program.addHandler(_Forward(self._messages.put))
        program.propagate = False

    def begin(self) -> Iterator[list[Message]]:
        yield from self._stream(self._begin)

    def play(self, batch: TaskBatch) -> Iterator[list[Message]]:
        yield from self._stream(lambda: self._play(batch))

    def close(self) -> None:
        """Close the engine and delete the scratch folder."""
        self._thread.submit(self.engine.close).result()
        self._clear()

    def _begin(self) -> None:
        self.engine = self.setup.make_engine(self.config, self.setup.questions)
        check = getattr(self.engine, "start_check", None)
        ready = Ready(self.engine.batch_size, os.getpid(), platform.node(), check)
        self._messages.put(ready)

    def _play(self, batch: TaskBatch) -> None:
        self._clear()  # also removes the files of a worker that was killed in this slot
        for file, png in batch.images.items():
            atomic_write(self.folder / file, png, durable=False, remedy=RESUME)
        states = [
            self.parts.state(question, self.scenes, turns) for question, turns in batch.questions
        ]
        log = ForwardingLog(self.folder, self._messages.put)
        try:  # the driver's observer receives the forwarded lines
            self.setup.play(self.parts, self.engine, self.scenes, log, NullObserver(), states)
        finally:
            log.images.close()

    def _stream(self, work: Callable[[], None]) -> Iterator[list[Message]]:
        """Yield messages in batches while `work` runs in the engine's thread."""
        future = self._thread.submit(self._do, work)
        future.add_done_callback(lambda _: self._messages.put(None))
        message = self._messages.get()
        while message is not None:
            messages = [message]
            while not self._messages.empty() and (message := self._messages.get()) is not None:
                messages.append(message)
            yield messages
            if message is not None:
                message = self._messages.get()
        future.result()

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except RenderAgentError as error:
            self._messages.put(error)

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class ForwardingImages(ImageStore):
    """Image store that also sends images to the driver; local files are temporary."""

    durable = False

    def __init__(self, folder: Path, send: Send) -> None:
        super().__init__(folder)
        self._send = send

    def _write(self, file: str, image: NDArray[Any]) -> None:
        png = encode_png(image)
        self.store(file, png)
        self._send(Drawn(file, png))


class ForwardingLog:
    """Log that sends lines to the driver, in order."""

    def __init__(self, folder: Path, send: Send) -> None:
        self.images: ImageStore = ForwardingImages(folder, send)
        self._send = send

    def append(self, line: LogLine) -> None:
        self._send(line)

    def sync(self) -> None:
        """Do nothing; the driver syncs."""


class _Forward(QueueHandler):
    def __init__(self, send: Send) -> None:
        super().__init__(SimpleQueue())
        self._send = send

    def enqueue(self, record: logging.LogRecord) -> None:
        self._send(record)
