"""Log-probabilities of given choices with a model of transformers, without generating.

A choice is scored as the beginning of the reply: its text is tokenized alone, without a leading space, and follows the
generation prompt. Any text may follow, so "1" includes the probability of "10". The probabilities are those of the model,
without temperature, truncation or suppressed tokens.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Request, Scores
from render_agent.engines.memory.batches import Batches
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel


@dataclass(frozen=True, slots=True)
class ScoringInput:
    """The prompt of a request with the tokens of its choices."""

    prompt: PreparedPrompt
    choices: tuple[tuple[int, ...], ...]

    @property
    def tokens(self) -> int:
        """Number of input tokens: the prompt and the longest choice without its last token, which is never an input."""
        return len(self.prompt.ids) + max(map(len, self.choices)) - 1


def score_choices(
    loaded: LoadedModel,
    requests: Sequence[Request],
    choices: Sequence[Sequence[str]],
    batches: Batches,
) -> list[Scores]:
    """Score the choices of every request, in order; if a request cannot be scored, its `Scores.error` is set.

    Prompts of similar length are batched. Raises ValueError if a request has no choices or an empty one, and EngineError if
    the device is lost.
    """
    tokens = [tokenize_choices(loaded.tokenizer, options) for options in choices]
    scores: dict[int, Scores] = {}
    inputs: dict[int, ScoringInput] = {}
    for index, (request, options) in enumerate(zip(requests, tokens, strict=True)):
        prepared = loaded.prepare(request, max(map(len, options)) - 1)
        if isinstance(prepared, str):
            scores[index] = Scores(error=prepared)
        else:
            inputs[index] = ScoringInput(prepared, options)
    longest_first = sorted(inputs, key=lambda index: -inputs[index].tokens)
    ordered = [inputs[index] for index in longest_first]
    results = batches.run(ordered, partial(_score_batch, loaded))
    for index, result in zip(longest_first, results, strict=True):
        if isinstance(result, Fault):
            result = Scores(error=loaded.fault_text(result, inputs[index].prompt))
        scores[index] = replace(result, events=batches.take_events())
    return [scores[index] for index in range(len(requests))]


def tokenize_choices(tokenizer: Any, choices: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the tokens of each choice. Raises ValueError if there is no choice or an empty one."""
    tokens = [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in choices]
    if not tokens or not all(tokens):
        raise ValueError("a request without choices, or with an empty choice, cannot be scored")
    return tuple(tokens)


def _score_batch(loaded: LoadedModel, batch: Sequence[ScoringInput]) -> list[Scores] | Fault:
    """Score the choices of prompts that share calls."""
    began = time.perf_counter()
    scores = attempt(partial(_choice_logprobs, loaded, batch), loaded.model.device)
    if isinstance(scores, Fault):
        return scores
    seconds = time.perf_counter() - began
    return [
        Scores(
            tuple(logprobs),
            Tokens(prompt=len(entry.prompt.ids), reply=sum(map(len, entry.choices))),
            seconds,
            len(batch),
        )
        if all(map(math.isfinite, logprobs))
        else Scores(error=loaded.invalid_scores(), seconds=seconds, batch_size=len(batch))
        for logprobs, entry in zip(scores, batch, strict=True)
    ]


def _choice_logprobs(loaded: LoadedModel, batch: Sequence[ScoringInput]) -> list[list[float]]:
    """Return the log-probabilities of the choices of a batch.

    Choices that differ only in their last token share a row, and their rows for all prompts share a call.
    """
    numbers: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for number, entry in enumerate(batch):
        for beginning in dict.fromkeys(tokens[:-1] for tokens in entry.choices):
            numbers[beginning].append(number)
    scores: list[dict[tuple[int, ...], float]] = [{} for _ in batch]
    for beginning, group in numbers.items():
        tensors = loaded.inputs.encode([batch[number].prompt for number in group])
        logprobs = loaded.logits(tensors, beginning).log_softmax(-1)
        for number, row in zip(group, logprobs, strict=True):
            for last in [
                tokens[-1] for tokens in batch[number].choices if tokens[:-1] == beginning
            ]:
                tokens = (*beginning, last)
                index = torch.tensor(tokens, device=row.device)[:, None]
                scores[number][tokens] = float(row.gather(-1, index).double().sum())
    return [
        [of_entry[tokens] for tokens in entry.choices]
        for of_entry, entry in zip(scores, batch, strict=True)
    ]
