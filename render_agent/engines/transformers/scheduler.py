"""The scheduler: places prompts in the cache, prefills them in batches, and generates their replies concurrently."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply
from render_agent.engines.memory.batches import Ceiling
from render_agent.engines.memory.faults import Fault, attempt, retry_delays
from render_agent.engines.transformers.decode import Decoder, can_use_triton
from render_agent.engines.transformers.fixed_shapes import MAX_PROMPTS, FixedShapes, blocks
from render_agent.engines.transformers.kv_cache import CachedSequence, KVCache
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import UnreadPrompt, next_position, prefill
from render_agent.engines.transformers.sampling import (
    INVALID,
    OnLogits,
    choose_tokens,
    most_likely_tokens,
)
from render_agent.engines.transformers.sequences import Sample

LOG = logging.getLogger(__name__)

GROW_AFTER_STEPS = 32  # steps without a fault until the row limit is doubled
GROW_AFTER_READS = 4  # prefill calls without a fault until the token limit is doubled

# Idle dialogues are evicted only while less than 1/4 of the dialogues in the cache are in progress: computing an evicted
# dialogue again takes longer than one more row per step saves.
EVICTION_RATIO = 4

# Parts that the start check can switch off.
GRAPHS, KERNELS, REUSE = "CUDA graphs", "fused kernels", "prefix reuse"


class Scheduler:
    """Runs samples through one model. `reading` are the samples to prefill next, `active` those being generated.

    Raises EngineError if the device is lost.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cache: KVCache,
        most_rows: int,
        read_tokens: int,  # prompt tokens per prefill call
        longest: int,
        deliver: Callable[[Sample, Reply], None],
        note: Callable[[str], None],
        # fixed shapes of all calls; None for shapes that fit the work
        shapes: FixedShapes | None = None,
    ) -> None:
        self.loaded = loaded
        self.cache = cache
        self.shapes = shapes
        if shapes is not None:
            most_rows, read_tokens = min(most_rows, shapes.rows), shapes.tokens
            cache.reuse = "blocks"
        self.most_rows = most_rows
        self.family = loaded.inputs.family
        self.axes = self.family.axes
        fixed_rows = shapes.rows if shapes else None
        decoder = loaded.model, cache, self.axes, loaded.suppressed, fixed_rows
        self._plain_decoder = self.decoder = Decoder(*decoder)
        if can_use_triton(loaded.model, cache):
            from render_agent.engines.transformers.gpu.cuda_graphs import GraphDecoder

            self.decoder = GraphDecoder(*decoder, most_rows, longest)
        self._fast_decoder = self.decoder
        self.active: list[Sample] = []
        self.reading: list[Sample] = []
        self.row_ceiling = Ceiling(GROW_AFTER_STEPS)
        self.read_tokens = read_tokens
        self.read_ceiling = Ceiling(GROW_AFTER_READS)
        self.calls = 0
        self.on_logits: OnLogits = lambda *_: None
        self._deliver = deliver
        self._note = note

    @property
    def fallbacks(self) -> tuple[tuple[str, ...], ...]:
        """Parts that can be switched off together, in the order in which the start check tries them."""
        if self.decoder is self._plain_decoder:
            return ((REUSE,),)
        return (GRAPHS,), (GRAPHS, KERNELS), (REUSE,)

    def switch_off(self, parts: Collection[str]) -> None:
        """Work without these parts, and with all others. Call it while no dialogue is cached."""
        self.decoder = self._plain_decoder if GRAPHS in parts else self._fast_decoder
        self.cache.uses_kernels = KERNELS not in parts
        if REUSE in parts:
            self.cache.reuse = "none"

    def place(self, sample: Sample) -> bool | None:
        """Reserve pages for a sample; return True on success, None if it must wait, False if it failed."""
        if (error := self.loaded.length_error(len(sample.ids))) is not None:
            self._deliver(sample, Reply(error=error))
            return False
        num_pinned = self.cache.num_pinned
        if num_pinned >= self.most_rows:
            return None
        evicts = num_pinned <= len(self.cache.sequences) // EVICTION_RATIO
        outcome = attempt(lambda: self._reserve_pages(sample, evicts), self._device)
        if not isinstance(outcome, Fault):
            self.reading += [sample] if outcome else []
            return outcome or None
        self._note_fault(outcome, 1)
        if self.cache.sequences:
            self.cache.budget = max(1, min(self.cache.budget, self.cache.bytes))
            self.cache.evict_idle()
            return None
        if self._retry(sample, outcome):
            return None
        self._fail(sample, outcome)
        return False

    def _reserve_pages(self, sample: Sample, evicts: bool) -> bool:
        """Reserve the pages of a sample's dialogue, or of a new sequence; return False if there are too few now."""
        prompt = sample.in_flight.prompt
        question = sample.request.dialogue_id if not sample.number else f"\0{id(sample)}"
        existing = self.cache.find_idle(question)
        sequence = existing or self.cache.add(question, prompt, sample.request.question_id)
        sample.placed = sequence
        sample.start = sequence.cached_tokens(prompt)
        sample.cached = min(sample.start, sequence.reused)
        sample.limit = self.loaded.reply_limit(sample.request, len(sample.ids))
        tokens = len(sample.ids) + sample.limit
        is_reserved: bool | None = None
        try:
            is_reserved = self.cache.reserve(sequence, sample.start, tokens, evicts)
        finally:
            if is_reserved is None or (existing is None and not is_reserved):
                self.cache.evict(sequence)
        if is_reserved:
            sequence.ids, sequence.prompt = sequence.ids[: sample.start], prompt
            sequence.pinned, sample.placed_at = True, time.perf_counter()
        return bool(is_reserved)

    def read(self) -> None:
        """Prefill the next placed prompts, or a chunk of a long one, in one call; choose the first tokens of replies."""
        max_tokens = self.read_ceiling.clamp(self.read_tokens)
        group = [self.reading[0]]
        for sample in self.reading[1 : MAX_PROMPTS if self.shapes else None]:
            if sum(other.unread for other in group) + sample.unread > max_tokens:
                break
            group.append(sample)
        self._read_group(group, max_tokens)

    def read_ahead(self, samples: Sequence[Sample]) -> None:
        """Prefill prompts that are requested later, as many as fit in one call, and leave their dialogues idle.

        The last token, or block with fixed shapes, is left to the request. So is what would need an eviction or causes a
        fault. Samples that remain unplaced are for the next call.
        """
        room = self.read_ceiling.clamp(self.read_tokens)
        ends: dict[Sample, int] = {}
        for sample in samples[:MAX_PROMPTS]:
            if attempt(partial(self._reserve_pages, sample, False), self._device) is not True:
                continue
            start, last = sample.start, len(sample.ids) - 1
            places = [end for _, end in blocks(sample.in_flight.prompt, start, last)]
            complete = places[:-1] if self.shapes else places
            end = max((place for place in complete if place - start <= room), default=start)
            if end > start:
                ends[sample] = end
                room -= end - start
            else:
                self.cache.unpin(sample.sequence)
                sample.placed = None if ends else sample.placed
        if not ends:
            return
        self.calls += 1
        outcome = attempt(partial(self._first_tokens, [*ends], [*ends.values()]), self._device)
        for sample, end in ends.items():
            if not isinstance(outcome, Fault):
                sample.sequence.ids = list(sample.ids[:end])
                sample.sequence.reused = sample.cached
            self.cache.unpin(sample.sequence)

    def _read_group(self, group: Sequence[Sample], max_tokens: int) -> None:
        """Prefill several prompts, or a chunk of a single one, in one call."""
        self.calls += 1
        ends = [self._chunk_end(sample, max_tokens) for sample in group]
        tokens = sum(
            end - len(sample.sequence.ids) for sample, end in zip(group, ends, strict=True)
        )
        outcome = attempt(lambda: self._first_tokens(group, ends), self._device)
        if not isinstance(outcome, Fault):
            if self.read_ceiling.record_success(tokens):
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
            self._append_tokens(read, outcome)
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
            self._read_group(group[:half], max_tokens)
            self._read_group(group[half:], max_tokens)
        elif not self._retry(group[0], outcome):
            self.reading.remove(group[0])
            self.cache.evict(group[0].sequence)
            self._fail(group[0], outcome)

    def read_prefix(self, prompts: Mapping[str, PreparedPrompt]) -> None:
        """Prefill the common prefix of several prompts once, for models with recurrent states."""
        if (prompt := self.cache.common_prefix(prompts)) is not None:
            prefix = attempt(lambda: self._prefill_alone(prompt), self._device)
            self.cache.set_prefix(CachedSequence("") if isinstance(prefix, Fault) else prefix)

    def _prefill_alone(self, prompt: PreparedPrompt) -> CachedSequence:
        """Prefill a prompt as a new sequence. Raises any error of the model and the allocator."""
        sequence = CachedSequence("", pinned=True)
        self.cache.sequences.append(sequence)
        try:
            if not self.cache.reserve(sequence, 0, len(prompt.ids), evicts=False):
                raise MemoryError("out of memory: no room in the cache")
            unread = [UnreadPrompt(prompt, sequence)]
            prefill(self.loaded.model, self.cache, unread, self.family).argmax().item()
        except BaseException:
            self.cache.evict(sequence)
            raise
        sequence.mark_read(prompt)
        return sequence

    def _chunk_end(self, sample: Sample, max_tokens: int) -> int:
        """Return the end of the next chunk of a prompt: one block, or as many as one call takes.

        With recurrent layers, prompts are not split, because only the state at the end of a call is stored.
        """
        if self.cache.states is not None:
            return len(sample.ids)
        start = len(sample.sequence.ids)
        ends = [end for _, end in blocks(sample.in_flight.prompt, start, len(sample.ids))]
        return max([ends[0], *(end for end in ends if end - start <= max_tokens)])

    def _first_tokens(self, group: Sequence[Sample], ends: Sequence[int]) -> list[int]:
        """Prefill prompts up to these ends; return the first tokens of the replies to complete prompts."""
        entries = []
        for sample, end in zip(group, ends, strict=True):
            prompt, start = sample.in_flight.prompt, len(sample.sequence.ids)
            for first, last in blocks(prompt, start, end) if self.shapes else [(start, end)]:
                tensors = sample.in_flight.image_tensors(first, last)
                entries.append(UnreadPrompt(prompt, sample.sequence, first, tensors, last))
        with torch.inference_mode():
            logits = prefill(self.loaded.model, self.cache, entries, self.family, self.shapes)
            ends_of_prompts = [n for n, e in enumerate(entries) if len(e.ids) == len(e.prompt.ids)]
            logits = logits if len(ends_of_prompts) == len(entries) else logits[ends_of_prompts]
            logits = self.decoder.suppress(logits)
            if ends[-1] < len(group[-1].ids):
                return []
            for sample in group:
                prompt = sample.in_flight.prompt
                sample.offset = next_position(prompt, self.axes) - len(sample.ids)
                sample.start_reply(self.loaded, sample.request, sample.number, prompt.text)
            self.on_logits(logits, group)
            return choose_tokens(logits, most_likely_tokens(logits), group, self.loaded.truncation)

    def step(self) -> None:
        """Generate one token of every active reply, or of as many as fit in memory."""
        rows = self.active[: self.row_ceiling.clamp(len(self.active))]
        self.calls += 1
        outcome = attempt(lambda: self._next_tokens(rows), self._device)
        if not isinstance(outcome, Fault):
            if self.row_ceiling.record_success(len(rows)):
                self._note("batch_grown")
            for row in rows:
                row.sequence.mark_written(row.written[-1])
                row.retries = 0
            self._append_tokens(rows, outcome)
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

    def _next_tokens(self, rows: Sequence[Sample]) -> list[int]:
        with torch.inference_mode():
            logits, most_likely = self.decoder.step(rows)
            self.on_logits(logits, rows)
            return choose_tokens(logits, most_likely, rows, self.loaded.truncation)

    def _append_tokens(self, rows: Sequence[Sample], tokens: Sequence[int]) -> None:
        """Append the chosen tokens, and deliver the replies that are complete, or whose scores are not numbers."""
        for row, token in zip(list(rows), tokens, strict=True):
            if token == INVALID:
                self.active.remove(row)
                self.cache.evict(row.sequence)
                self._deliver(row, Reply(error=self.loaded.invalid_scores()))
                continue
            row.append(token)
            row.rows_summed += len(rows)
            if row.is_finished(self.loaded.ends):
                self._finish(row)

    def _finish(self, sample: Sample) -> None:
        """Deliver a complete reply, and keep its pages for the next turn of the dialogue."""
        ended = sample.written[-1] in self.loaded.ends
        text = self.loaded.text(sample.written, sample.in_flight.prompt.text)
        tokens = Tokens(len(sample.ids), len(sample.written), sample.cached, sample.thought_tokens)
        seconds = time.perf_counter() - sample.placed_at
        mean_rows = max(1, round(sample.rows_summed / len(sample.written)))
        self.active.remove(sample)
        self.cache.unpin(sample.sequence)
        if sample.number:
            self.cache.evict(sample.sequence)
        finish: Literal["stop", "length"] = "stop" if ended else "length"
        self._deliver(sample, Reply((text,), tokens, seconds, mean_rows, finish))

    def _retry(self, sample: Sample, fault: Fault) -> bool:
        """Free memory, and wait on a GPU, for a sample that failed alone; return False if it should not be retried."""
        seconds = retry_delays(self._device)
        if not fault.out_of_memory or sample.retries >= len(seconds):
            return False
        self.cache.evict_idle()
        time.sleep(seconds[sample.retries])
        sample.retries += 1
        return True

    def _fail(self, sample: Sample, fault: Fault) -> None:
        error = self.loaded.fault_text(fault, sample.in_flight.prompt)
        if fault.out_of_memory and self.shapes is not None:
            error += " Without --reproducible on, calls can be smaller."
        self._deliver(sample, Reply(error=error))

    def close(self) -> None:
        """Release the memory of the cache and of CUDA graphs."""
        LOG.info("KV cache: %d bytes, %d dialogues evicted", self.cache.bytes, self.cache.evicted)
        self.decoder.drop()
        self.cache.close()

    @property
    def _device(self) -> Any:
        return self.loaded.model.device

    def _note_fault(self, fault: Fault, rows: int) -> None:
        if fault.out_of_memory:
            self._note("out_of_memory")
            LOG.warning("out of memory with %d rows", rows)
