"""A model of transformers that nothing waits for: replies are written side by side, each in its own row.

A reply is handed out as soon as it ends, and another prompt takes its place. A question keeps its
row from turn to turn, so that what was read before is not read again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from threading import Event
from typing import Any

from render_agent.engines.base import Capabilities, Reply, Request, Scores
from render_agent.engines.transformers.batch_sizing import Sizing
from render_agent.engines.transformers.decode_loop import RowWriter
from render_agent.engines.transformers.device_memory import memory_of
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.pretrained import first_line
from render_agent.engines.transformers.rows import Written, distinct_samples, reply_of
from render_agent.engines.transformers.samples import Asked, Sample, make_prompt
from render_agent.system.threads import begun_pool

LOG = logging.getLogger(__name__)

SCORED_TOGETHER = 16
"""Prompts whose choices are scored in one call at the most."""

PREPARING_THREADS = 2
"""Threads that make prompts while the model works."""

PATIENCE = 8
"""One reading for so many replies under way, but no prompt waits longer than so many steps."""


class ContinuousEngine:
    """Writes many replies side by side with one model, keys and values kept over the turns.

    budget: bytes that rows may take together. most_rows: replies written side by side at the most.
    dialogue_tokens: about how many a dialogue has in the end; no more are led side by side than fit then.
    read_tokens: prompt tokens, padding included, that one call reads. A sample that fails is its
    request's `Reply.error`. EngineError where the device is lost.
    """

    name = "transformers"

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
        self.rows = RowWriter(
            loaded, budget, most_rows, read_tokens, self._put_down, self._events.append
        )
        self._line: list[Sample] = []
        self._answered: list[tuple[Request, Reply]] = []
        self._preparing = begun_pool(PREPARING_THREADS, "preparing")
        self._woken = Event()

    @property
    def batch_size(self) -> int:
        """How many dialogues are best led side by side: as many as keep their rows to their ends."""
        table = self.rows.table
        row = self.dialogue_tokens * self.rows.slots.bytes_per_token
        return max(1, min(self.most_rows, table.budget // row if row else self.most_rows))

    @property
    def calls(self) -> int:
        """How often the model was called: to read prompts, or to write a token of every reply."""
        return self.rows.calls

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs, and that keys and values are reused."""
        return {**self.loaded.describe(), "reuse": "keys"}

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order (a barrier)."""
        self.submit(requests)
        wanted = {id(request) for request in requests}
        replies: dict[int, Reply] = {}
        others = []
        while len(replies) < len(wanted):
            for request, reply in self.ready():
                if id(request) in wanted:
                    replies[id(request)] = reply
                else:
                    others.append((request, reply))
        self._answered = others
        return [replies[id(request)] for request in requests]

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give; prompts are made beside the model's work."""
        for request in requests:
            dialogue = self.rows.table.of(request.question_id)
            before = dialogue.prompt.shown if dialogue and dialogue.prompt else ()
            seen = {picture.file for picture in before}
            made = self._preparing.submit(make_prompt, self.loaded.inputs, request, seen)
            asked = Asked(request, made)
            self._line += [Sample(asked, number) for number in range(distinct_samples(request))]

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Write until a reply has ended, and give it with those that ended with it."""
        until = None if timeout is None else time.perf_counter() + timeout
        while not self._answered and (self._line or self.rows.table.active):
            self._admit()
            if self.rows.table.active:
                self.rows.step()
            elif not self._answered:
                wait({sample.asked.made for sample in self._line}, timeout, FIRST_COMPLETED)
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
        """Give up the question's row and its pictures."""
        self.loaded.inputs.retire(question_id)
        if dialogue := self.rows.table.of(question_id):
            self.rows.table.evict(dialogue)

    def close(self) -> None:
        """Give back the memory of the rows and of the model."""
        from render_agent.engines.transformers.memory_faults import free_memory

        self._preparing.shutdown(cancel_futures=True)
        self.rows.close()
        self.loaded.model = None
        free_memory()

    def _admit(self) -> None:
        """Read the prompts that wait, where there is room and they are enough to be worth a call."""
        able = [sample for sample in self._line if self._is_able(sample)]
        for sample in able:
            sample.steps_waited += 1
        enough = max(1, self.rows.table.active // PATIENCE)
        if not able or (len(able) < enough and able[0].steps_waited < PATIENCE):
            return
        placed = []
        for sample in able:
            error = sample.asked.made.exception()
            if error is not None:
                LOG.warning("%s: prompt failed", sample.request.question_id, exc_info=error)
                self._line.remove(sample)
                self._put_down(sample, f"the prompt could not be prepared: {first_line(error)}")
                continue
            found = self.rows.place(sample)
            if found is None:
                break
            self._line.remove(sample)
            if found:
                placed.append(sample)
        self.rows.read(placed)

    def _is_able(self, sample: Sample) -> bool:
        """Whether a sample can be given a row: later ones copy what was read for the first."""
        asked = sample.asked
        if not asked.made.done():
            return False
        return not sample.number or 0 in asked.samples or self.rows.table.has_read(asked.prompt)

    def _put_down(self, sample: Sample, became: Written | str) -> None:
        """Keep what a sample became; the request is answered with its last one."""
        asked = sample.asked
        asked.samples[sample.number] = became
        if len(asked.samples) == distinct_samples(asked.request):
            samples = [asked.samples[number] for number in sorted(asked.samples)]
            events = tuple(self._events)
            self._events.clear()
            self._answered.append((asked.request, reply_of(asked.request, samples, events)))
