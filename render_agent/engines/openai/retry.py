"""Retries: a request is sent until it is answered, with waits, at other servers, without fields that one refuses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from render_agent.engines.base import Reply, Request, reply_bytes
from render_agent.engines.openai.chat_format import ChatRequest
from render_agent.engines.openai.client import FaultKind, ServerFault
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.rate_limit import backoff
from render_agent.engines.openai.server_compat import ServerDialect, adapted, is_too_long
from render_agent.engines.openai.servers import Server, Servers
from render_agent.text.display import tell

if TYPE_CHECKING:
    from tenacity import RetryCallState

LOG = logging.getLogger(__name__)

MAX_UNREACHED_ATTEMPTS = 3
"""Attempts to reach a server before its questions go to another."""


class RequestFailed(Exception):
    """In one sentence why a request has no answer, while others may have theirs."""


class Sender:
    """Sends requests to the servers of a run, a limited number under way at once over all of them.

    Used within one event loop.
    """

    def __init__(self, model: str, servers: Servers, options: OpenAIOptions, limit: int) -> None:
        from aiolimiter import AsyncLimiter

        self.model = model
        self.servers = servers
        self.options = options
        self._slots = asyncio.Semaphore(limit)
        # one at a time, evenly over a minute: a burst would meet the limit that this is to keep
        per_minute = options.rate_limit
        self._pace = AsyncLimiter(1, 60.0 / per_minute) if per_minute else None
        self._running = 0

    async def send(self, chat: ChatRequest, events: list[str]) -> Reply:
        """Return what a server answered; `events` are added to where another attempt was needed.

        Its batch size is how many requests were under way with it.

        RequestFailed where this request has no answer, EngineError where all servers are lost.
        """
        from tenacity import AsyncRetrying

        attempts = Attempts(self.servers, self.options, chat.request, events)
        retrying = AsyncRetrying(retry=attempts.retry, wait=lambda state: attempts.wait_seconds)
        return await retrying(self._attempt, chat, attempts)

    async def _attempt(self, chat: ChatRequest, attempts: Attempts) -> Reply:
        """Ask the question's server once, and again only without a field that it refuses."""
        while True:
            server = attempts.at(self.servers.of(chat.request.question_id))
            await server.cooldown.wait()
            async with self._slots:
                if server.lost is not None or not server.cooldown.over:
                    continue
                if self._pace is not None:
                    await self._pace.acquire()
                dialect = server.dialect
                fields = chat.fields(dialect, self.options)
                try:
                    return await self._call(server, chat, fields)
                except ServerFault as fault:
                    if fault.kind is not FaultKind.REFUSED or not _adapt(
                        server, fault, dialect, fields
                    ):
                        raise

    async def _call(self, server: Server, chat: ChatRequest, fields: Mapping[str, Any]) -> Reply:
        self._running += 1
        together, began = self._running, time.perf_counter()
        try:
            answer, reset_seconds = await server.client.chat(
                self.model,
                chat.messages,
                fields,
                chat.samples * reply_bytes(chat.request.most_tokens),
            )
        finally:
            self._running -= 1
        server.succeeded()
        if reset_seconds:
            server.cooldown.extend(reset_seconds)
        return replace(answer, seconds=time.perf_counter() - began, batch_size=together)


class Attempts:
    """The attempts of one request, for tenacity: whether there is another, and after how long.

    They are counted anew at every server. Those that count towards giving up are fewer: a server that asks
    to wait while it answers others is not failing, there are more requests than it takes, and each of
    them gets its turn. wait_seconds: until the next attempt, as `retry` found them.
    """

    def __init__(
        self, servers: Servers, options: OpenAIOptions, request: Request, events: list[str]
    ) -> None:
        self.servers, self.options, self.request, self.events = servers, options, request, events
        self._server: Server | None = None
        self._answered = self._tried = self._fruitless = 0
        self._backoff = backoff(options.first_wait)
        self.wait_seconds = 0.0

    def at(self, server: Server) -> Server:
        """Note which server is asked, and return it."""
        if server is not self._server:
            self._server = server
            self._answered = self._tried = self._fruitless = 0
        return server

    def retry(self, state: RetryCallState) -> bool:
        """Whether there is another attempt, at this server or the next. RequestFailed where there is none."""
        fault = state.outcome.exception() if state.outcome is not None else None
        server = self._server
        if server is None or not isinstance(fault, ServerFault):
            return False
        self.wait_seconds = 0.0
        if fault.kind is FaultKind.BARRED:
            server.lose(fault.reason)
        elif fault.kind is FaultKind.REFUSED:
            self._refused(server, fault)
        else:
            self._failed(server, fault, state)
        return True

    def _refused(self, server: Server, fault: ServerFault) -> None:
        if not server.answered:
            server.failed(fault.reason)
        if server.lost is None:
            advice = ": lower --image-size or --max-turns" if is_too_long(fault.refusal) else ""
            raise RequestFailed(f"{server.url} refused the request ({fault.reason}){advice}")

    def _failed(self, server: Server, fault: ServerFault, state: RetryCallState) -> None:
        """Count an attempt that another one may mend, and find the wait until then."""
        moving = server.answered > self._answered and fault.kind is FaultKind.BUSY
        self._tried += 1
        self._fruitless = 1 if moving else self._fruitless + 1
        self._answered = server.answered
        LOG.warning(
            "%s, turn %d: %s (%s), attempt %d at %s",
            *(self.request.question_id, self.request.turn, fault.kind, fault.reason),
            *(self._tried, server.url),
        )
        unreached = fault.kind is FaultKind.UNREACHABLE
        most = self.options.retries
        if unreached and self.servers.others(server):
            most = min(most, MAX_UNREACHED_ATTEMPTS)
        if self._fruitless > most:
            reason = f"{fault.reason}, after {self._fruitless} attempts"
            (server.lose if unreached else server.failed)(reason)
            if server.lost is None:
                raise RequestFailed(f"{server.url} gave no answer ({reason})")
        self.events.append("retried")
        if server.lost is None:
            tell(f"{server.url}: {fault.kind}, try {self._fruitless + 1} of {most + 1}")
            state.attempt_number = self._tried  # at this server
            self.wait_seconds = max(self._backoff(state), fault.wait or 0.0)
            if unreached or fault.wait is not None or fault.kind is FaultKind.BUSY:
                server.cooldown.extend(self.wait_seconds)


def _adapt(
    server: Server, fault: ServerFault, dialect: ServerDialect, sent: Mapping[str, Any]
) -> bool:
    """Leave out the field that a server refuses from now on; whether there is one."""
    change = adapted(dialect, sent, fault.param, fault.refusal)
    if change is not None and server.dialect == dialect:
        # of those that were refused together, the first changes it for all
        server.dialect, consequence = change
        LOG.warning("%s: %s, so from now on %s", server.url, fault.reason, consequence)
    return change is not None
