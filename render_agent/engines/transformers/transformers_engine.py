"""The in-process engine of models whose keys and values are kept: replies are written side by side.

A reply is handed out as soon as it ends, and another prompt takes its place. A question keeps its
pages of the KV cache from turn to turn, so that what was read before is not read again.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Event
from typing import Any

from render_agent.engines.engine import Capabilities, Reply, Request, Scores, reply_of
from render_agent.engines.memory.device import memory_of
from render_agent.engines.transformers.memory.sizing import Sizing
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import new_cache
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.sequences import InFlightRequest, Sample, build_prompt
from render_agent.util.reasons import first_line

LOG = logging.getLogger(__name__)

SCORED_TOGETHER = 16
"""Prompts whose choices are scored in one call at the most."""

PREPARING_THREADS = 2
"""Threads that make prompts while the model works."""

SWITCH_SECONDS = 0.0005
"""Seconds for which another thread may keep the interpreter's lock while this one wants it: by default ten times as
many, half a step of a GPU."""

REPLIES_A_PROMPT = {"cpu": 4, "cuda": 8}
PATIENCE_STEPS = 8
"""A reading takes a prompt for so many replies under way, as was best on each kind of device, but none that has room
waits longer than so many steps."""

LEARNED_TURNS = 64
"""Turns after which the length of dialogues is what was seen, and no longer what was expected."""


class ContinuousEngine:
    """Writes many replies side by side with one model, keys and values kept over the turns.

    budget: bytes of the KV cache. most_rows: replies written side by side at the most. dialogue_tokens:
    about how many tokens a dialogue has in the cache, until turns show it. read_tokens: prompt tokens that one
    call reads. A sample that fails is its request's `Reply.error`. EngineError where the device is lost,
    or where the model fails on whatever it is given.
    """

    name = "transformers"
    reuse = "keys"

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        budget: int,
        most_rows: int,
        dialogue_tokens: int = 0,
        read_tokens: int = 8192,
    ) -> None:
        self.loaded = loaded
        self.most_rows = most_rows
        self.dialogue_tokens = dialogue_tokens
        self.capabilities = Capabilities(
            free_running=True, schema=loaded.guides is not None, score=True
        )
        self._scoring = Sizing(memory_of(loaded.model), SCORED_TOGETHER)
        self._events: list[str] = []
        self.cache = new_cache(loaded, budget, most_rows)
        self.scheduler = Scheduler(
            loaded,
            self.cache,
            most_rows,
            read_tokens,
            4 * dialogue_tokens,
            self._deliver,
            self._events.append,
        )
        self._turns = self._turn_tokens = self._steps_waited = 0
        self._queue: list[Sample] = []
        self._answered: list[tuple[Request, Reply]] = []
        self._preparing = ThreadPoolExecutor(PREPARING_THREADS, "preparing")
        self._switch_before = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_SECONDS)
        self._woken = Event()

    @property
    def batch_size(self) -> int:
        """How many dialogues fit side by side, by the tokens that they take."""
        tokens = self.dialogue_tokens
        if self._turns >= LEARNED_TURNS:
            tokens = self._turn_tokens // self._turns
        row = tokens * self.cache.bytes_per_token + self.cache.bytes_per_dialogue
        return max(1, min(self.most_rows, self.cache.budget // row if row else self.most_rows))

    @property
    def calls(self) -> int:
        """How often the model was called: to read prompts, or to write a token of every reply."""
        return self.scheduler.calls

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs, and that keys and values are reused."""
        return {**self.loaded.describe(), "reuse": self.reuse}

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order (a barrier)."""
        self.submit(requests)
        wanted = {id(request) for request in requests}
        answered: dict[int, tuple[Request, Reply]] = {}
        while not wanted <= answered.keys():
            answered |= {id(request): (request, reply) for request, reply in self.ready()}
        self._answered = [pair for key, pair in answered.items() if key not in wanted]
        return [answered[id(request)][1] for request in requests]

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give; prompts are made beside the model's work."""
        for request in requests:
            sequence = self.cache.of(request.question_id)
            before = sequence.prompt.shown if sequence and sequence.prompt else ()
            seen = {picture.file for picture in before}
            built = self._preparing.submit(build_prompt, self.loaded.inputs, request, seen)
            in_flight = InFlightRequest(request, built)
            self._queue += [Sample(in_flight, number) for number in range(request.distinct_samples)]

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Write until a reply has ended, and give it with those that ended with it."""
        until = None if timeout is None else time.perf_counter() + timeout
        scheduler = self.scheduler
        while not self._answered and (self._queue or scheduler.is_busy):
            if not scheduler.reading:
                self._admit()
            if scheduler.reading:
                scheduler.read()
            if scheduler.active:
                scheduler.step()
            elif scheduler.reading:
                continue
            elif self._queue and not self._answered:
                wait({sample.in_flight.built for sample in self._queue}, timeout, FIRST_COMPLETED)
            if self._woken.is_set() or (until is not None and time.perf_counter() >= until):
                break
        self._woken.clear()
        answered, self._answered = self._answered, []
        yield from answered

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Return for every request, in their order, how likely each of its choices is."""
        from render_agent.engines.transformers.option_logprobs import score_choices

        self._scoring.most_rows = min(self.batch_size, SCORED_TOGETHER)
        return score_choices(self.loaded, requests, choices, self._scoring)

    def wake(self) -> None:
        """Have `ready` give what it has after its next step."""
        self._woken.set()

    def retire(self, question_id: str) -> None:
        """Give up the question's pages and its pictures."""
        self.loaded.inputs.retire(question_id)
        if sequence := self.cache.of(question_id):
            self.cache.evict(sequence)

    def close(self) -> None:
        """Give back the memory of the cache and of the model."""
        sys.setswitchinterval(self._switch_before)
        self._preparing.shutdown(cancel_futures=True)
        self.scheduler.close()
        self.loaded.close()

    def _admit(self) -> None:
        """Place the prompts of one call, where there is room and enough of them wait to be worth it."""
        placeable_samples = [sample for sample in self._queue if self._is_placeable(sample)]
        placeable = min(len(placeable_samples), self.most_rows - self.cache.under_way)
        self._steps_waited += placeable > 0
        replies = REPLIES_A_PROMPT.get(self.loaded.model.device.type, PATIENCE_STEPS)
        enough = -(-len(self.scheduler.active) // replies)
        if not placeable or (placeable < enough and self._steps_waited < PATIENCE_STEPS):
            return
        self._steps_waited = 0
        # Whoever has pages comes first: they are not evicted for a dialogue that has none.
        placeable_samples.sort(key=lambda sample: self.cache.of(sample.request.question_id) is None)
        prepared = [
            sample for sample in placeable_samples if sample.in_flight.built.exception() is None
        ]
        self.scheduler.read_prefix(
            {s.request.about or s.request.question_id: s.in_flight.prompt for s in prepared}
        )
        for sample in placeable_samples:
            error = sample.in_flight.built.exception()
            if error is not None:
                LOG.warning("%s: prompt failed", sample.request.question_id, exc_info=error)
                self._queue.remove(sample)
                reason = f"the prompt could not be prepared: {first_line(error)}"
                self._deliver(sample, Reply(error=reason))
                continue
            if self.scheduler.place(sample) is None:
                break
            self._queue.remove(sample)
            unread = sum(other.unread for other in self.scheduler.reading)
            # The next ones share what these have read.
            if unread >= self.scheduler.read_tokens or self.cache.awaits_prefix:
                break

    def _is_placeable(self, sample: Sample) -> bool:
        """Whether a sample can be given pages: later ones share what was read for the first."""
        in_flight = sample.in_flight
        if not in_flight.built.done():
            return False
        return not sample.number or 0 in in_flight.samples or self.cache.has_read(in_flight.prompt)

    def _deliver(self, sample: Sample, reply: Reply) -> None:
        """Keep the reply of one sample; the request is answered with its last one."""
        in_flight = sample.in_flight
        in_flight.samples[sample.number] = reply
        if reply.error is None:
            self._turns += 1
            self._turn_tokens += reply.tokens.prompt + reply.tokens.reply
        if len(in_flight.samples) == in_flight.request.distinct_samples:
            samples = [in_flight.samples[number] for number in sorted(in_flight.samples)]
            seconds = max(sample.seconds for sample in samples)
            whole = reply_of(in_flight.request, samples, seconds, self._events)
            self._events.clear()
            self._answered.append((in_flight.request, whole))
