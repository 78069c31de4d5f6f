"""The in-process engine without reuse of the KV cache: one call of the library's `generate` per batch."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

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
from render_agent.engines.memory.batches import Batches
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sampling import OnLogits, PartialReply, TokenForcer
from render_agent.engines.transformers.transformers_options import most_rows

MAX_CPU_ROWS = 8  # more rows are not faster on a CPU, but all wait for the last reply


@dataclass(frozen=True, slots=True)
class BatchRow:
    """One row of a batch: one sample of a request."""

    request: Request
    sample: int
    prompt: PreparedPrompt


class TransformersEngine(BatchingEngine):
    """Runs any image-text-to-text model of transformers; developed for Qwen3-VL.

    A batch that does not fit in memory is halved, and later batches are smaller, too. Raises EngineError if the device is
    lost.
    """

    name = "transformers"
    reuse = "none"

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        batch_size: int | None = None,  # maximum number of rows per call
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.loaded, self.inputs = loaded, loaded.inputs
        self.capabilities = Capabilities(guided_decoding=loaded.guides is not None, scoring=True)
        max_rows = batch_size or most_rows(options or {}, self.model.device, MAX_CPU_ROWS)
        self.batches = Batches(1 if self.inputs.family.alone else max_rows)
        # Scoring needs a different amount of memory than generating.
        self._scoring = Batches(self.batches.most_rows)
        self.on_logits: OnLogits = lambda *_: None
        self.start_check: dict[str, Any] | None = None
        super().__init__(batch_size=self.batches.most_rows)

    @property
    def model(self) -> Any:
        return self.loaded.model

    @property
    def batch_size(self) -> int:
        """Maximum number of requests per call."""
        return self.batches.ceiling.clamp(self.batches.most_rows)

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self.batches.most_rows = size

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        prompts = [self.loaded.prepare(request) for request in requests]
        rows = [
            BatchRow(request, sample, prompt)
            for request, prompt in zip(requests, prompts, strict=True)
            if not isinstance(prompt, str)
            for sample in range(request.distinct_samples)
        ]
        row_replies = (
            Reply(error=self.loaded.fault_text(result, row.prompt))
            if isinstance(result, Fault)
            else result
            for row, result in zip(rows, self.batches.run(rows, self._attempt), strict=True)
        )
        replies = []
        for request, prompt in zip(requests, prompts, strict=True):
            count = 0 if isinstance(prompt, str) else request.distinct_samples
            own = [*islice(row_replies, count)] or [Reply(error=str(prompt))]
            replies.append(merge_samples(request, own, max(part.seconds for part in own)))
        replies[0] = replace(replies[0], events=self.batches.take_events())
        return replies

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        from render_agent.engines.transformers.option_logprobs import score_choices

        return score_choices(self.loaded, requests, choices, self._scoring)

    def release(self) -> None:
        """Do nothing: there is nothing but the model."""

    def close(self) -> None:
        self.loaded.close()

    def forget(self, dialogue_ids: Sequence[str]) -> None:
        """Remove all traces of dialogues, which were the first ones and may have failed at any step."""
        self._waiting.clear()
        for dialogue_id in dialogue_ids:
            self.retire(dialogue_id)
        self.calls = 0

    def retire(self, dialogue_id: str) -> None:
        """Drop the cached images of a question."""
        self.inputs.retire(dialogue_id)

    def _call(self, batch: Sequence[Request]) -> list[Reply]:
        return self.answer(batch)

    def _attempt(self, rows: Sequence[BatchRow]) -> list[Reply] | Fault:
        self.calls += 1
        return attempt(lambda: generate_rows(self.loaded, rows, self.on_logits), self.model.device)


def generate_rows(
    loaded: LoadedModel, rows: Sequence[BatchRow], on_logits: OnLogits
) -> list[Reply]:
    """Return the reply of each row from one call of the library's `generate`. Raises any error of that call."""
    began = time.perf_counter()
    tensors = loaded.inputs.encode([row.prompt for row in rows])
    tensors = tensors.to(device=loaded.model.device, dtype=loaded.model.dtype)
    limits = [loaded.reply_limit(row.request, len(row.prompt.ids)) for row in rows]
    replies = [PartialReply(limit=limit) for limit in limits]
    for reply, row in zip(replies, rows, strict=True):
        reply.start_reply(loaded, row.request, row.sample, row.prompt.text)
    with torch.inference_mode():
        loaded.model.generate(
            **tensors,
            do_sample=False,
            max_new_tokens=max(limits),
            eos_token_id=loaded.ends or None,
            pad_token_id=loaded.pad,
            suppress_tokens=loaded.suppressed or None,
            logits_processor=[TokenForcer(replies, loaded.ends, loaded.truncation, on_logits)],
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
