"""Log-probabilities of given choices with a model of transformers, without generating.

A choice is scored as the beginning of the reply: its text is tokenized alone, without a leading space, and follows the
generation prompt. Any text may follow, so "1" includes the probability of "10". The probabilities are those of the model,
without temperature, truncation or suppressed tokens.
"""

from __future__ import annotations

import copy
import math
import time
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


@dataclass(frozen=True, slots=True)
class PrefilledPrompts:
    """Prompts that were prefilled once for all their choices."""

    first_logprobs: torch.Tensor
    """Log-probabilities of the token after each prompt, (rows, vocabulary) float32."""
    cache: Any
    mask: torch.Tensor  # (rows, length), 0 for padding
    next_positions: torch.Tensor  # position after each prompt, (axes, rows)


def score_choices(
    loaded: LoadedModel,
    requests: Sequence[Request],
    choices: Sequence[Sequence[str]],
    batches: Batches,
) -> list[Scores]:
    """Score the choices of every request, in order; if a request cannot be scored, its `Scores.error` is set.

    Every prompt is prefilled once for all its choices, and prompts of similar length are batched. Raises ValueError if a
    request has no choices or an empty one, and EngineError if the device is lost.
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
    """Prefill prompts in one call, and score their choices."""
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
    """Return the log-probabilities of the choices of a batch; the n-th choices of all prompts share a call."""
    with torch.inference_mode():
        prefilled = _prefill(loaded, [entry.prompt for entry in batch])
        scores = [
            [float(prefilled.first_logprobs[row, tokens[0]]) for tokens in entry.choices]
            for row, entry in enumerate(batch)
        ]
        for index in range(max(len(entry.choices) for entry in batch)):
            longer = [
                (row, entry.choices[index])
                for row, entry in enumerate(batch)
                if len(entry.choices) > index and len(entry.choices[index]) > 1
            ]
            if longer:
                logprobs = _continuation_logprobs(loaded.model, prefilled, longer)
                for (row, _), logprob in zip(longer, logprobs, strict=True):
                    scores[row][index] += logprob
    return scores


def _prefill(loaded: LoadedModel, prompts: Sequence[PreparedPrompt]) -> PrefilledPrompts:
    """Prefill prompts in one call, padded on the left."""
    model = loaded.model
    tensors = loaded.inputs.encode(prompts)
    tensors = tensors.to(device=model.device, dtype=model.dtype)
    mask = tensors["attention_mask"]
    positions = _positions(model, tensors)
    output = model(
        **tensors, position_ids=squeeze_single_axis(positions), use_cache=True, logits_to_keep=1
    )
    return PrefilledPrompts(
        first_logprobs=output.logits[:, -1].float().log_softmax(-1),
        cache=output.past_key_values,
        mask=mask,
        next_positions=positions.amax(-1) + 1,
    )


def _continuation_logprobs(
    model: Any, prefilled: PrefilledPrompts, rows: Sequence[tuple[int, tuple[int, ...]]]
) -> list[float]:
    """Return the summed log-probabilities of choices from their second token on, computed in one call.

    `rows` contains, for each choice, the row of its prompt and its tokens (at least two).
    """
    device = prefilled.mask.device
    prompts = torch.tensor([row for row, _ in rows], device=device)
    input_ids = [torch.tensor(tokens[:-1]) for _, tokens in rows]
    target_ids = [torch.tensor(tokens[1:]) for _, tokens in rows]
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad(input_ids, batch_first=True).to(device)
    targets = pad(target_ids, batch_first=True, padding_value=-1).to(device)
    steps = torch.arange(ids.shape[1], device=device)
    output = model(
        input_ids=ids,
        # Padding follows the tokens of shorter choices, so it does not affect them.
        attention_mask=torch.cat(
            [prefilled.mask[prompts], (targets >= 0).to(prefilled.mask.dtype)], 1
        ),
        position_ids=squeeze_single_axis(prefilled.next_positions[:, prompts, None] + steps),
        past_key_values=_select_rows(prefilled.cache, prompts),
        use_cache=True,
    )
    logprobs = output.logits.float().log_softmax(-1)
    token_logprobs = logprobs.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    sums: list[float] = token_logprobs.where(targets >= 0, 0).double().sum(1).tolist()
    return sums


def squeeze_single_axis(positions: torch.Tensor) -> torch.Tensor:
    """Return positions, (axes, rows, tokens), without the first axis if its size is 1, as models expect."""
    return positions[0] if positions.shape[0] == 1 else positions


def _positions(model: Any, tensors: Any) -> torch.Tensor:
    """Return the positions of a batch's tokens, (axes, rows, length), with three axes for models with M-RoPE."""
    mask = tensors["attention_mask"]
    if not hasattr(model.model, "get_rope_index"):
        rows: torch.Tensor = (mask.cumsum(-1) - 1).clamp(min=0)
        return rows[None]
    names = ("mm_token_type_ids", "image_grid_thw")
    positions, _ = model.model.get_rope_index(
        tensors["input_ids"],
        attention_mask=mask,
        **{name: tensors[name] for name in names if name in tensors},
    )
    # Padding has position 1, which is never the maximum of a prompt.
    return torch.as_tensor(positions)


def _select_rows(cache: Any, rows: torch.Tensor) -> Any:
    """Return a cache with these rows of another one, which is not modified; rows can be repeated."""
    selected = copy.copy(cache)
    selected.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in selected.layers:
        # Recurrent layers keep their states in dicts, which a shallow copy would share.
        for name in ("conv_states", "recurrent_states"):
            if hasattr(layer, name):
                setattr(layer, name, dict(getattr(layer, name)))
        layer.reorder_cache(rows)
    return selected
