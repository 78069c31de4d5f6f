"""The servers of one run: the model that each serves, the questions assigned to it, and whether it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from render_agent.engines.openai.client import (
    RedirectRefused,
    ResponseRefused,
    ServerClient,
    connected,
    fault_of,
    first_words,
)
from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.rate_limit import Cooldown
from render_agent.engines.openai.server_compat import ServerDialect, first_dialect
from render_agent.errors import EngineError, SetupError
from render_agent.text.safe_parse import parse_json
from render_agent.text.sanitize import one_line

LOG = logging.getLogger(__name__)

MAX_FAILED_IN_A_ROW = 3
"""Requests that fail for good, none succeeding between them, after which a server counts as lost."""

LOOK_UP_SECONDS = 30.0
VERSION_SECONDS = 10.0
"""For a whole answer to what a server is asked before a run."""

MODEL_FIELDS = ("owned_by", "max_model_len", "root")
"""What servers tell of a model that is worth keeping."""


@dataclass
class Server:
    """The state of one server: its client, its questions, its dialect, and whether it is lost."""

    client: ServerClient
    dialect: ServerDialect
    questions: set[str] = field(default_factory=set)
    cooldown: Cooldown = field(default_factory=Cooldown)
    lost: str | None = None
    answered: int = 0
    failed_in_a_row: int = 0

    @property
    def url(self) -> str:
        """Its address, without credentials."""
        return self.client.endpoint.url

    def succeeded(self) -> None:
        """Note that it answered."""
        self.answered += 1
        self.failed_in_a_row = 0

    def failed(self, reason: str) -> None:
        """Count a request that failed for good; after MAX_FAILED_IN_A_ROW of them the server is lost."""
        self.failed_in_a_row += 1
        if self.failed_in_a_row >= MAX_FAILED_IN_A_ROW:
            self.lose(reason)

    def lose(self, reason: str) -> None:
        """Give it up."""
        if self.lost is None:
            self.lost = reason
            LOG.error("%s is given up: %s", self.url, reason)


class Servers:
    """All servers; a question stays with one, which has its beginning in its cache, until that is lost."""

    def __init__(self, endpoints: Sequence[Endpoint], options: OpenAIOptions) -> None:
        self.servers = [
            Server(ServerClient(endpoint, options), first_dialect(endpoint, options))
            for endpoint in endpoints
        ]
        self._server_of: dict[str, Server] = {}

    def of(self, question_id: str) -> Server:
        """Return the server of a question: its own, else the one with the fewest questions.

        EngineError where all are lost.
        """
        server = self._server_of.get(question_id)
        if server is not None and server.lost is None:
            return server
        self.retire(question_id)
        alive = [server for server in self.servers if server.lost is None]
        if not alive:
            reasons = "; ".join(
                f"{lost.url} answers no more ({lost.lost})" for lost in self.servers
            )
            raise EngineError(f"{reasons}: see to the server, then go on with --continue")
        server = min(alive, key=lambda server: len(server.questions))
        server.questions.add(question_id)
        self._server_of[question_id] = server
        return server

    def retire(self, question_id: str) -> None:
        """Forget a question that asks no more."""
        server = self._server_of.pop(question_id, None)
        if server is not None:
            server.questions.discard(question_id)

    def others(self, server: Server) -> bool:
        """Whether another server could take the questions of this one."""
        return any(other.lost is None for other in self.servers if other is not server)


def look_up(endpoint: Endpoint, model: str, options: OpenAIOptions) -> dict[str, Any]:
    """Return what a server says of itself and the model: `url`, and where told `owned_by`,
    `max_model_len`, `root`, `version`.

    SetupError where it cannot be reached, refuses the key, takes longer than LOOK_UP_SECONDS for a whole
    answer, or serves other models only.
    """
    # in a thread of its own: a notebook's has an event loop already
    thread = ThreadPoolExecutor(1, "look-up")
    try:
        return thread.submit(_run, _look_up(endpoint, model, options)).result()
    finally:
        thread.shutdown(wait=False)


def _run(coroutine: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Run a coroutine in an event loop of its own and close that; return the result.

    Libraries that let loops run within each other replace `asyncio.run` by one that leaves its loop open.
    """
    with asyncio.Runner() as runner:
        return runner.run(coroutine)


async def _look_up(endpoint: Endpoint, model: str, options: OpenAIOptions) -> dict[str, Any]:
    seconds = max(LOOK_UP_SECONDS, options.connect_timeout)
    async with connected(endpoint, seconds, options.connect_timeout) as client:
        try:
            async with asyncio.timeout(seconds):
                served = await _served(client, endpoint)
        except TimeoutError:
            raise SetupError(
                f"{endpoint.url} gives no whole answer in {seconds:g} s: is it the right server, and not"
                " overloaded?"
            ) from None
        if served and model not in {entry["id"] for entry in served}:
            names = ", ".join(sorted(one_line(entry["id"][:80]) for entry in served)[:20])
            raise SetupError(f"{endpoint.url} does not serve {model}: give --model one of {names}")
        entry: dict[str, Any] = next((entry for entry in served if entry["id"] == model), {})
        entry_fields: dict[str, Any] = {name: entry[name] for name in MODEL_FIELDS if name in entry}
        fields = {**entry_fields, **await _version(client, endpoint)}
        return {
            "url": endpoint.url,
            **{
                name: first_words(value, endpoint.secrets) if isinstance(value, str) else value
                for name, value in fields.items()
                if value is None or isinstance(value, str | int)
            },
        }


async def _served(client: Any, endpoint: Endpoint) -> list[dict[str, Any]]:
    """Return the models that a server lists; none where it lists none."""
    import openai

    try:
        raw = await client.models.with_raw_response.list()
    except (openai.OpenAIError, ResponseRefused) as error:
        reason = fault_of(error, endpoint).reason
        status = getattr(error, "status_code", None)
        if status in (401, 403):
            sender = "the key in the environment" if endpoint.headers else "a request without a key"
            raise SetupError(
                f"{endpoint.url} refuses {sender} ({reason}): set RENDER_AGENT_API_KEY or OPENAI_API_KEY"
            ) from None
        if status == 404:
            raise SetupError(
                f"{endpoint.url}/models does not exist: does the address end in /v1?"
            ) from None
        if status in (502, 503, 504):
            raise SetupError(f"{endpoint.url} is not ready: {reason}") from None
        if isinstance(error.__cause__ or error, RedirectRefused):
            raise SetupError(f"{endpoint.url} is not asked: {reason}") from None
        if isinstance(error, openai.APIConnectionError):
            raise SetupError(
                f"{endpoint.url} cannot be reached: {reason}; is the server up?"
            ) from None
        LOG.warning("%s lists no models: %s", endpoint.url, reason)
        return []
    try:
        data = parse_json(raw.text)["data"]
        return [entry for entry in data if isinstance(entry, dict) and isinstance(entry["id"], str)]
    except (ValueError, KeyError, TypeError):
        LOG.warning("%s lists no models: %r", endpoint.url, first_words(raw.text, endpoint.secrets))
        return []


async def _version(client: Any, endpoint: Endpoint) -> dict[str, str]:
    """Return the version that vLLM and SGLang tell beside their API, nothing of other servers."""
    import openai

    if endpoint.host == HOSTED_HOST:
        return {}
    try:
        async with asyncio.timeout(VERSION_SECONDS):
            body = await client.get(endpoint.url.removesuffix("/v1") + "/version", cast_to=object)
    # Whatever is wrong with it: it is a note in the record, and most servers have none.
    except (TimeoutError, openai.OpenAIError, ResponseRefused, ValueError, RecursionError):
        return {}
    version = body.get("version") if isinstance(body, dict) else None
    return {"version": version} if isinstance(version, str) else {}
