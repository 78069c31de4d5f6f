"""Asking until there is an answer: attempts, waits, and what each server is found to take."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from render_agent.engines.base import Request
from render_agent.engines.openai.http import Answered, Fault, Kind, call
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.rate_limit import Rate, back_off
from render_agent.engines.openai.requests import Answer, Asking
from render_agent.engines.openai.server_compat import Dialect, adapted, is_too_long
from render_agent.engines.openai.servers import Server, Servers

LOG = logging.getLogger(__name__)

UNREACHED = 3
"""Attempts to reach a server before its questions go to another."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One answer, how long it took, and how many requests were under way with it."""

    answer: Answer
    seconds: float
    together: int


@dataclass
class Attempts:
    """How often one request failed at its server, and what was mended on the way.

    fruitless: those that count towards giving up.
    """

    tried: int = 0
    fruitless: int = 0
    events: list[str] = field(default_factory=list)
    server: Server | None = None
    answered: int = 0

    def note(self, server: Server, fault: Fault) -> None:
        """Count a failure.

        A server that asks to wait while it answers others is not failing: there are more requests
        than it takes, and each of them gets its turn.
        """
        if server is not self.server:
            self.tried = self.fruitless = 0
        moving = server.answered > self.answered and fault.kind is Kind.BUSY
        self.tried += 1
        self.fruitless = 1 if moving else self.fruitless + 1
        self.server, self.answered = server, server.answered


class Asker:
    """Asks the servers of a run, a limited number of requests under way at once over all of them.

    Used within one event loop.
    """

    def __init__(self, model: str, servers: Servers, options: OpenAIOptions, limit: int) -> None:
        self.model = model
        self.servers = servers
        self.options = options
        self._slots = asyncio.Semaphore(limit)
        self._rate = Rate(options.rate_limit)
        self._running = 0

    async def ask(self, asking: Asking, attempts: Attempts) -> Exchange | str:
        """Return what a server answered, or in one sentence why none can. EngineError where all are lost."""
        while True:
            server = self.servers.of(asking.request.question_id)
            await server.pause.wait()
            async with self._slots:
                if server.lost is not None or not server.pause.over:
                    continue
                await self._rate.turn()
                dialect = server.dialect
                fields = asking.fields(dialect, self.options)
                self._running += 1
                together, began = self._running, time.perf_counter()
                try:
                    outcome = await call(
                        server.client,
                        server.endpoint,
                        self.model,
                        asking.messages,
                        fields,
                        self.options.timeout,
                    )
                finally:
                    self._running -= 1
            if isinstance(outcome, Answered):
                server.succeeded()
                if outcome.wait:
                    server.pause.extend(outcome.wait)
                return Exchange(outcome.answer, time.perf_counter() - began, together)
            if outcome.kind is Kind.REFUSED:
                failed = self._refused(server, outcome, dialect, fields)
            elif outcome.kind is Kind.BARRED:
                server.lose(outcome.reason)
                failed = None
            else:
                failed = await self._again(server, outcome, asking.request, attempts)
            if failed is not None:
                return failed

    def _refused(
        self, server: Server, fault: Fault, dialect: Dialect, sent: Mapping[str, Any]
    ) -> str | None:
        """Leave out the field that a server refuses; else return in one sentence what it refused."""
        change = adapted(dialect, sent, fault.param, fault.refusal)
        if change is not None:
            # Of those that were refused together, the first changes it for all.
            if server.dialect == dialect:
                server.dialect, told = change
                LOG.warning("%s: %s, so from now on %s", server.url, fault.reason, told)
            return None
        if not server.answered:
            server.failed(fault.reason)
        advice = ": lower --image-size or --max-turns" if is_too_long(fault.refusal) else ""
        return None if server.lost else f"{server.url} refused the request ({fault.reason}){advice}"

    async def _again(
        self, server: Server, fault: Fault, request: Request, attempts: Attempts
    ) -> str | None:
        """Wait until the request may be tried again; return in one sentence why it may not."""
        attempts.note(server, fault)
        LOG.warning(
            "%s, turn %d: %s (%s), attempt %d at %s",
            *(request.question_id, request.turn, fault.kind, fault.reason),
            *(attempts.tried, server.url),
        )
        unreached = fault.kind is Kind.UNREACHABLE
        most = self.options.retries
        if unreached and self.servers.others(server):
            most = min(most, UNREACHED)
        if attempts.fruitless > most:
            told = f"{fault.reason}, after {attempts.fruitless} attempts"
            if unreached:
                server.lose(told)
            else:
                server.failed(told)
            if server.lost is None:
                return f"{server.url} gave no answer ({told})"
        attempts.events.append("retried")
        wait = max(back_off(attempts.tried, self.options.first_wait), fault.wait or 0.0)
        if server.lost is not None:
            return None
        if unreached or fault.wait is not None or fault.kind is Kind.BUSY:
            server.pause.extend(wait)
        else:
            await asyncio.sleep(wait)
        return None
