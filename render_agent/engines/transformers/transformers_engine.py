"""The in-process engine with continuous batching and reuse of the KV cache between turns.

A reply is returned as soon as it is complete, and the next prompt takes its place. A dialogue keeps its pages of the KV
cache from turn to turn, so that earlier tokens are not computed again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from render_agent.engines.engine import Capabilities, Reply, Request, Scores, merge_samples
from render_agent.engines.memory.batches import Batches
from render_agent.engines.transformers.fixed_shapes import fixed_shapes
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import new_cache
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.sequences import (
    BuiltPrompt,
    InFlightRequest,
    Sample,
    build_prompt,
)
from render_agent.util.reasons import first_line

LOG = logging.getLogger(__name__)

MAX_SCORING_ROWS = 16  # prompts per scoring call
PREPARING_THREADS = 2  # threads that build prompts while the model works

# Switch interval of the interpreter: the default of 5 ms would delay this thread by half a decoding step on a GPU.
SWITCH_SECONDS = 0.0005

# A prefill call waits until there is one prompt per this many active replies (measured per device), but at most
# MAX_WAIT_STEPS steps.
REPLIES_PER_PROMPT = {"cpu": 4, "cuda": 8}
MAX_WAIT_STEPS = 8

LEARNED_TURNS = 64  # turns after which the measured length of dialogues replaces the estimate


class ContinuousEngine:
    """Generates many replies concurrently with one model, and reuses the KV cache between turns.

    Raises EngineError if the device is lost.
    """

    name = "transformers"
    reuse = "keys"

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        budget: int,  # size of the KV cache in bytes
        most_rows: int,
        # estimated tokens per dialogue in the cache, until it is measured
        dialogue_tokens: int = 0,
        read_tokens: int = 8192,  # prompt tokens per prefill call
        reproducible: bool = False,
    ) -> None:
        self.loaded = loaded
        self.shapes = fixed_shapes(loaded.model, loaded.pad) if reproducible else None
        self.most_rows = most_rows = min(most_rows, self.shapes.rows if self.shapes else most_rows)
        self.dialogue_tokens = dialogue_tokens
        self.capabilities = Capabilities(
            streaming=True,
            guided_decoding=loaded.guides is not None,
            scoring=True,
            prefetch=not loaded.inputs.family.recurrent,
        )
        self._scoring = Batches(MAX_SCORING_ROWS)
        self._events: list[str] = []
        self.start_check: dict[str, Any] | None = None
        self.cache = new_cache(loaded, budget, most_rows)
        self.scheduler = Scheduler(
            loaded,
            self.cache,
            most_rows,
            read_tokens,
            4 * dialogue_tokens,
            self._deliver,
            self._events.append,
            self.shapes,
        )
        self._turns = self._turn_tokens = self._steps_waited = 0
        self._queue: list[Sample] = []
        self._ahead: dict[str, Sample] = {}
        self._answered: list[tuple[Request, Reply]] = []
        self._preparing = ThreadPoolExecutor(PREPARING_THREADS, "preparing")
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._woken = Event()

    @property
    def batch_size(self) -> int:
        """Number of dialogues that fit in the cache."""
        tokens = self.dialogue_tokens
        if self._turns >= LEARNED_TURNS:
            tokens = self._turn_tokens // self._turns
        row = tokens * self.cache.bytes_per_token + self.cache.bytes_per_dialogue
        return max(1, min(self.most_rows, self.cache.budget // row if row else self.most_rows))

    @property
    def calls(self) -> int:
        """Number of model calls so far: prefill calls and decoding steps."""
        return self.scheduler.calls

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        self.submit(requests)
        expected = {id(request) for request in requests}
        answered: dict[int, tuple[Request, Reply]] = {}
        while not expected <= answered.keys():
            answered |= {id(request): (request, reply) for request, reply in self.ready()}
        self._answered = [pair for key, pair in answered.items() if key not in expected]
        return [answered[id(request)][1] for request in requests]

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests; `ready` returns their replies. Prompts are built in other threads."""
        for request in requests:
            ahead = self._ahead.pop(request.dialogue_id, None)
            in_flight = InFlightRequest(request, _built(ahead, request) or self._build(request))
            self._queue += [Sample(in_flight, number) for number in range(request.distinct_samples)]

    def prefetch(self, requests: Sequence[Request]) -> None:
        for request in requests:
            in_flight = InFlightRequest(request, self._build(request))
            self._ahead[request.dialogue_id] = Sample(in_flight, 0)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        deadline = None if timeout is None else time.perf_counter() + timeout
        scheduler = self.scheduler
        while not self._answered and (self._queue or scheduler.reading or scheduler.active):
            if not scheduler.reading:
                self._admit()
            if scheduler.reading:
                scheduler.read()
            elif not self._queue:
                self._read_ahead()
            if scheduler.active:
                scheduler.step()
            elif scheduler.reading:
                continue
            elif self._queue and not self._answered:
                wait({sample.in_flight.built for sample in self._queue}, timeout, FIRST_COMPLETED)
            if self._woken.is_set() or (deadline is not None and time.perf_counter() >= deadline):
                break
        self._woken.clear()
        answered, self._answered = self._answered, []
        yield from answered

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        from render_agent.engines.transformers.option_logprobs import score_choices

        self._scoring.most_rows = 1 if self.shapes else min(self.batch_size, MAX_SCORING_ROWS)
        return score_choices(self.loaded, requests, choices, self._scoring)

    def await_prompts(self) -> None:
        """Wait until the prompts of all queued and prefetched requests are built."""
        wait({sample.in_flight.built for sample in [*self._queue, *self._ahead.values()]})

    def forget(self, dialogue_ids: Sequence[str]) -> None:
        """Remove all traces of dialogues, which were the first ones and may have failed at any step."""
        for unfinished in (self._queue, self.scheduler.reading, self.scheduler.active):
            unfinished.clear()
        for sequence in [*self.cache.sequences]:
            self.cache.evict(sequence)
        for dialogue_id in dialogue_ids:
            self.retire(dialogue_id)
        self.cache.drop_prefix()
        self._turns = self._turn_tokens = self.scheduler.calls = 0

    def wake(self) -> None:
        """Make `ready` return after its next step."""
        self._woken.set()

    def retire(self, dialogue_id: str) -> None:
        """Drop the cached pages and images of a dialogue."""
        self.loaded.inputs.retire(dialogue_id)
        self._ahead.pop(dialogue_id, None)
        if sequence := self.cache.find_idle(dialogue_id):
            self.cache.evict(sequence)

    def release(self) -> None:
        """Release everything but the model."""
        sys.setswitchinterval(self._switch_before)
        self._preparing.shutdown(cancel_futures=True)
        self.scheduler.close()

    def close(self) -> None:
        self.release()
        self.loaded.close()

    def _build(self, request: Request) -> Future[BuiltPrompt]:
        """Build a prompt in another thread."""
        sequence = self.cache.find_idle(request.dialogue_id)
        earlier = sequence.prompt.images if sequence and sequence.prompt else ()
        seen = {image.file for image in earlier}
        return self._preparing.submit(build_prompt, self.loaded.inputs, request, seen)

    def _read_ahead(self) -> None:
        """Read the prompts built ahead once there are as many as active replies, so that each call reads several."""
        waiting = [sample for sample in self._ahead.values() if sample.placed is None]
        built = [
            s for s in waiting if s.in_flight.built.done() and not s.in_flight.built.exception()
        ]
        if built and len(built) >= len(self.scheduler.active):
            self.scheduler.read_ahead(built)

    def _admit(self) -> None:
        """Place the prompts of the next prefill call, if enough of them are waiting and there is room."""
        candidates = [sample for sample in self._queue if self._is_placeable(sample)]
        placeable = min(len(candidates), self.most_rows - self.cache.num_pinned)
        self._steps_waited += placeable > 0
        replies = REPLIES_PER_PROMPT.get(self.loaded.model.device.type, MAX_WAIT_STEPS)
        enough = -(-len(self.scheduler.active) // replies)
        if not placeable or (placeable < enough and self._steps_waited < MAX_WAIT_STEPS):
            return
        self._steps_waited = 0
        # Dialogues in the cache come first, so that they are not evicted for new ones.
        candidates.sort(key=lambda sample: self.cache.find_idle(sample.request.dialogue_id) is None)
        prepared = [sample for sample in candidates if sample.in_flight.built.exception() is None]
        self.scheduler.read_prefix({s.request.question_id: s.in_flight.prompt for s in prepared})
        for sample in candidates:
            error = sample.in_flight.built.exception()
            if error is not None:
                LOG.warning("%s: the prompt failed", sample.request.dialogue_id, exc_info=error)
                self._queue.remove(sample)
                reason = f"the prompt could not be prepared: {first_line(error)}"
                self._deliver(sample, Reply(error=reason))
                continue
            if self.scheduler.place(sample) is None:
                break
            self._queue.remove(sample)
            unread = sum(other.unread for other in self.scheduler.reading)
            # Later samples can share the prefix that these compute.
            if unread >= self.scheduler.read_tokens or self.cache.needs_prefix:
                break

    def _is_placeable(self, sample: Sample) -> bool:
        """True if the prompt is built and, for further samples, the first one has been prefilled to share it."""
        in_flight = sample.in_flight
        if not in_flight.built.done():
            return False
        return not sample.number or 0 in in_flight.samples or self.cache.has_read(in_flight.prompt)

    def _deliver(self, sample: Sample, reply: Reply) -> None:
        """Store the reply of one sample; the last one completes the request."""
        in_flight = sample.in_flight
        in_flight.samples[sample.number] = reply
        if reply.error is None:
            self._turns += 1
            self._turn_tokens += reply.tokens.prompt + reply.tokens.reply
        if len(in_flight.samples) == in_flight.request.distinct_samples:
            samples = [in_flight.samples[number] for number in sorted(in_flight.samples)]
            seconds = max(sample.seconds for sample in samples)
            reply = merge_samples(in_flight.request, samples, seconds, self._events)
            self._events.clear()
            self._answered.append((in_flight.request, reply))


def _built(ahead: Sample | None, request: Request) -> Future[BuiltPrompt] | None:
    """Return the prompt that was built ahead for a request; None if there is none, or if building it failed."""
    if ahead is None or ahead.request.messages is not request.messages:
        return None
    built = ahead.in_flight.built
    return None if built.done() and built.exception() else built
