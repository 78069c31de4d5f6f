"""Reads prompts into rows and writes replies behind them, many at a time; what does not fit is halved."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from render_agent.dialogue.state import Tokens
from render_agent.engines.transformers.batch_sizing import Ceiling
from render_agent.engines.transformers.forward import Unread, read, unread, write
from render_agent.engines.transformers.guarded_call import Fault, attempt
from render_agent.engines.transformers.kv_cache import RowSlots
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.prefill import StepCeiling, alike
from render_agent.engines.transformers.rows import Written
from render_agent.engines.transformers.samples import Sample
from render_agent.engines.transformers.sequences import Writing, choose
from render_agent.engines.transformers.slot_manager import Dialogue, RowTable
from render_agent.engines.transformers.tokenization import PreparedPrompt

LOG = logging.getLogger(__name__)


class RowWriter:
    """The rows of one model. `put_down` is told what each sample became, `note` what went wrong.

    budget: bytes that rows may take together. most_rows: rows at the most. read_tokens: prompt
    tokens, padding included, that one call reads. `calls` counts the calls of the model. EngineError
    where the device is lost.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        budget: int,
        most_rows: int,
        read_tokens: int,
        put_down: Callable[[Sample, Written | str], None],
        note: Callable[[str], None],
    ) -> None:
        self.loaded = loaded
        self.slots = RowSlots()
        self.table = RowTable(self.slots, budget, most_rows)
        self.ceiling = StepCeiling()
        self.read_tokens = read_tokens
        self.read_ceiling = Ceiling()
        self.calls = 0
        self._put_down = put_down
        self._note = note
        self._learn()

    def _learn(self) -> None:
        """Read one token, to see what a token's keys and values take."""
        import torch

        first = unread(self.loaded, PreparedPrompt("", ids=(self.loaded.pad,)))
        with torch.inference_mode():
            self.slots.learn(read(self.loaded.model, self.slots, [first], self.loaded.pad)[1])

    def place(self, sample: Sample) -> bool | None:
        """Find a row for a sample: True where it has one, None where it must wait, False where it failed."""
        if (wrong := self.loaded.too_long(len(sample.ids))) is not None:
            self._put_down(sample, wrong)
            return False
        question = sample.request.question_id if not sample.number else f"\0{id(sample)}"
        mine = self.table.of(question)
        if mine is not None:
            mine.held = True
        made = attempt(lambda: self._row(mine, question, self._room(sample)), self._device)
        if mine is not None and not isinstance(made, Dialogue):
            mine.held = False
        if isinstance(made, Fault):
            return self._make_do(sample, mine, made)
        if made is None:
            return None
        if mine is None:
            self.table.begin(made, sample.asked.prompt)
        made.held, made.room = True, self._room(sample)
        sample.dialogue, sample.start = made, self.table.known(made, sample.asked.prompt)
        sample.since = time.perf_counter()
        return True

    def read(self, samples: Sequence[Sample]) -> None:
        """Read the prompts of samples that have rows, those of similar length together, and begin their replies."""
        known = self.read_ceiling.tokens
        most = self.read_tokens if known is None else min(known, self.read_tokens)
        for group in alike(samples, lambda sample: sample.unread, most):
            self._read_group(group)

    def _read_group(self, group: Sequence[Sample]) -> None:
        """Read some prompts in one call; what does not fit is halved."""
        self.calls += 1
        tokens = len(group) * max(sample.unread for sample in group)
        outcome = attempt(lambda: self._read(group), self._device)
        if not isinstance(outcome, Fault):
            if self.read_ceiling.succeeded(len(group), tokens, 0, 0):
                self._note("batch_grown")
            self._begin(group, *outcome)
            return
        self._tell(outcome, len(group))
        if len(group) > 1:
            if outcome.out_of_memory:
                self.read_ceiling.failed(len(group), tokens, 0)
                self._note("batch_halved")
            half = (len(group) + 1) // 2
            self._read_group(group[:half])
            self._read_group(group[half:])
            return
        (sample,) = group
        if outcome.out_of_memory and self.table.spare:
            self.table.evict_idle()
            self._read_group(group)
            return
        assert sample.dialogue is not None
        self.table.evict(sample.dialogue)
        self._put_down(sample, self.loaded.alone(outcome, sample.asked.prompt))

    def step(self) -> None:
        """Write one token more of every reply, or of as many as fit."""
        count = self.ceiling.of(self.table.active)
        together = self.table.dialogues[:count]
        rows = [dialogue.writing for dialogue in together if dialogue.writing is not None]
        last = [row.ids[-1] for row in rows]
        places = [self.slots.lengths[place] + row.offset for place, row in enumerate(rows)]
        self.calls += 1
        outcome = attempt(lambda: self._write(last, places), self._device)
        if not isinstance(outcome, Fault):
            if self.ceiling.succeeded(count):
                self._note("batch_grown")
            for dialogue, token in zip(together, last, strict=True):
                self.slots.lengths[dialogue.row] += 1
                dialogue.ids.append(token)
            self._go_on(together, outcome)
            return
        self._tell(outcome, count)
        if count > 1:
            self.ceiling.failed(count)
            self._note("batch_halved")
        elif outcome.out_of_memory and self.table.spare:
            self.table.evict_idle()
        else:
            self._give_up(together[0], outcome)

    def close(self) -> None:
        """Give back the memory of the rows."""
        LOG.info(
            "rows took %d bytes at the most; %d were given up for others",
            self.slots.most_bytes,
            self.table.evicted,
        )
        self.slots = RowSlots()
        self.table = RowTable(self.slots, 0, 0)

    @property
    def _device(self) -> Any:
        return self.loaded.model.device

    def _room(self, sample: Sample) -> int:
        """Return how many tokens a sample's row must have room for."""
        return len(sample.ids) + self.loaded.reply_limit(sample.request, len(sample.ids))

    def _row(self, mine: Dialogue | None, question: str, tokens: int) -> Dialogue | None:
        """Return the question's row with room for so many tokens, or a new one; None where none is free."""
        if mine is None:
            return self.table.take(question, tokens)
        if not self.table.room(tokens):
            return None
        self.table.reserve(len(self.table.dialogues), tokens)
        return mine

    def _make_do(self, sample: Sample, mine: Dialogue | None, fault: Fault) -> bool | None:
        """Go on where a row could not be made: with fewer rows once others have ended, or fail alone."""
        self._tell(fault, 1)
        if any(dialogue is not mine for dialogue in self.table.dialogues):
            self.table.budget = max(1, min(self.table.budget, self.slots.bytes))
            self.table.evict_idle()
            return None
        self._put_down(sample, self.loaded.alone(fault, sample.asked.prompt))
        return False

    def _read(self, group: Sequence[Sample]) -> tuple[Any, list[int]]:
        """Return the logits behind some prompts, whose keys and values now stand in their rows."""
        import torch

        with torch.inference_mode():
            entries = [self._unread(sample) for sample in group]
            logits, written = read(self.loaded.model, self.slots, entries, self.loaded.pad)
            for place, entry in enumerate(entries):
                self.slots.lengths[entry.row] = len(entry.ids)
                self.slots.put(entry.row, entry.start, written, place)
            return logits, [entry.offset for entry in entries]

    def _unread(self, sample: Sample) -> Unread:
        assert sample.dialogue is not None
        values = sample.asked.values(sample.start)
        return unread(self.loaded, sample.asked.prompt, sample.dialogue.row, sample.start, values)

    def _begin(self, group: Sequence[Sample], logits: Any, offsets: Sequence[int]) -> None:
        """Choose the first token of every reply, and let the rows be written."""
        begun: list[Dialogue] = []
        for sample, offset in zip(group, offsets, strict=True):
            dialogue = sample.dialogue
            assert dialogue is not None
            dialogue.ids, dialogue.prompt = list(sample.ids), sample.asked.prompt
            dialogue.held = False
            dialogue.writing = self._writing(sample, offset)
            begun.append(dialogue)
        self.table.share(begun[0])
        for dialogue in begun:
            self.table.activate(dialogue)
        self._go_on(begun, logits)

    def _writing(self, sample: Sample, offset: int) -> Writing:
        request, guides = sample.request, self.loaded.guides
        held = guides is not None and request.schema is not None
        return Writing(
            request,
            sample.number,
            sample,
            self.loaded.reply_limit(request, len(sample.ids)),
            offset,
            guide=guides.start(request.schema, sample.asked.prompt.text) if held else None,
            forced=self.loaded.forced(request),
        )

    def _write(self, last: Sequence[int], places: Sequence[int]) -> Any:
        import torch

        with torch.inference_mode():
            return write(
                self.loaded.model, self.slots, last, places, self.loaded.inputs.family.axes
            )

    def _go_on(self, together: Sequence[Dialogue], logits: Any) -> None:
        """Choose the next token of some rows; those that end are put down."""
        loaded = self.loaded
        rows = [dialogue.writing for dialogue in together if dialogue.writing is not None]
        tokens = choose(logits, rows, loaded.suppressed, loaded.truncation)
        for dialogue, row, token in zip(list(together), rows, tokens, strict=True):
            row.take(token, len(rows))
            if token in loaded.ends or row.full:
                self._end(dialogue, row)

    def _end(self, dialogue: Dialogue, row: Writing) -> None:
        """Put a finished reply down; its row waits for the question's next turn."""
        sample: Sample = row.owner
        ended = row.ids[-1] in self.loaded.ends
        text = self.loaded.text(row.ids[:-1] if ended else row.ids)
        counted = Tokens(len(sample.ids), len(row.ids), sample.start)
        seconds = time.perf_counter() - sample.since
        together = max(1, round(row.beside / len(row.ids)))
        self.table.rest(dialogue)
        if sample.number:
            self.table.evict(dialogue)
        self._put_down(sample, Written(text, counted, seconds, together, not ended))

    def _give_up(self, dialogue: Dialogue, fault: Fault) -> None:
        assert dialogue.writing is not None
        sample: Sample = dialogue.writing.owner
        self.table.rest(dialogue)
        self.table.evict(dialogue)
        self._put_down(sample, self.loaded.alone(fault, sample.asked.prompt))

    def _tell(self, fault: Fault, rows: int) -> None:
        if fault.out_of_memory:
            self._note("out_of_memory")
            LOG.warning("out of memory with %d rows", rows)
