"""Replies that are given beforehand: the model does all its work, and only its choice is overridden.

That is how schedules are measured with a model whose own words mean nothing, such as one with random
weights: every schedule then has to read and write exactly the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from render_agent.engines.base import Request

Script = Callable[[Request], str]
"""Gives the text that the reply to a request will be."""


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
