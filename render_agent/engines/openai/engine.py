"""Any OpenAI-compatible server as an engine: vLLM, SGLang, llama.cpp, hosted models."""

from __future__ import annotations

import asyncio
import logging
import queue
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from threading import Thread
from typing import Any

from render_agent.config import OPTIONS, RunConfig
from render_agent.engines.base import Capabilities, Reply, Request, reply_of
from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.families.registry import family_named
from render_agent.engines.families.thinking import Thinking
from render_agent.engines.openai.chat_format import ChatRequest, data_url, wire_messages
from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint, find_endpoints
from render_agent.engines.openai.options import OpenAIOptions, read_options
from render_agent.engines.openai.retry import RequestFailed, Sender
from render_agent.engines.openai.servers import Servers, look_up
from render_agent.errors import UsageError
from render_agent.extras import require

LOG = logging.getLogger(__name__)

REASONING = Thinking("reasoning_effort", "medium", "none")
"""How OpenAI's own models are told to think."""

REQUESTS_PER_SERVER = 64
"""Requests under way at once at each server, where `--batch-size` is auto."""

PREPARED_PER_REQUEST = 4
"""Prompts with their pictures in memory at once, for each request under way."""

MAX_PICTURE_BYTES = 512 << 20
"""Of encoded pictures that are kept."""


class OpenAIEngine:
    """Asks servers over HTTP, `batch_size` requests under way at once over all of them.

    All connections live in one thread with its own event loop, so that a wait that one server asks
    for holds for all its connections, and `close` ends every request at once. A fault that another
    attempt may cure is tried again after a growing wait; one that concerns a single request is its
    `Reply.error`. EngineError where the last server is lost or refuses the key.
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
        """Ask nothing yet. batch_size: None is 64 a server."""
        self.model = model
        self.options = options or OpenAIOptions()
        self.batch_size = batch_size or REQUESTS_PER_SERVER * len(endpoints)
        self.calls = 0
        self._pictures: ByteCache[str] = ByteCache(MAX_PICTURE_BYTES)
        self._encoders = ThreadPoolExecutor(4, "data-url")
        self._ended: queue.SimpleQueue[tuple[Request, Future[Reply]] | None] = queue.SimpleQueue()
        self._waited_for = 0
        self._gone: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="openai", daemon=True)
        self._thread.start()
        servers = Servers(endpoints, self.options)
        self._sender = Sender(model, servers, self.options, self.batch_size)
        self._room = asyncio.Semaphore(PREPARED_PER_REQUEST * self.batch_size)

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order."""

        async def all_replies() -> list[Reply]:
            tasks = [asyncio.ensure_future(self._reply(request)) for request in requests]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

        return asyncio.run_coroutine_threadsafe(all_replies(), self._loop).result()

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
        self._loop.call_soon_threadsafe(self._sender.servers.retire, question_id)

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
        for server in self._sender.servers.servers:
            await server.client.close()
        await self._loop.shutdown_asyncgens()

    async def _reply(self, request: Request) -> Reply:
        """Return the reply of one request, its samples asked for until all are there."""
        async with self._room:
            try:
                messages = await self._loop.run_in_executor(self._encoders, self._prepare, request)
            # A picture comes from a file and goes through PIL: whatever is wrong with it is a fault
            # of this request alone.
            except Exception as error:
                LOG.warning("%s: prompt failed", request.question_id, exc_info=True)
                return Reply(error=f"the prompt could not be prepared: {error}")
            events: list[str] = []
            answers: list[Reply] = []
            while missing := request.distinct_samples - sum(len(a.samples) for a in answers):
                seed = (request.seed + request.distinct_samples - missing) % 2**32
                try:
                    answer = await self._sender.send(
                        ChatRequest(request, messages, missing, seed), events
                    )
                except RequestFailed as error:
                    return Reply(error=str(error), events=tuple(events))
                self.calls += 1
                answers.append(replace(answer, samples=answer.samples[:missing]))
        return reply_of(request, answers, sum(answer.seconds for answer in answers), events)

    def _prepare(self, request: Request) -> list[dict[str, Any]]:
        """Return the messages of a request as they are sent. Raises what its pictures raise."""

        def url(file: str) -> str:
            encoded = self._pictures.get(file, request.question_id)
            if encoded is None:
                encoded = data_url(request.picture(file))
                self._pictures.put(file, encoded, len(encoded), request.question_id)
            return encoded

        return wire_messages(request.messages, url, self.options.image_detail)


def describe(config: RunConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run records of its servers and the model they serve.

    UsageError where an option is the server's own; SetupError where a server cannot be reached or
    does not serve the model. given: the engine options.
    """
    options, endpoints = _options_of(config, given), _endpoints_of(config)
    servers = [look_up(entry, config.model_name, options) for entry in endpoints]
    hybrid = _is_hybrid(config.model_name, servers)
    return {"name": "openai", "model": config.model_name, "servers": servers, "hybrid": hybrid}


def make(config: RunConfig, given: Mapping[str, Any]) -> OpenAIEngine:
    """Return the engine. UsageError and SetupError as of `describe`."""
    options, endpoints = _options_of(config, given), _endpoints_of(config)
    looked_up = [look_up(entry, config.model_name, options) for entry in endpoints]
    engine = OpenAIEngine(config.model_name, endpoints, options, config.fixed_batch_size)
    if _is_hybrid(config.model_name, looked_up):
        # Its server keeps few states: a dialogue that waits for all others finds its own gone.
        engine.capabilities = replace(engine.capabilities, one_dialogue=True)
    return engine


def _is_hybrid(model: str, looked_up: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a model has recurrent layers, by its name or by what a server says that it was made from."""
    return any(
        family_named(name).recurrent for name in (model, *(str(t.get("root")) for t in looked_up))
    )


def _endpoints_of(config: RunConfig) -> list[Endpoint]:
    return find_endpoints(config.base_url, follow_redirects=config.follow_redirects)


def _options_of(config: RunConfig, given: Mapping[str, Any]) -> OpenAIOptions:
    for name in ("revision", "dtype", "device", "tensor_parallel", "max_model_len"):
        if getattr(config, name) != OPTIONS[name].default:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} is decided by the server that --engine openai asks: leave it out"
            )
    require("--engine openai", "openai", "aiolimiter", "tenacity")
    options = read_options(given)
    hosted = any(entry.host == HOSTED_HOST for entry in _endpoints_of(config))
    form = REASONING if hosted else family_named(config.model_name).thinking
    arguments = form.arguments(config.thinking, given if hosted else _template_of(options))
    if hosted:
        return replace(options, reasoning_effort=arguments.get("reasoning_effort"))
    if not arguments:
        return options
    return replace(options, extra_body={**options.extra_body, "chat_template_kwargs": arguments})


def _template_of(options: OpenAIOptions) -> Mapping[str, Any]:
    arguments = options.extra_body.get("chat_template_kwargs")
    return arguments if isinstance(arguments, Mapping) else {}
