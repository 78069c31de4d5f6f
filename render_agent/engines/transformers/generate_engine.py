"""The in-process engine without reuse of the KV cache: one call of the library's `generate` per batch."""

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
    merge_samples,
)
from render_agent.engines.memory.device import DeviceMemory, device_memory, measure_peak
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sampling import PartialReply, TokenForcer
from render_agent.engines.transformers.sizing import FREE_FRACTION, Sizing, fit_rows
from render_agent.engines.transformers.transformers_options import most_rows

if TYPE_CHECKING:
    from render_agent.engines.transformers.model.vision_cache import VisionCache

MAX_CPU_ROWS = 16  # more rows are not faster on a CPU, but all wait for the last reply
PROBE_ROWS = 4  # rows of the first call, which measures the memory that a batch needs


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row of a batch: one sample of a request."""

    request: Request
    sample: int
    prompt: PreparedPrompt
    limit: int  # maximum number of tokens of the reply

    @property
    def tokens(self) -> int:
        """Tokens of the prompt plus the limit of the reply."""
        return len(self.prompt.ids) + self.limit


class TransformersEngine(BatchingEngine):
    """Runs any image-text-to-text model of transformers; developed for Qwen3-VL.

    Requests of similar length are batched, as many as fit in memory. A batch that does not fit is halved, and later
    batches are smaller, too. Raises EngineError if the device is lost.
    """

    name = "transformers"
    capabilities = Capabilities()

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        # maximum number of rows per call; None for as many as fit in memory
        batch_size: int | None = None,
        options: Mapping[str, Any] | None = None,
        memory: DeviceMemory | None = None,
        vision: VisionCache | None = None,
    ) -> None:
        options = options or {}
        self.loaded, self.inputs = loaded, loaded.inputs
        self.capabilities = Capabilities(guided_decoding=loaded.guides is not None, scoring=True)
        self.memory = memory or device_memory(self.model)
        max_rows = batch_size or most_rows(options, self.model.device, MAX_CPU_ROWS)
        fraction = float(options.get("memory_fraction", FREE_FRACTION))
        self.sizing = Sizing(self.memory, 1 if self.inputs.family.alone else max_rows, fraction)
        # Scoring needs a different amount of memory than generating.
        self._scoring = Sizing(self.memory, self.sizing.most_rows, self.sizing.fraction)
        self.probing = batch_size is None
        self.vision = vision
        self._prompts: dict[int, PreparedPrompt | str] = {}
        super().__init__(batch_size=self.sizing.most_rows)

    @property
    def model(self) -> Any:
        return self.loaded.model

    @property
    def reuse(self) -> str:
        """What is reused between the turns of a question: `vision` or `none`."""
        return "none" if self.vision is None else "vision"

    @property
    def batch_size(self) -> int:
        """Maximum number of requests per call: how many of the last batch's length fit in memory."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._batch_size = self.sizing.most_rows = size

    def arrange(self, requests: Sequence[Request]) -> list[list[int]]:
        """Split the indices of all requests into batches of similar length."""
        return self.sizing.batches([self._length(request) for request in requests])

    def choose(self, requests: Sequence[Request]) -> list[int]:
        """Return the indices of the oldest request and of those closest to it in length."""
        return self.sizing.next_batch([self._length(request) for request in requests])

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request of one batch, in the same order; the batch is split if it does not fit."""
        parts: list[list[Reply]] = []
        rows: list[BatchRow] = []
        for request in requests:
            prompt = self._prepare(request)
            self._prompts.pop(id(request), None)
            parts.append([Reply(error=prompt)] if isinstance(prompt, str) else [])
            if not isinstance(prompt, str):
                limit = self.loaded.reply_limit(request, len(prompt.ids))
                samples = range(request.distinct_samples)
                rows += [BatchRow(request, sample, prompt, limit) for sample in samples]
        row_replies = iter(self._generate(rows))
        for request, own in zip(requests, parts, strict=True):
            if not own:
                own.extend(islice(row_replies, request.distinct_samples))
        replies = [
            merge_samples(request, own, max(part.seconds for part in own))
            for request, own in zip(requests, parts, strict=True)
        ]
        replies[0] = replace(replies[0], events=self.sizing.take_events())
        return replies

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        from render_agent.engines.transformers.option_logprobs import score_choices

        self._scoring.most_rows = self.sizing.most_rows
        return score_choices(self.loaded, requests, choices, self._scoring)

    def close(self) -> None:
        if self.vision is not None:
            self.vision.close()
        self.loaded.close()

    def retire(self, dialogue_id: str) -> None:
        """Drop the cached images of a question."""
        self.inputs.retire(dialogue_id)
        if self.vision is not None:
            self.vision.retire(dialogue_id)

    def _call(self, batch: Sequence[Request]) -> list[Reply]:
        return self.answer(batch)

    def _length(self, request: Request) -> int:
        """Return the maximum number of tokens of a request's row; 0 if it has no prompt."""
        prompt = self._prepare(request)
        if isinstance(prompt, str):
            return 0
        return len(prompt.ids) + self.loaded.reply_limit(request, len(prompt.ids))

    def _prepare(self, request: Request) -> PreparedPrompt | str:
        """Return the prompt of a request, or an error message.

        It is cached until the request is answered, because its length is needed earlier, for batching.
        """
        if id(request) not in self._prompts:
            self._prompts[id(request)] = self.loaded.prepare(request)
        return self._prompts[id(request)]

    def _generate(self, rows: Sequence[BatchRow]) -> list[Reply]:
        """Return the reply or the error of each row.

        The first call is preceded by one that generates a single token, to measure the memory that rows need.
        """
        if self.probing and len(rows) > 1:
            self.probing = False
            longest = sorted(rows, key=lambda row: -row.tokens)[:PROBE_ROWS]
            self._generate([replace(row, limit=1) for row in longest])

        def generate_batch(indices: Sequence[int]) -> list[Reply] | Fault:
            self.calls += 1
            batch = [rows[index] for index in indices]
            return attempt(lambda: self._generate_measured(batch), self.model.device)

        results = fit_rows([row.tokens for row in rows], generate_batch, self.sizing)
        if rows:
            self._batch_size = self.sizing.rows_that_fit(max(row.tokens for row in rows))
        return [
            Reply(error=self.loaded.fault_text(result, row.prompt))
            if isinstance(result, Fault)
            else result
            for row, result in zip(rows, results, strict=True)
        ]

    def _generate_measured(self, rows: Sequence[BatchRow]) -> list[Reply]:
        """Return the reply of each row; measure the memory if no larger batch was measured before."""
        owners = [(row.request.dialogue_id, row.prompt.pixel_rows) for row in rows]
        ownership = nullcontext() if self.vision is None else self.vision.owned_by(owners)
        if len(rows) * max(row.tokens for row in rows) < self.sizing.largest:
            with ownership:
                return generate_rows(self.loaded, rows)
        with measure_peak(self.memory) as needed, ownership:
            replies = generate_rows(self.loaded, rows)
        longest_prompt = max(len(row.prompt.ids) for row in rows)
        longest = longest_prompt + max(reply.tokens.reply for reply in replies)
        self.sizing.observe(len(rows) * longest, needed[0])
        return replies


def generate_rows(loaded: LoadedModel, rows: Sequence[BatchRow]) -> list[Reply]:
    """Return the reply of each row from one call of the library's `generate`. Raises any error of that call."""
    began = time.perf_counter()
    device = loaded.model.device
    tensors = loaded.inputs.encode([row.prompt for row in rows])
    tensors = tensors.to(device=device, dtype=loaded.model.dtype)
    replies = [PartialReply(limit=row.limit) for row in rows]
    for reply, row in zip(replies, rows, strict=True):
        reply.start_reply(loaded, row.request, row.sample, row.prompt.text)
    with torch.inference_mode():
        loaded.model.generate(
            **tensors,
            do_sample=False,
            max_new_tokens=max(row.limit for row in rows),
            eos_token_id=loaded.ends or None,
            pad_token_id=loaded.pad,
            suppress_tokens=loaded.suppressed or None,
            logits_processor=[TokenForcer(replies, loaded.ends, loaded.truncation)],
        )
    seconds = time.perf_counter() - began
    questions = len({id(row.request) for row in rows})
    return [
        Reply(error=loaded.invalid_scores(), seconds=seconds, batch_size=questions)
        if reply.invalid
        else Reply(
            (loaded.text(reply.written, row.prompt.text),),
            Tokens(len(row.prompt.ids), len(reply.written), thought=reply.thought_tokens),
            seconds,
            questions,
            "stop" if reply.written[-1] in loaded.ends else "length",
        )
        for reply, row in zip(replies, rows, strict=True)
    ]
