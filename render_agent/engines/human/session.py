"""Where requests lie until a person answers them; the engine and the page meet here."""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import dataclass, field
from threading import Condition

from render_agent.engines.base import Reply, Request


@dataclass(eq=False)
class Waiting:
    """One request on the desk. key: names this turn to the page. since: when a page first showed it."""

    request: Request
    key: str
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a sitting stands: the key of the turn to be answered, if any, what is done, whether it is over."""

    key: str | None
    turns: int
    questions: int
    over: bool


@dataclass(eq=False)
class Desk:
    """Requests in the order they came, and their replies; safe to use from several threads.

    The first waiting one is the one that is shown; it alone can be answered, and once.
    """

    _waiting: deque[Waiting] = field(default_factory=deque)
    _answered: deque[tuple[Request, Reply]] = field(default_factory=deque)
    _changed: Condition = field(default_factory=Condition)
    _sitting: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbered: int = 0
    _turns: int = 0
    _questions: int = 0
    _over: bool = False
    _known: bool = False
    _woken: bool = False
    _asked_about: float | None = None

    def put(self, request: Request) -> None:
        """Lay a request behind the others."""
        with self._changed:
            self._numbered += 1
            self._waiting.append(Waiting(request, f"{self._sitting}-{self._numbered}"))

    def first(self) -> Waiting | None:
        """Return what is to be answered now, for it to be shown; the person's time runs from the first time."""
        with self._changed:
            if not self._waiting:
                return None
            found = self._waiting[0]
            found.since = found.since or time.perf_counter()
            return found

    def answer(self, key: str, text: str) -> bool:
        """Take a person's reply to the turn that is shown; False where `key` names another turn."""
        with self._changed:
            if not self._waiting or self._waiting[0].key != key:
                return False
            done = self._waiting.popleft()
            seconds = time.perf_counter() - done.since if done.since else 0.0
            reply = Reply((text,) * done.request.samples, seconds=seconds)
            self._answered.append((done.request, reply))
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
            found = list(self._answered)
            self._answered.clear()
            return found

    def wake(self) -> None:
        """Have `answered` wait no longer, now or as it next waits."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def retire(self) -> None:
        """Count a question that asks no more."""
        with self._changed:
            self._questions += 1

    def standing(self) -> Standing:
        """Return where the sitting stands, as a page asks for it again and again."""
        with self._changed:
            self._asked_about = time.perf_counter()
            key = self._waiting[0].key if self._waiting and not self._over else None
            return Standing(key, self._turns, self._questions, self._over)

    def end(self, patience: float) -> None:
        """Say that the sitting is over, and wait up to `patience` seconds until an open page knows it."""
        with self._changed:
            self._over = True
            now = time.perf_counter()
            if self._asked_about is not None and now - self._asked_about < 2 * patience:
                self._changed.wait_for(lambda: self._known, patience)

    def known(self) -> None:
        """A page was told that the sitting is over."""
        with self._changed:
            self._known = True
            self._changed.notify_all()
