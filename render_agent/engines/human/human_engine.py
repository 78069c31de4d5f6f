"""The engine that asks a person."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Condition

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Capabilities, Reply, Request

FAREWELL_SECONDS = 2.0
"""Seconds that the page is served after the end; an open page asks every second where it stands."""


class HumanEngine:
    """Shows requests on a page of this machine, one at a time, and replies what is typed there.

    kinds: the kinds of view that may be requested; without any a reply has no moves. port: of the page, 0
    for any that is free. name: who plays. SetupError if the port is taken.
    """

    name = "human"
    capabilities = Capabilities(free_running=True, one_dialogue=True, probes=False)
    batch_size = 1

    def __init__(
        self,
        questions: Sequence[Question],
        kinds: Sequence[str],
        max_turns: int,
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
        self._run = secrets.token_hex(4)
        self._turns = 0
        self._since: float | None = None
        self._seen = False
        self._woken = False
        self._server = LocalServer(port)
        self._server.start(PlayPage(self, self._server.token).routes())

    @property
    def address(self) -> str:
        """Where the page is."""
        return self._server.address

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order; they are asked in that order too."""
        self.submit(requests)
        replies: list[Reply] = []
        while len(replies) < len(requests):
            replies += [reply for _, reply in self.ready()]
        return replies

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        with self._changed:
            self._waiting.extend(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait until the person has replied and give that; nothing after `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered or self._woken or not self._waiting, timeout
            )
            self._woken = False
            answered = list(self._answered)
            self._answered.clear()
        self.calls += len(answered)
        yield from answered

    def wake(self) -> None:
        """Have `ready` wait no longer, now or as it next waits."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def retire(self, question_id: str) -> None:
        """Count a question that asks no more."""
        self.finished += 1

    def close(self) -> None:
        """Tell an open page that the sitting is over, and stop serving it."""
        self.over = True
        if self._seen:
            time.sleep(FAREWELL_SECONDS)
        self._server.close()

    def first(self) -> tuple[str, Request] | None:
        """Return the request to be answered now, and the key of its turn; None if there is none."""
        with self._changed:
            if not self._waiting or self.over:
                return None
            return f"{self._run}-{self._turns}", self._waiting[0]

    def show(self) -> tuple[str, Request] | None:
        """Return the same as `first`; the person's time runs from the first such call of a turn."""
        self._seen = True
        if (first := self.first()) is not None:
            self._since = self._since or time.perf_counter()
        return first

    def answer(self, key: str, text: str) -> bool:
        """Take a person's reply to the turn that is shown; return False if `key` names another turn."""
        with self._changed:
            if not self._waiting or key != f"{self._run}-{self._turns}":
                return False
            request = self._waiting.popleft()
            elapsed = 0.0 if self._since is None else time.perf_counter() - self._since
            self._answered.append((request, Reply((text,) * request.samples, seconds=elapsed)))
            self._turns += 1
            self._since = None
            self._changed.notify_all()
            return True
