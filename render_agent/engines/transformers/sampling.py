"""Which token comes next in every row: the likeliest, one drawn, one that a guide allows, one that is forced.

What a row draws depends on its request alone, so that a batch may be put together in any way. The
classes are logits processors and stopping criteria of the library's `generate`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from render_agent.engines.base import Request

if TYPE_CHECKING:
    from render_agent.engines.transformers.sequences import Sample

Script = Callable[[Request], str]
"""Gives the text that the reply to a request will be, where replies are forced.

Then the model does all its work, and only its choice is overridden. That is how schedules are measured
with a model whose own words mean nothing, such as one with random weights: every schedule then has to
read and write exactly the same.
"""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Which tokens may be drawn: the `top_k` likeliest (0: all), of these the likeliest that hold `top_p`."""

    top_k: int = 0
    top_p: float = 1.0

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary) with -inf where a token may not be drawn."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        if self.top_k > 0:
            scores = TopKLogitsWarper(self.top_k)(None, scores)
        if self.top_p < 1:
            scores = TopPLogitsWarper(self.top_p)(None, scores)
        return scores


class RowSampling:
    """A logits processor that leaves one possible token in every sampled row, for greedy decoding.

    It inverts the cumulative distribution at the row's own uniform number of that step. draws:
    (rows, steps) in [0, 1). temperatures: (rows,), 0 leaves a row greedy. prompt_length: tokens
    before the first step, padding included.
    """

    def __init__(
        self,
        draws: torch.Tensor,
        temperatures: torch.Tensor,
        prompt_length: int,
        truncation: Truncation,
    ) -> None:
        self.draws = draws
        self.temperatures = temperatures[:, None]
        self.prompt_length = prompt_length
        self.truncation = truncation

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary), in sampled rows 0 for the token drawn, else -inf."""
        sampled = self.temperatures > 0
        tempered = self.truncation.apply(scores / self.temperatures.where(sampled, 1))
        # Metal has no float64.
        exact = torch.float32 if scores.device.type == "mps" else torch.float64
        cumulative = tempered.to(exact).softmax(-1).cumsum(-1)
        step = input_ids.shape[1] - self.prompt_length
        heights = self.draws[:, step, None].to(exact) * cumulative[:, -1:]
        drawn = torch.searchsorted(cumulative, heights, right=True).clamp(max=scores.shape[1] - 1)
        only = torch.full_like(scores, -torch.inf).scatter(1, drawn, 0)
        return only.where(sampled, scores)


class RowLimits:
    """A stopping criterion that ends every row at its own number of new tokens.

    limits: (rows,). prompt_length: tokens before the first new one, padding included.
    """

    def __init__(self, limits: torch.Tensor, prompt_length: int) -> None:
        self.limits = limits
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
        """Return which rows are full, (rows,) of bool."""
        return self.limits <= input_ids.shape[1] - self.prompt_length


def uniform_draws(request: Request, sample: int) -> list[float]:
    """Return a number in [0, 1) for every step of one sample, the same whenever it is asked.

    They depend on seed, question, turn and sample; of 24 bits, so that float32 holds them exactly.
    """
    name = f"{request.seed}\0{request.question_id}\0{request.turn}\0{sample}"
    chance = random.Random(hashlib.sha256(name.encode()).digest())
    return [chance.getrandbits(24) / 2**24 for _ in range(request.max_new_tokens)]


def draws_of_rows(rows: Sequence[tuple[Request, int]]) -> torch.Tensor:
    """Return the numbers of requests' samples, (rows, most steps) float32, ends filled up with 0."""
    draws = [torch.tensor(uniform_draws(request, sample)) for request, sample in rows]
    return torch.nn.utils.rnn.pad_sequence(draws, batch_first=True)


class ForcedRows:
    """A logits processor that leaves one possible token in every row, whatever the model prefers.

    tokens: of every row, the last one ending it. prompt_length: tokens before the first step,
    padding included.
    """

    def __init__(self, tokens: Sequence[Sequence[int]], prompt_length: int) -> None:
        rows = [torch.tensor(row) for row in tokens]
        self.steps = max(len(row) for row in rows)
        filled = [torch.cat([row, row[-1:].expand(self.steps - len(row))]) for row in rows]
        self.tokens = torch.stack(filled)
        self.prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores (rows, vocabulary) that are 0 for the token of this step, else -inf."""
        step = min(input_ids.shape[1] - self.prompt_length, self.steps - 1)
        self.tokens = self.tokens.to(scores.device)
        only = torch.full_like(scores, -torch.inf)
        return only.scatter(1, self.tokens[:, step, None], 0)


def forced_tokens(
    script: Script, request: Request, tokenizer: Any, ends: Sequence[int]
) -> list[int]:
    """Return the tokens of the reply that a script gives to a request, the one that ends it behind them."""
    ids: list[int] = tokenizer(script(request), add_special_tokens=False)["input_ids"]
    return [*ids, *ends[:1]]


def choose_tokens(
    logits: torch.Tensor,
    likeliest: Sequence[int],
    rows: Sequence[Sample],
    truncation: Truncation,
) -> list[int]:
    """Return the next token of every row.

    logits: (rows, vocabulary) float32. likeliest: the likeliest token of every row. Only rows that draw, and
    greedy ones whose guide refuses the likeliest token, are looked at again, all in one go: masked, the likeliest
    of the others would be the same.
    """
    tokens = list(likeliest)
    again = []
    for place, row in enumerate(rows):
        if row.forced is not None:
            tokens[place] = row.forced[len(row.written)]
        elif row.draws or (row.guide is not None and not row.guide.allows(tokens[place])):
            again.append(place)
    if again:
        with torch.inference_mode():
            chosen = _chosen(logits[again], [rows[place] for place in again], truncation)
        for place, token in zip(again, chosen, strict=True):
            tokens[place] = token
    return tokens


def _chosen(logits: torch.Tensor, rows: Sequence[Sample], truncation: Truncation) -> list[int]:
    """Return the tokens of rows that draw or are held to a form; logits are changed in place."""
    device = logits.device
    held = [place for place, row in enumerate(rows) if row.guide is not None]
    if held:
        # Bits are sent, and become a mask on the device: a vocabulary is long.
        bits = torch.from_numpy(np.stack([rows[place].guide.bits() for place in held])).to(device)
        shifts = torch.arange(8, dtype=torch.uint8, device=device)
        allowed = (bits[..., None] >> shifts & 1).flatten(1)[:, : logits.shape[1]].bool()
        logits[held, : allowed.shape[1]] = logits[held, : allowed.shape[1]].masked_fill(
            ~allowed, -torch.inf
        )
        logits[held, allowed.shape[1] :] = -torch.inf
    if any(row.draws for row in rows):
        draws = [row.draws[len(row.written)] if row.draws else 0.0 for row in rows]
        heats = [row.request.temperature for row in rows]
        sampling = RowSampling(
            torch.tensor(draws, device=device)[:, None],
            torch.tensor(heats, device=device),
            0,
            truncation,
        )
        logits = sampling(torch.empty(len(rows), 0), logits)
    chosen: list[int] = logits.argmax(-1).tolist()
    return chosen
