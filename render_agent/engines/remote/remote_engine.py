"""The engine for remote APIs: a scheduler over servers, with retries."""

from __future__ import annotations

import asyncio
import logging
import queue
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Thread
from typing import Any

from render_agent.dialogue.chat import image_files, map_texts, replace_unencodable
from render_agent.dialogue.events import CONTENT_FILTER, OMITTED, PROMPT_TRUNCATED, SYSTEM_IN_USER
from render_agent.engines.byte_cache import ByteCache
from render_agent.engines.engine import Capabilities, Reply, Request, merge_samples
from render_agent.engines.remote.api_error import ApiError, RequestError, first_words, sdk_call
from render_agent.engines.remote.chat_api import ChatApi, Fields, Messages, encode_image
from render_agent.engines.remote.endpoints import Endpoint
from render_agent.engines.remote.phrases import Fault
from render_agent.engines.remote.quirks import adapt, has_system, quirks_of, system_in_user
from render_agent.engines.remote.response_bodies import parse_body
from render_agent.engines.remote.server_state import Server
from render_agent.errors import EngineError

LOG = logging.getLogger(__name__)

REQUESTS_PER_SERVER = 64  # concurrent requests per server if `--batch-size` is auto
MAX_IMAGE_CACHE_BYTES = 512 << 20  # encoded images
TIMEOUT_RETRIES = 2  # after as many timeouts of minutes, a server is taken to hang
MIN_CONTEXT = 512  # prompt tokens; no server truncates shorter prompts
INITIAL_DELAY_SECONDS = 0.5  # before the first retry, doubled for each further one
MAX_DELAY_SECONDS = 30.0  # unless the server states a longer time
JITTER = 0.25  # largest share of a delay that is left out; seconds added to a time that the server states


def encodable(request: Request) -> Request:
    """Return a request without lone surrogates, which replies may contain but requests may not."""
    return replace(request, messages=map_texts(replace_unencodable, list(request.messages)))


class RemoteEngine:
    """Sends requests to servers over HTTP, at most `batch_size` at once over all servers.

    All connections are in one thread with its own event loop, so that `close` cancels every request immediately.
    Temporary faults are retried; the SDKs' own retries are off. A question stays on one server, whose prefix cache
    contains its dialogue, until that server is abandoned; EngineError is raised when no server is left.
    """

    capabilities = Capabilities(streaming=True, guided_decoding=True)

    def __init__(
        self,
        api: ChatApi,
        endpoints: Sequence[Endpoint],
        batch_size: int | None = None,  # concurrent requests; None for 64 per server
    ) -> None:
        self.api = api
        self.name = api.service.engine
        self.batch_size = batch_size or REQUESTS_PER_SERVER * len(endpoints)
        self.calls = 0
        adaptations = {row.adaptation for row in quirks_of(api.name) if row.errors is None} - {""}
        adaptations |= {OMITTED + name for name in api.options.omit}
        self.servers = [Server(e, api.connect(e), set(adaptations)) for e in endpoints]
        self._images: ByteCache[str] = ByteCache(MAX_IMAGE_CACHE_BYTES)
        # Of each dialogue: the number of messages, the images, and the largest number of prompt tokens so far.
        self._prompts: dict[str, tuple[int, list[str], int]] = {}
        self._encoders = ThreadPoolExecutor(4, "images")
        # Completed requests; None is a call of `wake`.
        self._completed = queue.SimpleQueue[tuple[Request, Future[Reply]] | None]()
        self._in_flight = 0
        self._error: BaseException | None = None
        self._slots = asyncio.Semaphore(self.batch_size)
        self._running = 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name=self.name, daemon=True)
        self._thread.start()

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        async def all_replies() -> list[Reply]:
            return await asyncio.gather(*map(self._reply, requests))

        return asyncio.run_coroutine_threadsafe(all_replies(), self._loop).result()

    def submit(self, requests: Sequence[Request]) -> None:
        """Send requests; `ready` returns their replies."""
        self._in_flight += len(requests)
        for request in requests:
            future = asyncio.run_coroutine_threadsafe(self._reply(request), self._loop)
            future.add_done_callback(partial(self._put_completed, request))

    def _put_completed(self, request: Request, future: Future[Reply]) -> None:
        self._completed.put((request, future))

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait for at least one submitted request to complete, and yield all completed ones.

        Replies that arrived before the last server was lost are yielded before EngineError is raised.
        """
        has_yielded = was_woken = False
        while self._in_flight:
            is_done = has_yielded or was_woken or self._error is not None
            try:
                item = self._completed.get(timeout=0 if is_done else timeout)
            except queue.Empty:
                break
            if item is None:
                was_woken = True
                continue
            request, future = item
            if (error := future.exception()) is not None:
                self._error = self._error or error
                break
            self._in_flight -= 1
            has_yielded = True
            yield request, future.result()
        if self._error is not None and not has_yielded:
            raise self._error

    def wake(self) -> None:
        """Interrupt the current or the next wait in `ready`."""
        self._completed.put(None)

    def retire(self, dialogue_id: str) -> None:
        """Drop the server assignment and the cached images of a question."""
        self._images.retire(dialogue_id)
        self._loop.call_soon_threadsafe(self._unassign, dialogue_id)

    def close(self) -> None:
        """Cancel all requests, close all connections and stop the thread."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._encoders.shutdown(cancel_futures=True)

    async def _cancel_all(self) -> None:
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        # Let all of them start; anyio never awaits the connection of a task that is cancelled before.
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self.servers:
            await self.api.close(server.client)
        await self._loop.shutdown_asyncgens()

    def _unassign(self, question_id: str) -> None:
        self._prompts.pop(question_id, None)
        for server in self.servers:
            server.questions.discard(question_id)

    def _server_of(self, question_id: str) -> Server:
        """Return the server of a question, by default that with the fewest. Raises EngineError if all are lost."""
        alive = [server for server in self.servers if server.lost is None]
        if not alive:
            reasons = [f"{server.endpoint.url} ({server.lost})" for server in self.servers]
            reasons += [server.note for server in self.servers if server.note]
            raise EngineError(
                f"all servers have failed: {'; '.join(reasons)}. Fix the server, then resume with --continue"
            )
        server = min(alive, key=lambda s: (question_id not in s.questions, len(s.questions)))
        server.questions.add(question_id)
        return server

    async def _reply(self, request: Request) -> Reply:
        """Answer one request, sending it again until all samples have arrived."""
        events: list[str] = []
        answers: list[Reply] = []
        async with self._slots:
            while missing := request.distinct_samples - sum(len(a.samples) for a in answers):
                seed = (request.seed + request.distinct_samples - missing) % 2**32
                try:
                    answer = await self._send(request, missing, seed, events)
                except RequestError as error:
                    which = f"{request.dialogue_id}, turn {request.turn}"
                    LOG.warning("%s: %s", which, error, exc_info=error.__cause__)
                    return Reply(error=str(error), events=tuple(events))
                self.calls += 1
                samples, blocks = answer.samples[:missing], answer.blocks[:missing]
                answers.append(replace(answer, samples=samples, blocks=blocks))
        events += dict.fromkeys(event for answer in answers for event in answer.events)
        events += [PROMPT_TRUNCATED] * self._is_truncated(request, answers[0].tokens.prompt)
        return merge_samples(request, answers, sum(answer.seconds for answer in answers), events)

    def _is_truncated(self, request: Request, tokens: int) -> bool:
        """True if the prompt tokens of a dialogue did not grow with its messages.

        A server that counts only uncached tokens reports far fewer than before, which is no sign of truncation.
        """
        messages, images = len(request.messages), image_files(list(request.messages))
        first = messages, images, 0
        earlier, earlier_images, max_tokens = self._prompts.get(request.dialogue_id, first)
        self._prompts[request.dialogue_id] = messages, images, max(max_tokens, tokens)
        # see --history
        has_grown = messages > earlier and images[: len(earlier_images)] == earlier_images
        return has_grown and max_tokens >= MIN_CONTEXT and 0.75 * max_tokens < tokens <= max_tokens

    async def _send(self, request: Request, samples: int, seed: int, events: list[str]) -> Reply:
        """Send a request to the question's server, or to another one if that is lost. Raises RequestError.

        Requests are adapted to what the server rejects, and retried after temporary faults, which are added to `events`.
        """
        api, retries = self.api, 0
        request = await self._loop.run_in_executor(self._encoders, encodable, request)
        while True:
            server = self._server_of(request.dialogue_id)
            applied = set(server.adaptations)
            moves_system = SYSTEM_IN_USER in applied and has_system(request)
            asked = system_in_user(request) if moves_system else request
            sent = await self._loop.run_in_executor(self._encoders, self._prepare, asked)
            if server.lost is not None:  # in the meantime
                continue
            if (pause := server.not_before - self._loop.time()) > 0:
                await asyncio.sleep(pause)
                continue
            fields, adapted = adapt(applied, api.fields(asked, samples, seed, server.endpoint))
            adapted += [SYSTEM_IN_USER] * moves_system
            self._running += 1
            running, started_at = self._running, time.perf_counter()
            try:
                text = await self._deliver(server, asked, seed, sent, fields)
                answer = self._read(text, request, server.endpoint)
            except ApiError as error:
                if server.adapt(error, fields, asked, applied, api):
                    continue
                if error.fault is Fault.FILTERED:
                    events.append(CONTENT_FILTER)
                elif error.fault.is_temporary and retries < self._max_retries(error):
                    events.append("retried")
                    await self._back_off(server, error, request, retries)
                    retries += 1
                    continue
                elif server.record_failure(error):
                    events.append("retried")
                    retries = 0
                    continue
                raise RequestError(error.report(server.endpoint)) from error.__cause__
            finally:
                self._running -= 1
            server.record_success()
            seconds = time.perf_counter() - started_at
            all_events = (*adapted, *answer.events)
            return replace(answer, seconds=seconds, batch_size=running, events=all_events)

    def _max_retries(self, error: ApiError) -> int:
        retries: int = self.api.options.retries
        return min(retries, TIMEOUT_RETRIES) if error.failure == "timeout" else retries

    def _read(self, text: str, request: Request, endpoint: Endpoint) -> Reply:
        """Parse the body of a response. Raises ApiError if it is not a complete reply."""
        answer = self.api.read(parse_body(text), request)
        if answer is None:
            excerpt = first_words(text, endpoint.secrets)
            raise ApiError(f"the response is incomplete: {excerpt!r}", failure="unreadable")
        return answer

    async def _deliver(
        self, server: Server, request: Request, seed: int, messages: Messages, fields: Fields
    ) -> str:
        """Send a request unchanged, and return the body of the response."""
        async with sdk_call(self.api.options.timeout):
            return await self.api.send(server.client, messages, fields)

    async def _back_off(
        self, server: Server, error: ApiError, request: Request, retries: int
    ) -> None:
        """Wait before a retry with exponential backoff, and until the time that the server states, for all requests."""
        jitter = JITTER * random.Random(f"{request.seed} {request.dialogue_id} {retries}").random()
        delay = min(INITIAL_DELAY_SECONDS * 2**retries, MAX_DELAY_SECONDS) * (1 - jitter)
        if (stated_seconds := error.retry_after) is not None:
            delay = max(delay, stated_seconds + jitter)
            server.not_before = max(server.not_before, self._loop.time() + stated_seconds)
        reason, url = error.describe(server.endpoint), server.endpoint.url
        LOG.info("%s: %s (%s); retry in %.1f s", url, error.fault.value, reason, delay)
        await asyncio.sleep(delay)

    def _prepare(self, request: Request) -> list[dict[str, Any]]:
        """Return the converted messages of a request. Raises RequestError if an image cannot be read."""

        def image(file: str) -> str:
            encoded = self._images.get(file, request.dialogue_id)
            if encoded is None:
                encoded = encode_image(request, file)
                self._images.put(file, encoded, len(encoded), request.dialogue_id)
            return encoded

        return self.api.messages(request, image)
