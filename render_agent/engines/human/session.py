"""The queue of requests that wait for a person, shared by the engine and the page."""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from threading import Condition

from render_agent.engines.base import Reply, Request


@dataclass(eq=False)
class PendingRequest:
    """One request that waits. key: names this turn to the page. since: when a page first showed it."""

    request: Request
    key: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The state of a sitting: the key of the turn to be answered, if any, the counts of what is done, and whether it is over.

    last: the id of the question that was finished last.
    """

    key: str | None
    turns: int
    questions: int
    over: bool
    last: str | None = None


@dataclass(eq=False)
class HumanSession:
    """Requests in the order they came, and their replies; safe to use from several threads.

    The first waiting one is the one that is shown; it alone can be answered, and once.
    """

    _waiting: deque[PendingRequest] = field(default_factory=deque)
    _answered: deque[tuple[Request, Reply]] = field(default_factory=deque)
    _changed: Condition = field(default_factory=Condition)
    _sitting: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbered: int = 0
    _turns: int = 0
    _questions: int = 0
    _last: str | None = None
    _over: bool = False
    _known: bool = False
    _woken: bool = False
    _polled_at: float | None = None

    def put(self, request: Request) -> None:
        """Put a request behind the others."""
        with self._changed:
            self._numbered += 1
            self._waiting.append(PendingRequest(request, f"{self._sitting}-{self._numbered}"))

    def first(self) -> PendingRequest | None:
        """Return the request that is to be answered now; the person's time runs from the first such call."""
        with self._changed:
            if not self._waiting:
                return None
            pending = self._waiting[0]
            pending.since = pending.since or time.perf_counter()
            return pending

    def answer(self, key: str, text: str) -> bool:
        """Take a person's reply to the turn that is shown; False where `key` names another turn."""
        with self._changed:
            if not self._waiting or self._waiting[0].key != key:
                return False
            pending = self._waiting.popleft()
            elapsed = time.perf_counter() - pending.since if pending.since else 0.0
            reply = Reply((text,) * pending.request.samples, seconds=elapsed)
            self._answered.append((pending.request, reply))
            self._turns += 1
            self._changed.notify_all()
            return True

    def answered(self, timeout: float | None) -> list[tuple[Request, Reply]]:
        """Wait for replies and return them; none after `timeout` seconds, or where nothing waits."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._answered or self._woken or not self._waiting, timeout
            )
            self._woken = False
            answered = list(self._answered)
            self._answered.clear()
            return answered

    def wake(self) -> None:
        """Have `answered` wait no longer, now or as it next waits."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def retire(self, question_id: str) -> None:
        """Count a question that asks no more."""
        with self._changed:
            self._questions += 1
            self._last = question_id

    def standing(self) -> SessionStatus:
        """Return where the sitting stands, as a page asks for it again and again."""
        with self._changed:
            self._polled_at = time.perf_counter()
            key = self._waiting[0].key if self._waiting and not self._over else None
            return SessionStatus(key, self._turns, self._questions, self._over, self._last)

    def end(self, seconds: float) -> None:
        """Say that the sitting is over, and wait up to so many seconds until an open page has been told."""
        with self._changed:
            self._over = True
            now = time.perf_counter()
            if self._polled_at is not None and now - self._polled_at < 2 * seconds:
                self._changed.wait_for(lambda: self._known, seconds)

    def known(self) -> None:
        """Note that an open page has learnt that the sitting is over."""
        with self._changed:
            self._known = True
            self._changed.notify_all()
