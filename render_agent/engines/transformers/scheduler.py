"""The scheduler: prompts are placed in the cache, read together, and their replies written side by side."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Several
from typing import Any, Literal

import torch

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply
from render_agent.engines.memory.faults import Fault, attempt, waits
from render_agent.engines.transformers.decode import Decoder, triton_runs
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, KVCache, Sequence
from render_agent.engines.transformers.memory.sizing import Ceiling
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import Unread, chunk_end, next_position, read
from render_agent.engines.transformers.sampling import choose_tokens
from render_agent.engines.transformers.sequences import Sample

LOG = logging.getLogger(__name__)

GROW_AFTER_STEPS = 32
"""Steps without a fault after which twice as many rows are written side by side."""

GROW_AFTER_READINGS = 4
"""Readings without a fault after which twice as many tokens are read in a call."""

LEAST_READ = PAGE_TOKENS
"""Tokens that a call reads of one prompt at the least: with fewer, it would take too many."""

FEW_ROWS = 4
"""One part in so many of the dialogues in the cache: while more are written, none is evicted for another.

To read an evicted dialogue again takes longer than one row more in a step saves.
"""


class Scheduler:
    """Takes samples through one model. `deliver` takes the reply of each, `note` what went wrong.

    read_tokens: prompt tokens that one call reads. most_rows: replies written side by side. `calls` counts the calls
    of the model; `reading` are the samples whose prompts are read next, `active` those whose replies are being
    written. EngineError where the device is lost, or where the model fails on whatever it is given.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cache: KVCache,
        most_rows: int,
        read_tokens: int,
        longest: int,
        deliver: Callable[[Sample, Reply], None],
        note: Callable[[str], None],
    ) -> None:
        self.loaded = loaded
        self.cache = cache
        self.most_rows = most_rows
        self.family = loaded.inputs.family
        self.axes = self.family.axes
        self.decoder: Decoder = decoder_of(
            loaded.model, cache, self.axes, loaded.suppressed, most_rows, longest
        )
        self.active: list[Sample] = []
        self.reading: list[Sample] = []
        self.row_ceiling = Ceiling(GROW_AFTER_STEPS)
        self.read_tokens = read_tokens
        self.read_ceiling = Ceiling(GROW_AFTER_READINGS)
        self.calls = 0
        self._deliver = deliver
        self._note = note

    @property
    def is_busy(self) -> bool:
        """Whether anything is under way."""
        return bool(self.reading or self.active)

    def place(self, sample: Sample) -> bool | None:
        """Find pages for a sample: True where it has them, None where it must wait, False where it failed."""
        if (error := self.loaded.length_error(len(sample.ids))) is not None:
            self._deliver(sample, Reply(error=error))
            return False
        under_way = self.cache.under_way
        if under_way >= self.most_rows:
            return None
        evicts = under_way <= len(self.cache.sequences) // FEW_ROWS
        outcome = attempt(lambda: self._pages(sample, evicts), self._device)
        if not isinstance(outcome, Fault):
            self.reading += [sample] if outcome else []
            return outcome or None
        self._note_fault(outcome, 1)
        if sample.placed is not None and sample.placed in self.cache.sequences:
            self.cache.evict(sample.sequence)
        if self.cache.sequences:
            self.cache.budget = max(1, min(self.cache.budget, self.cache.bytes))
            self.cache.evict_idle()
            return None
        if self._retry(sample, outcome):
            return None
        self._fail(sample, outcome)
        return False

    def _pages(self, sample: Sample, evicts: bool) -> bool:
        """Give a sample its question's pages, or new ones; whether there are enough now."""
        prompt = sample.in_flight.prompt
        question = sample.request.question_id if not sample.number else f"\0{id(sample)}"
        own = self.cache.of(question)
        pages = own or self.cache.begin(question, prompt, sample.request.about)
        pages.pinned, sample.placed = True, pages
        sample.start = pages.cached_tokens(prompt)
        sample.limit = self.loaded.reply_limit(sample.request, len(sample.ids))
        if self.cache.reserve(pages, sample.start, len(sample.ids) + sample.limit, evicts):
            pages.ids, pages.prompt = pages.ids[: sample.start], prompt
            sample.placed_at = time.perf_counter()
            return True
        pages.pinned = False
        if own is None:
            self.cache.evict(pages)
        return False

    def read(self) -> None:
        """Read prompts that are placed, as many as one call takes, and begin the replies of those that are read.

        A prompt that is longer than a call takes is read in parts, one in every call.
        """
        most = self.read_ceiling.of(self.read_tokens)
        group = [self.reading[0]]
        for sample in self.reading[1:]:
            if sum(other.unread for other in group) + sample.unread > most:
                break
            group.append(sample)
        self._read_group(group, most)

    def _read_group(self, group: Several[Sample], most: int) -> None:
        """Read some prompts, or a part of a single one, in one call."""
        self.calls += 1
        ends = [self._chunk_end(sample, most) for sample in group]
        tokens = sum(
            end - len(sample.sequence.ids) for sample, end in zip(group, ends, strict=True)
        )
        outcome = attempt(lambda: self._first_tokens(group, ends), self._device)
        if not isinstance(outcome, Fault):
            if self.read_ceiling.succeeded(tokens):
                self._note("batch_grown")
            for sample, end in zip(group, ends, strict=True):
                if end == len(sample.ids):
                    sample.sequence.mark_read(sample.in_flight.prompt)
                else:
                    sample.sequence.ids = list(sample.ids[:end])
                sample.retries = 0
            read = [sample for sample in group if not sample.unread]
            if read:
                self.cache.keep_prefix(read[0].sequence)
            self.reading = [sample for sample in self.reading if sample not in read]
            self.active += read
            self._take(read, outcome)
            return
        self._note_fault(outcome, len(group))
        if outcome.out_of_memory:
            self.decoder.drop()
            if len(group) > 1 or self._chunk_end(group[0], tokens // 2) < ends[0]:
                self.read_ceiling.lower(tokens // 2)
                self._note("batch_halved")
                return
        if len(group) > 1:
            half = (len(group) + 1) // 2
            self._read_group(group[:half], most)
            self._read_group(group[half:], most)
        elif not self._retry(group[0], outcome):
            self.reading.remove(group[0])
            self.cache.evict(group[0].sequence)
            self._fail(group[0], outcome)

    def read_prefix(self, prompts: Mapping[str, PreparedPrompt]) -> None:
        """Read by itself what questions' prompts begin with, where states are kept behind chosen tokens alone."""
        if (prompt := self.cache.common_prefix(prompts)) is not None:
            prefix = attempt(lambda: self._read_alone(prompt), self._device)
            self.cache.set_prefix(Sequence("") if isinstance(prefix, Fault) else prefix)

    def _read_alone(self, prompt: PreparedPrompt, evicts: bool = False) -> Sequence:
        """Return a dialogue that is nothing but this prompt, read. Raises what the model and the allocator raise.

        evicts: whether idle dialogues give way to it.
        """
        sequence = Sequence("", pinned=True)
        self.cache.sequences.append(sequence)
        try:
            if not self.cache.reserve(sequence, 0, len(prompt.ids), evicts):
                raise MemoryError("out of memory: the cache has no room for it now")
            unread = [Unread(prompt, sequence)]
            read(self.loaded.model, self.cache, unread, self.family).argmax().item()
        except BaseException:
            self.cache.evict(sequence)
            raise
        sequence.mark_read(prompt)
        return sequence

    def _chunk_end(self, sample: Sample, most: int) -> int:
        """Return up to where a prompt is read by a call that takes so many tokens.

        One of a model with recurrent states is read whole: a state is kept at its end alone.
        """
        if self.cache.states is not None:
            return len(sample.ids)
        return chunk_end(sample.in_flight.prompt, len(sample.sequence.ids), max(LEAST_READ, most))

    def _first_tokens(self, group: Several[Sample], ends: Several[int]) -> list[int]:
        """Read prompts up to these tokens into their pages; return the first tokens of replies to whole ones."""
        entries = []
        for sample, end in zip(group, ends, strict=True):
            start = len(sample.sequence.ids)
            values = sample.in_flight.values(start, end)
            entries.append(Unread(sample.in_flight.prompt, sample.sequence, start, values, end))
        with torch.inference_mode():
            logits = self.decoder.allowed(read(self.loaded.model, self.cache, entries, self.family))
            if ends[-1] < len(group[-1].ids):
                return []
            for sample in group:
                prompt = sample.in_flight.prompt
                sample.offset = next_position(prompt, self.axes) - len(sample.ids)
                sample.begin(self.loaded, sample.request, sample.number, prompt.text)
            return choose_tokens(logits, logits.argmax(-1), group, self.loaded.truncation)

    def step(self) -> None:
        """Write one token more of every reply, or of as many as fit."""
        rows = self.active[: self.row_ceiling.of(len(self.active))]
        self.calls += 1
        outcome = attempt(lambda: self._next_tokens(rows), self._device)
        if not isinstance(outcome, Fault):
            if self.row_ceiling.succeeded(len(rows)):
                self._note("batch_grown")
            for row in rows:
                row.sequence.mark_written(row.written[-1])
                row.retries = 0
            self._take(rows, outcome)
            return
        self._note_fault(outcome, len(rows))
        if outcome.out_of_memory and self.decoder.drop():
            return
        if len(rows) > 1:
            self.row_ceiling.lower(len(rows) // 2)
            self._note("batch_halved")
        elif not self._retry(rows[0], outcome):
            self.active.remove(rows[0])
            self.cache.evict(rows[0].sequence)
            self._fail(rows[0], outcome)

    def _next_tokens(self, rows: Several[Sample]) -> list[int]:
        with torch.inference_mode():
            logits, likeliest = self.decoder.step(rows)
            return choose_tokens(logits, likeliest, rows, self.loaded.truncation)

    def _take(self, rows: Several[Sample], tokens: Several[int]) -> None:
        """Go on behind the tokens that were chosen; replies that end are delivered."""
        for row, token in zip(list(rows), tokens, strict=True):
            row.take(token)
            row.rows_summed += len(rows)
            if row.ended(self.loaded.ends):
                self._end(row)

    def _end(self, sample: Sample) -> None:
        """Deliver a finished reply; its pages wait for the question's next turn."""
        ended = sample.written[-1] in self.loaded.ends
        text = self.loaded.text(sample.written, sample.in_flight.prompt.text)
        counted = Tokens(len(sample.ids), len(sample.written), sample.start, sample.thought_tokens)
        seconds = time.perf_counter() - sample.placed_at
        together = max(1, round(sample.rows_summed / len(sample.written)))
        self.active.remove(sample)
        self.cache.rest(sample.sequence)
        if sample.number:
            self.cache.evict(sample.sequence)
        finish: Literal["stop", "length"] = "stop" if ended else "length"
        self._deliver(sample, Reply((text,), counted, seconds, together, finish))

    def _retry(self, sample: Sample, fault: Fault) -> bool:
        """Make what room there is for a sample that failed alone; whether it should be tried again.

        Others may have filled a GPU for a while: there it is waited for.
        """
        seconds = waits(self._device)
        if not fault.out_of_memory or sample.retries >= len(seconds):
            return False
        self.cache.evict_idle()
        time.sleep(seconds[sample.retries])
        sample.retries += 1
        return True

    def _fail(self, sample: Sample, fault: Fault) -> None:
        self._deliver(sample, Reply(error=self.loaded.fault_text(fault, sample.in_flight.prompt)))

    def close(self) -> None:
        """Give back the memory of pages and graphs."""
        LOG.info(
            "the cache took %d bytes; %d dialogues were evicted",
            self.cache.bytes,
            self.cache.evicted,
        )
        self.decoder.drop()
        self.cache.close()

    @property
    def _device(self) -> Any:
        return self.loaded.model.device

    def _note_fault(self, fault: Fault, rows: int) -> None:
        if fault.out_of_memory:
            self._note("out_of_memory")
            LOG.warning("out of memory with %d rows", rows)


def decoder_of(
    model: Any, cache: KVCache, axes: int, suppressed: Several[int], most_rows: int, longest: int
) -> Decoder:
    """Return what decodes best on a model's device: on a GPU with Triton, CUDA graphs.

    longest: tokens of the longest dialogues that graphs are made for; others are decoded without them.
    """
    if not triton_runs(model, cache):
        return Decoder(model, cache, axes, suppressed)
    from render_agent.engines.transformers.gpu.cuda_graphs import GraphDecoder

    return GraphDecoder(model, cache, axes, suppressed, most_rows, longest)
