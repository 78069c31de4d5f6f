"""`--batch-jobs`: sends the batched turns as jobs of a provider's batch API."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from render_agent.dialogue.events import BATCH_JOB
from render_agent.engines.engine import Capabilities, Reply, Request
from render_agent.engines.remote.api_error import ApiError, RequestError, sdk_call
from render_agent.engines.remote.chat_api import (
    JOB_ID,
    Fields,
    FinishedJob,
    Messages,
    Results,
    encode_image,
)
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.engines.remote.server_state import Server
from render_agent.errors import EngineError
from render_agent.util.atomic_files import read_lines, sync_folder, write_all, write_errors
from render_agent.util.display import Stage, count_noun, format_duration, stage
from render_agent.util.reasons import truncate
from render_agent.util.safe_parse import NotNegative, decode_json, encode_line, to_plain

LOG = logging.getLogger(__name__)

# The smallest limits of a job, OpenAI's, are 50,000 requests and 200 MB; a job is in memory several times.
MAX_REQUESTS, MAX_BYTES = 50_000, 100_000_000
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 2.0, 60.0  # the interval doubles
TRANSFER_SECONDS = 3600.0  # to upload the requests of a job, or to download its results
MAX_POLL_FAILURES = 30  # in a row, before the run stops
NO_BATCH_API = (404, 405, 501)  # status of a submission

Queue = Mapping[str, tuple[Request, Fields]]  # by key


class JobLine(Struct, frozen=True):
    """A line of the file: the id of a submitted job, the server, and the keys of the requests."""

    job: str
    url: str
    requests: tuple[str, ...]
    submitted: NotNegative = 0
    """Unix time."""


class BatchJobs(RemoteEngine):
    """Answers all requests of a batched turn in jobs; sends them directly if the server has no batch API.

    Requests are prepared, adapted, read and retried like direct ones, but they wait for each other and are submitted
    together. Jobs are recorded in the run folder: a resumed run reads their results instead of paying again.
    """

    capabilities = Capabilities(guided_decoding=True)  # not streaming, to get a whole turn

    def __init__(self, direct: RemoteEngine, folder: Path) -> None:
        server = direct.servers[0]
        super().__init__(direct.api, [replace(server.endpoint, for_jobs=True)], MAX_REQUESTS)
        self.servers[0].adaptations = server.adaptations
        self._direct, self._url = direct, server.endpoint.url
        self._path = folder / "batch_jobs.jsonl"
        self._file = self._path.open("ab", buffering=0)
        sync_folder(folder)
        lines, size = read_lines(self._path, lambda line: decode_json(line, JobLine))
        os.truncate(self._path, size)
        own = [line for line in lines if line.url == self._url and JOB_ID.fullmatch(line.job)]
        self._earlier = {key: line.job for line in own for key in line.requests}  # the last job
        self._submitted_at = {line.job: float(line.submitted) for line in own}
        self._stage: Stage | None = None
        self._has_api = True
        self._submitted: list[Request] = []
        self._queue: dict[str, tuple[Request, Fields]] = {}
        self._unqueued = 0  # requests that will join the queue, or end
        self._complete = asyncio.Event()
        self._round: asyncio.Task[Results] | None = None

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        size = self._unqueued = len(requests)
        try:
            if self._has_api:
                text = f"waiting for a batch job of {count_noun(size, 'request')}"
                with stage(text, announce=True) as self._stage:
                    replies = super().generate(requests)
                return [replace(r, batch_size=size, events=(*r.events, BATCH_JOB)) for r in replies]
        except EngineError:
            if self._has_api:
                raise
            LOG.warning("%s has no batch API; requests are sent directly", self._url)
        return self._direct.generate(requests)

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests; `ready` returns their replies."""
        self._submitted += requests

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Answer all submitted requests."""
        requests, self._submitted = self._submitted, []
        yield from zip(requests, self.generate(requests), strict=True)

    def close(self) -> None:
        """Stop waiting; submitted jobs go on."""
        super().close()
        self._file.close()

    def _prepare(self, request: Request) -> list[dict[str, Any]]:
        """Return the messages with names of images: those of all requests may not fit in memory."""
        return self.api.messages(request, str)

    async def _reply(self, request: Request) -> Reply:
        reply = await super()._reply(request)
        self._count_down()
        return reply

    def _count_down(self) -> None:
        self._unqueued -= 1
        if not self._unqueued:
            self._complete.set()

    async def _deliver(
        self, server: Server, request: Request, seed: int, messages: Messages, fields: Fields
    ) -> str:
        """Return the body of the response. The key of a request is the hash of its body and dialogue."""
        content = [request.dialogue_id, request.turn, seed, self.api.model, messages, fields]
        key = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        if self._round is None:
            self._complete.clear()
            self._round = self._loop.create_task(self._run_round())
        results = self._round
        self._queue[key] = request, fields
        self._count_down()
        result = (await results)[key]
        if isinstance(result, Exception):
            raise result
        return result

    async def _run_round(self) -> Results:
        """Return the results of all requests that wait for each other."""
        await self._complete.wait()
        queue, self._queue, self._round = self._queue, {}, None
        earlier = {key: self._earlier.pop(key) for key in queue if key in self._earlier}
        results: Results = {}
        new = {key: request for key, request in queue.items() if key not in earlier}
        jobs = await self._submit(new, results)
        for job in dict.fromkeys(earlier.values()):
            found, _ = await self._wait(job, is_earlier=True)
            results |= {k: found[k] for k in earlier if isinstance(found.get(k), str)}
        # Requests that failed in an earlier process are submitted again.
        jobs |= await self._submit({k: queue[k] for k in earlier if k not in results}, results)
        for job, keys in jobs.items():
            found, missing = await self._wait(job)
            results |= {key: found.get(key, missing) for key in keys}
        self._unqueued = len(queue)
        return results

    async def _submit(self, queue: Queue, results: Results) -> dict[str, list[str]]:
        """Submit requests; return the keys by job, and add errors to the results."""
        jobs = {}
        async for part in self._parts(queue, results):
            try:
                async with sdk_call(TRANSFER_SECONDS):
                    job = await self.api.submit_job(self.servers[0].client, [*part.values()])
            except ApiError as error:
                self._has_api &= error.status not in NO_BATCH_API
                results |= dict.fromkeys(part, error)
                continue
            jobs[job] = [*part]
            self._submitted_at[job] = time.time()
            with write_errors(self._path):
                line = JobLine(job, self._url, tuple(part), self._submitted_at[job])
                write_all(self._file, encode_line(to_plain(line)))
                os.fsync(self._file.fileno())
        return jobs

    async def _parts(self, queue: Queue, results: Results) -> AsyncIterator[dict[str, str]]:
        """Yield the requests of each job, as JSON, by key."""
        part, size = dict[str, str](), 0
        for key, asked in queue.items():
            text = await self._loop.run_in_executor(self._encoders, self._write, key, *asked)
            if isinstance(text, Exception):
                results[key] = text
                continue
            if part and (size + len(text) > MAX_BYTES or len(part) == MAX_REQUESTS):
                yield part
                part, size = {}, 0
            part[key] = text
            size += len(text)
        if part:
            yield part

    def _write(self, key: str, request: Request, fields: Fields) -> str | RequestError:
        """Return a request with its images as a part of a job, in JSON."""
        try:
            messages = self.api.messages(request, partial(encode_image, request))
        except RequestError as error:
            return error
        return json.dumps(self.api.job_request(key, messages, fields))

    async def _wait(self, job: str, *, is_earlier: bool = False) -> FinishedJob:
        """Return the results of a job when it has ended. Raises EngineError if it cannot be read."""
        delay, failures, server = FIRST_POLL_SECONDS, 0, self.servers[0]
        shown, shown_at = "", 0.0
        while True:
            state: FinishedJob | str | ApiError
            try:
                async with sdk_call(TRANSFER_SECONDS):
                    state = await self.api.fetch_job(server.client, job)
            except ApiError as error:
                state = error
            if isinstance(state, tuple):
                return state
            if isinstance(state, ApiError):
                failures += 1
                is_lost = not state.fault.is_temporary
                reason = f"batch job {job} cannot be read: {state.describe(server.endpoint)}"
                LOG.warning("%s: %s", self._url, reason)
                if is_lost and is_earlier:  # its requests are submitted again
                    return {}, state
                if is_lost or failures > MAX_POLL_FAILURES:
                    raise EngineError(f"{reason}. Resume with --continue to try again.")
            elif self._stage is not None:
                failures, age = 0, time.time() - self._submitted_at[job]
                is_news = state != shown or age > 2 * shown_at
                self._stage.describe(
                    f"batch job {truncate(job)}: {state}, submitted {format_duration(age)} ago; Ctrl-C stops"
                    " waiting, --continue waits for it again",
                    announce=is_news,
                )
                shown, shown_at = (state, age) if is_news else (shown, shown_at)
            await asyncio.sleep(delay)
            delay = min(2 * delay, MAX_POLL_SECONDS)
