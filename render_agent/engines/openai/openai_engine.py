"""Any OpenAI-compatible server as an engine: vLLM, SGLang, llama.cpp, hosted models."""

from __future__ import annotations

import asyncio
import logging
import queue
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any

from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.engine import Capabilities, Reply, Request, reply_of
from render_agent.engines.families.model_families import family_named
from render_agent.engines.families.thinking import Thinking
from render_agent.engines.openai.chat_format import (
    data_url,
    read_answer,
    request_fields,
    wire_messages,
)
from render_agent.engines.openai.client import connected, first_words, look_up, reason_of
from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint, find_endpoints
from render_agent.engines.openai.openai_options import OpenAIOptions, read_options
from render_agent.errors import EngineError, UsageError
from render_agent.extras import require
from render_agent.options import OPTIONS, RunConfig
from render_agent.util.safe_parse import parse_json

LOG = logging.getLogger(__name__)

REASONING = Thinking("reasoning_effort", "medium", "none")
"""How OpenAI's own models are told to think."""

REQUESTS_PER_SERVER = 64
"""Concurrent requests per server if `--batch-size` is auto."""

MAX_PICTURE_BYTES = 512 << 20
"""Of encoded pictures that are kept."""

MAX_FAILED_IN_A_ROW = 3
"""Requests that fail after all retries, with none succeeding between them, before a server is given up."""


@dataclass
class Server:
    """One server: its client, its questions, and why it was given up, if it was."""

    endpoint: Endpoint
    client: Any
    questions: set[str] = field(default_factory=set)
    answered: bool = False
    failed_in_a_row: int = 0
    lost: str | None = None

    def succeeded(self) -> None:
        """Note an answer."""
        self.answered, self.failed_in_a_row = True, 0

    def failed(self, reason: str, *, at_once: bool = False) -> None:
        """Note a failed request; give the server up after MAX_FAILED_IN_A_ROW of them, or at once."""
        self.failed_in_a_row += 1
        if self.lost is None and (at_once or self.failed_in_a_row >= MAX_FAILED_IN_A_ROW):
            self.lost = reason
            LOG.error("%s is given up: %s", self.endpoint.url, reason)


class RequestFailed(Exception):
    """Why one request has no answer, while others may have theirs."""


class OpenAIEngine:
    """Asks servers over HTTP with at most `batch_size` concurrent requests over all of them.

    All connections live in one thread with its own event loop, so that `close` ends every request at
    once. The SDK retries what may pass; a fault of one request is its `Reply.error`. A question stays
    with one server, whose prefix cache holds its dialogue, until that server is given up. EngineError
    if the last server is lost.
    """

    name = "openai"
    capabilities = Capabilities(free_running=True, schema=True)

    def __init__(
        self,
        model: str,
        endpoints: Sequence[Endpoint],
        options: OpenAIOptions | None = None,
        batch_size: int | None = None,
    ) -> None:
        """Ask nothing yet. batch_size: None is 64 per server."""
        self.model = model
        self.options = options or OpenAIOptions()
        self.batch_size = batch_size or REQUESTS_PER_SERVER * len(endpoints)
        self.calls = 0
        self.servers = [Server(entry, connected(entry, self.options)) for entry in endpoints]
        self._pictures: ByteCache[str] = ByteCache(MAX_PICTURE_BYTES)
        self._encoders = ThreadPoolExecutor(4, "data-url")
        self._ended: queue.SimpleQueue[tuple[Request, Future[Reply]] | None] = queue.SimpleQueue()
        self._waited_for = 0
        self._gone: BaseException | None = None
        self._slots = asyncio.Semaphore(self.batch_size)
        self._running = 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="openai", daemon=True)
        self._thread.start()

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order."""

        async def all_replies() -> list[Reply]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._reply(request)) for request in requests]
            return [task.result() for task in tasks]

        try:
            return asyncio.run_coroutine_threadsafe(all_replies(), self._loop).result()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        self._waited_for += len(requests)
        for request in requests:

            def ended(done: Future[Reply], request: Request = request) -> None:
                self._ended.put((request, done))

            asyncio.run_coroutine_threadsafe(self._reply(request), self._loop).add_done_callback(
                ended
            )

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait until at least one submitted request is answered and give those that are.

        Replies that came before the last server was lost are given before EngineError is raised.
        """
        yielded = woken = False
        while self._waited_for:
            try:
                ended = self._ended.get(timeout=0 if yielded or woken or self._gone else timeout)
            except queue.Empty:
                break
            if ended is None:
                woken = True
                continue
            request, done = ended
            if (error := done.exception()) is not None:
                self._gone = self._gone or error
                break
            self._waited_for -= 1
            yielded = True
            yield request, done.result()
        if self._gone is not None and not yielded:
            raise self._gone

    def wake(self) -> None:
        """Have `ready` wait no longer."""
        self._ended.put(None)

    def retire(self, question_id: str) -> None:
        """Forget a question's server and its pictures."""
        self._pictures.retire(question_id)
        self._loop.call_soon_threadsafe(self._forget, question_id)

    def close(self) -> None:
        """End what is under way, all connections and the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._encoders.shutdown(cancel_futures=True)

    async def _end(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self.servers:
            await server.client.close()
        await self._loop.shutdown_asyncgens()

    def _forget(self, question_id: str) -> None:
        for server in self.servers:
            server.questions.discard(question_id)

    def _server_of(self, question_id: str) -> Server:
        """Return the server of a question: its own, else the one with the fewest questions.

        EngineError if all are lost.
        """
        alive = [server for server in self.servers if server.lost is None]
        if not alive:
            reasons = "; ".join(f"{lost.endpoint.url} ({lost.lost})" for lost in self.servers)
            raise EngineError(
                f"no server is left: {reasons}; see to the server, then resume with --continue"
            )
        for server in alive:
            if question_id in server.questions:
                return server
        server = min(alive, key=lambda server: len(server.questions))
        server.questions.add(question_id)
        return server

    async def _reply(self, request: Request) -> Reply:
        """Return the reply of one request, its samples asked for until all are there."""
        events: list[str] = []
        answers: list[Reply] = []
        async with self._slots:
            try:
                messages = await self._loop.run_in_executor(self._encoders, self._prepare, request)
            # A picture comes from a file and goes through PIL: whatever is wrong with it is a fault
            # of this request alone.
            except Exception as error:
                LOG.warning("%s: prompt failed", request.question_id, exc_info=True)
                return Reply(error=f"the prompt could not be prepared: {error}")
            while missing := request.distinct_samples - sum(len(a.samples) for a in answers):
                seed = (request.seed + request.distinct_samples - missing) % 2**32
                try:
                    answer = await self._ask(request, messages, missing, seed, events)
                except RequestFailed as error:
                    LOG.warning("%s, turn %d: %s", request.question_id, request.turn, error)
                    return Reply(error=str(error), events=tuple(events))
                self.calls += 1
                answers.append(replace(answer, samples=answer.samples[:missing]))
        return reply_of(request, answers, sum(answer.seconds for answer in answers), events)

    async def _ask(
        self,
        request: Request,
        messages: Sequence[Mapping[str, Any]],
        samples: int,
        seed: int,
        events: list[str],
    ) -> Reply:
        """Ask the question's server, and the next one if that is lost. `events`: one per retry.

        RequestFailed if this request has no answer, EngineError if all servers are lost.
        """
        import openai

        while True:
            server = self._server_of(request.question_id)
            fields = request_fields(request, samples, seed, self.options, server.endpoint)
            self._running += 1
            together, began = self._running, time.perf_counter()
            try:
                raw = await server.client.chat.completions.with_raw_response.create(
                    model=self.model, messages=messages, extra_body=fields
                )
            except openai.OpenAIError as error:
                self._note(server, error)
                if server.lost is None:
                    reason = reason_of(error, server.endpoint)
                    raise RequestFailed(
                        f"{server.endpoint.url} gave no answer ({reason})"
                    ) from None
                events.append("retried")
                continue
            finally:
                self._running -= 1
            events += ["retried"] * raw.retries_taken
            try:
                answer = read_answer(parse_json(raw.text))
            except ValueError:
                answer = None
            if answer is None:
                shown = first_words(raw.text, server.endpoint.secrets)
                server.failed(f"it answered with something else than a chat: {shown!r}")
                raise RequestFailed(
                    f"{server.endpoint.url} answered with something else than a chat: {shown!r}"
                )
            server.succeeded()
            return replace(answer, seconds=time.perf_counter() - began, batch_size=together)

    @staticmethod
    def _note(server: Server, error: Exception) -> None:
        """Note a failed request at its server, which is lost at once if no other request can succeed."""
        import openai

        status = getattr(error, "status_code", 0)
        timed_out = isinstance(error, openai.APITimeoutError)
        unreachable = isinstance(error, openai.APIConnectionError) and not timed_out
        refused = 400 <= status < 500 and status not in (408, 409, 429)
        barred = status in (401, 403, 404) or 300 <= status < 400
        if refused and not barred and server.answered:
            return  # a fault of this request, such as its length
        server.failed(reason_of(error, server.endpoint), at_once=barred or unreachable)

    def _prepare(self, request: Request) -> list[dict[str, Any]]:
        """Return the messages of a request as they are sent. Raises what its pictures raise."""

        def url(file: str) -> str:
            encoded = self._pictures.get(file, request.question_id)
            if encoded is None:
                encoded = data_url(request.picture(file))
                self._pictures.put(file, encoded, len(encoded), request.question_id)
            return encoded

        return wire_messages(request.messages, url, self.options.image_detail)


def describe(config: RunConfig, model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run records of its servers and the model they serve.

    given: the engine options. UsageError for an option that the server decides; SetupError if a server
    cannot be reached or does not serve the model.
    """
    options, endpoints = _options_of(config, model, given), find_endpoints(config.base_url)
    servers = [look_up(entry, model, options) for entry in endpoints]
    hybrid = _is_hybrid(model, servers)
    return {"name": "openai", "model": model, "servers": servers, "hybrid": hybrid}


def make(config: RunConfig, model: str, given: Mapping[str, Any]) -> OpenAIEngine:
    """Return the engine. UsageError and SetupError as of `describe`."""
    options, endpoints = _options_of(config, model, given), find_endpoints(config.base_url)
    looked_up = [look_up(entry, model, options) for entry in endpoints]
    engine = OpenAIEngine(model, endpoints, options, config.fixed_batch_size)
    if _is_hybrid(model, looked_up):
        # Its server keeps few states: a dialogue that waits for all others finds its own gone.
        engine.capabilities = replace(engine.capabilities, one_dialogue=True)
    return engine


def _is_hybrid(model: str, looked_up: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a model has recurrent layers, by its name or by what a server says that it was made from."""
    return any(
        family_named(name).recurrent for name in (model, *(str(t.get("root")) for t in looked_up))
    )


def _options_of(config: RunConfig, model: str, given: Mapping[str, Any]) -> OpenAIOptions:
    for name in ("revision", "dtype", "device", "tensor_parallel", "max_model_len"):
        if getattr(config, name) != OPTIONS[name].default:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} is decided by the server that --engine openai asks: leave it out"
            )
    require("--engine openai", "openai")
    options = read_options(given)
    hosted = any(entry.host == HOSTED_HOST for entry in find_endpoints(config.base_url))
    form = REASONING if hosted else family_named(model).thinking
    template = options.extra_body.get("chat_template_kwargs")
    known = given if hosted else template if isinstance(template, Mapping) else {}
    arguments = form.arguments(config.thinking, known)
    if hosted:
        return replace(options, reasoning_effort=arguments.get("reasoning_effort"))
    if not arguments:
        return options
    return replace(options, extra_body={**options.extra_body, "chat_template_kwargs": arguments})
