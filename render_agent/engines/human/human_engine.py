"""The engine that asks a person instead of a model."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Condition
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Capabilities, Engine, Reply, Request, Workload
from render_agent.engines.make_engine import EngineMaker
from render_agent.extras import require
from render_agent.options import RunConfig

SHUTDOWN_DELAY_SECONDS = 2.0  # an open page, which polls every second, sees the end in time


class HumanEngine:
    """Shows requests on a local web page, one at a time, and returns what the person replies."""

    name = "human"
    capabilities = Capabilities(streaming=True, sequential=True, side_dialogues=False)
    batch_size = 1

    def __init__(
        self,
        questions: Sequence[Question],
        kinds: Sequence[str],
        max_turns: int,  # turns per question
        *,
        port: int = 0,
        name: str = "person",
    ) -> None:
        from render_agent.engines.human.page import PlayPage
        from render_agent.util.web.server import LocalServer

        self.questions = {question.id: question for question in questions}
        self.kinds, self.max_turns, self.player = tuple(kinds), max_turns, name
        self.calls = self.finished = 0
        self.over = False
        self._waiting: deque[Request] = deque()
        self._answered: deque[tuple[Request, Reply]] = deque()
        self._changed = Condition()
        self._session_id = secrets.token_hex(4)
        self._turns = 0
        self._shown_at: float | None = None
        self._page_opened = False
        self._woken = False
        self._server = LocalServer(port)
        self._server.start(PlayPage(self, self._server.token).routes())

    @property
    def address(self) -> str:
        """URL of the page."""
        return self._server.address

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        self.submit(requests)
        replies: list[Reply] = []
        while len(replies) < len(requests):
            replies += [reply for _, reply in self.ready()]
        return replies

    def submit(self, requests: Sequence[Request]) -> None:
        with self._changed:
            self._waiting.extend(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait for the person's reply and yield it; yield nothing after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered or self._woken or not self._waiting, timeout
            )
            self._woken = False
            answers = list(self._answered)
            self._answered.clear()
        self.calls += len(answers)
        yield from answers

    def wake(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def retire(self, dialogue_id: str) -> None:
        """Count a finished question."""
        self.finished += 1

    def close(self) -> None:
        """Tell an open page that the session is over, and stop serving it."""
        self.over = True
        if self._page_opened:
            time.sleep(SHUTDOWN_DELAY_SECONDS)
        self._server.close()

    def first(self) -> tuple[str, Request] | None:
        """Return the key of the current turn and its request; None if no request is waiting."""
        with self._changed:
            if not self._waiting or self.over:
                return None
            return f"{self._session_id}-{self._turns}", self._waiting[0]

    def show(self) -> tuple[str, Request] | None:
        """Return the same as `first`, and start measuring the reply time at the first call of a turn."""
        self._page_opened = True
        if (first := self.first()) is not None:
            self._shown_at = self._shown_at or time.perf_counter()
        return first

    def answer(self, key: str, text: str) -> bool:
        """Accept the reply to the current turn; return False if `key` belongs to another turn."""
        with self._changed:
            if not self._waiting or key != f"{self._session_id}-{self._turns}":
                return False
            request = self._waiting.popleft()
            seconds = 0.0 if self._shown_at is None else time.perf_counter() - self._shown_at
            self._answered.append((request, Reply((text,) * request.num_samples, seconds=seconds)))
            self._turns += 1
            self._shown_at = None
            self._changed.notify_all()
            return True


class Human(EngineMaker):
    """A person in the browser."""

    default_model = "person"
    uses_model = uses_server = loads_weights = has_options = False
    single_sample = True

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        """Serve the page and return the engine. Raises SetupError if the port is in use."""
        turns, name = config.max_turns, self.model_name(config)
        return HumanEngine(questions, workload.kinds, turns, port=config.port, name=name)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the name of the person. Raises SetupError if the port is in use."""
        require("--engine human", "starlette", "uvicorn")
        if config.port:  # fail before the run folder is created
            from render_agent.util.web.server import LocalServer

            LocalServer(config.port).close()
        return {"note": f"answered in the browser by: {self.model_name(config)}"}


HUMAN = Human()
