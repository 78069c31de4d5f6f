"""Sampling and token limits of their own for every row of a batch.

What a row draws depends on its request alone, so that a batch may be put together in any way.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from render_agent.engines.base import Request


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
