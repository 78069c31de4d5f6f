"""The in-process engine of models whose keys are not kept: a batch in one `generate` call of the library."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import (
    BatchingEngine,
    Capabilities,
    Reply,
    Request,
    Scores,
    reply_of,
)
from render_agent.engines.memory.device import DeviceMemory, memory_of, watched
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.memory.sizing import FREE_FRACTION, Sizing, fit_rows
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sampling import ChosenRows, Writing
from render_agent.engines.transformers.transformers_options import most_rows

if TYPE_CHECKING:
    from render_agent.engines.transformers.model.vision_cache import VisionCache

ROWS_ON_A_CPU = 16
"""A CPU is busy with few rows; more of them only wait longer for the last of them to end."""

PROBE_ROWS = 4
"""Rows of the call that shows what a batch needs."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sample of one request: a row of a batch, with the most tokens that its reply may have."""

    request: Request
    sample: int
    prompt: PreparedPrompt
    limit: int

    @property
    def tokens(self) -> int:
        """Those of its prompt and of its reply at the most."""
        return len(self.prompt.ids) + self.limit


class TransformersEngine(BatchingEngine):
    """Answers with any image-text-to-text model of transformers; Qwen3-VL is what it is made for.

    Requests of similar length go together, as many as memory holds; a batch that does not fit is halved, and what
    that teaches is kept. A row that fails is its request's `Reply.error`. EngineError where the device is lost.
    """

    name = "transformers"
    capabilities = Capabilities()

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        batch_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        memory: DeviceMemory | None = None,
        vision: VisionCache | None = None,
    ) -> None:
        """Take a model that is loaded.

        batch_size: rows in one call at the most; None for what memory holds. options: of all memory,
        `memory_fraction` is kept free, and `most_rows` is the most where memory holds more. memory: what to go
        by, by default that of the model's device. vision: what keeps pictures over the turns.
        """
        options = options or {}
        self.loaded, self.inputs = loaded, loaded.inputs
        self.capabilities = Capabilities(schema=loaded.guides is not None, score=True)
        self.memory = memory or memory_of(self.model)
        most = batch_size or most_rows(options, self.model.device, ROWS_ON_A_CPU)
        fraction = float(options.get("memory_fraction", FREE_FRACTION))
        self.sizing = Sizing(self.memory, 1 if self.inputs.family.alone else most, fraction)
        # Reading a prompt needs other memory than writing a reply does.
        self._scoring = Sizing(self.memory, self.sizing.most_rows, self.sizing.fraction)
        self.probing = batch_size is None
        self.vision = vision
        self._ready: dict[int, PreparedPrompt | str] = {}
        super().__init__(batch_size=self.sizing.most_rows)

    @property
    def model(self) -> Any:
        """The model itself."""
        return self.loaded.model

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs: its weights, place, libraries, way of sampling."""
        return {**self.loaded.describe(), "reuse": self.reuse}

    @property
    def reuse(self) -> str:
        """What is kept over the turns of a question."""
        return "none" if self.vision is None else "vision"

    @property
    def batch_size(self) -> int:
        """Requests in one call at the most: as many of the last batch's length as fit now."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._batch_size = self.sizing.most_rows = size

    def arrange(self, requests: Sequence[Request]) -> list[list[int]]:
        """Return the places of all requests, batch after batch, grouped by length."""
        return self.sizing.batches([self._length(request) for request in requests])

    def choose(self, requests: Sequence[Request]) -> list[int]:
        """Return the places of the request that waits longest and of those nearest to it in length."""
        return self.sizing.next_batch([self._length(request) for request in requests])

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request of one batch, in their order; rows that do not fit take turns."""
        became: list[list[Reply]] = []
        rows: list[Row] = []
        for request in requests:
            inputs = self._prepared(request)
            self._ready.pop(id(request), None)
            became.append([Reply(error=inputs)] if isinstance(inputs, str) else [])
            if not isinstance(inputs, str):
                limit = self.loaded.reply_limit(request, len(inputs.ids))
                samples = range(request.distinct_samples)
                rows += [Row(request, sample, inputs, limit) for sample in samples]
        written = iter(self._write(rows))
        for request, mine in zip(requests, became, strict=True):
            if not mine:
                mine.extend(islice(written, request.distinct_samples))
        replies = [
            reply_of(request, mine, max(part.seconds for part in mine))
            for request, mine in zip(requests, became, strict=True)
        ]
        replies[0] = replace(replies[0], events=self.sizing.take_events())
        return replies

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Return for every request, in their order, how likely each of its choices is."""
        from render_agent.engines.transformers.option_logprobs import score_choices

        self._scoring.most_rows = self.sizing.most_rows
        return score_choices(self.loaded, requests, choices, self._scoring)

    def close(self) -> None:
        """Give back the model's memory."""
        if self.vision is not None:
            self.vision.close()
        self.loaded.close()

    def retire(self, question_id: str) -> None:
        """Give up the pictures that were kept for a question."""
        self.inputs.retire(question_id)
        if self.vision is not None:
            self.vision.retire(question_id)

    def _call(self, batch: Sequence[Request]) -> list[Reply]:
        return self.answer(batch)

    def _length(self, request: Request) -> int:
        """Return the tokens that a request's row may have in the end; 0 where it cannot be asked."""
        inputs = self._prepared(request)
        if isinstance(inputs, str):
            return 0
        return len(inputs.ids) + self.loaded.reply_limit(request, len(inputs.ids))

    def _prepared(self, request: Request) -> PreparedPrompt | str:
        """Return a request's prompt, or in one sentence why there is none.

        Kept until the request is answered: which batch it is in depends on its length.
        """
        if id(request) not in self._ready:
            self._ready[id(request)] = self.loaded.prepare(request)
        return self._ready[id(request)]

    def _write(self, rows: Sequence[Row]) -> list[Reply]:
        """Return the reply of each row, or why it has none.

        Before the first of all, some write a token, to show what rows need.
        """
        if self.probing and len(rows) > 1:
            self.probing = False
            longest = sorted(rows, key=lambda row: -row.tokens)[:PROBE_ROWS]
            self._write([replace(row, limit=1) for row in longest])

        def tried(places: Sequence[int]) -> list[Reply] | Fault:
            self.calls += 1
            batch = [rows[place] for place in places]
            return attempt(lambda: self._measured(batch), self.model.device)

        fitted = fit_rows([row.tokens for row in rows], tried, self.sizing)
        if rows:
            self._batch_size = self.sizing.rows_that_fit(max(row.tokens for row in rows))
        return [
            Reply(error=self.loaded.fault_text(reply, row.prompt))
            if isinstance(reply, Fault)
            else reply
            for row, reply in zip(rows, fitted, strict=True)
        ]

    def _measured(self, rows: Sequence[Row]) -> list[Reply]:
        """Return the reply of each row, and note the memory that the call took, unless a larger batch was measured before."""
        owners = [(row.request.question_id, row.prompt.pixel_rows) for row in rows]
        showing = nullcontext() if self.vision is None else self.vision.showing(owners)
        if len(rows) * max(row.tokens for row in rows) < self.sizing.largest:
            with showing:
                return generate_rows(self.loaded, rows)
        with watched(self.memory) as needed, showing:
            written = generate_rows(self.loaded, rows)
        longest = max(len(row.prompt.ids) for row in rows) + max(w.tokens.reply for w in written)
        self.sizing.observe(len(rows) * longest, needed[0])
        return written


def generate_rows(loaded: LoadedModel, rows: Sequence[Row]) -> list[Reply]:
    """Return the reply of each row from one call of the library's `generate`. Raises whatever that causes."""
    began = time.perf_counter()
    device = loaded.model.device
    tensors = loaded.inputs.encode([row.prompt for row in rows], str(device))
    tensors = tensors.to(device=device, dtype=loaded.model.dtype)
    replies = [Writing(limit=row.limit) for row in rows]
    for reply, row in zip(replies, rows, strict=True):
        reply.begin(loaded, row.request, row.sample, row.prompt.text)
    with torch.inference_mode():
        loaded.model.generate(
            **tensors,
            do_sample=False,
            max_new_tokens=max(row.limit for row in rows),
            eos_token_id=loaded.ends or None,
            pad_token_id=loaded.pad,
            suppress_tokens=loaded.suppressed or None,
            logits_processor=[ChosenRows(replies, loaded.ends, loaded.truncation)],
        )
    seconds = time.perf_counter() - began
    questions = len({id(row.request) for row in rows})
    return [
        Reply(
            (loaded.text(reply.written, row.prompt.text),),
            Tokens(len(row.prompt.ids), len(reply.written), thought=reply.thought_tokens),
            seconds,
            questions,
            "stop" if reply.written[-1] in loaded.ends else "length",
        )
        for reply, row in zip(replies, rows, strict=True)
    ]
