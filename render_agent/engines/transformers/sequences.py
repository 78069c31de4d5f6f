"""Replies under way: what each has written so far, and which token comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from render_agent.engines.base import Request
from render_agent.engines.transformers.sampling import RowSampling, Truncation, uniform_draws


class RowGuide(Protocol):
    """Holds one reply to a form."""

    def allows(self, token: int) -> bool:
        """Whether a token may follow."""
        ...

    def mask(self) -> torch.Tensor:
        """Return which tokens may follow, (vocabulary,) of bool."""
        ...

    def take(self, token: int) -> None:
        """Go on behind a token."""
        ...


@dataclass(eq=False)
class Writing:
    """One sample of one request, being written.

    owner: whatever asked for it. offset: what to add to a token's place to get its position. forced: the tokens that it will be,
    whatever the model makes of it. beside: how many were written together in each step, summed.
    """

    request: Request
    sample: int
    owner: Any
    limit: int
    offset: int
    guide: RowGuide | None = None
    forced: Sequence[int] | None = None
    ids: list[int] = field(default_factory=list)
    beside: int = 0

    def __post_init__(self) -> None:
        sampled = self.request.temperature > 0
        self.draws = uniform_draws(self.request, self.sample) if sampled else []

    def take(self, token: int, together: int) -> None:
        """Go on behind a token that was chosen among those of so many rows."""
        self.ids.append(token)
        self.beside += together
        if self.guide is not None:
            self.guide.take(token)

    @property
    def full(self) -> bool:
        """Whether the token limit is reached."""
        return len(self.ids) >= self.limit


def choose(
    logits: torch.Tensor,
    rows: Sequence[Writing],
    suppressed: Sequence[int],
    truncation: Truncation,
) -> list[int]:
    """Return the next token of every row: the likeliest, or the one drawn, among those allowed.

    logits: (rows, vocabulary) float32, changed in place. A greedy row's guide is asked for its mask
    only where it refuses the likeliest token: masked, the likeliest would be the same.
    """
    with torch.inference_mode():
        if suppressed:
            logits[:, list(suppressed)] = -torch.inf
        sampled = [place for place, row in enumerate(rows) if row.draws]
        for place in sampled:
            _hold(logits, place, rows[place].guide)
        best: list[int] = logits.argmax(-1).tolist()
        if sampled:
            for place, token in zip(
                sampled, _drawn(logits, rows, sampled, truncation), strict=True
            ):
                best[place] = token
        for place, row in enumerate(rows):
            if row.forced is not None:
                best[place] = row.forced[len(row.ids)]
            elif row.guide is not None and not row.draws and not row.guide.allows(best[place]):
                _hold(logits, place, row.guide)
                best[place] = int(logits[place].argmax())
        return best


def _drawn(
    logits: torch.Tensor, rows: Sequence[Writing], sampled: Sequence[int], truncation: Truncation
) -> list[int]:
    """Return the tokens that the sampled rows draw at their own places in their own replies."""
    draws = torch.tensor([[rows[place].draws[len(rows[place].ids)]] for place in sampled])
    heats = torch.tensor([rows[place].request.temperature for place in sampled])
    sampling = RowSampling(draws.to(logits.device), heats.to(logits.device), 0, truncation)
    only: Any = sampling(torch.empty(len(sampled), 0), logits[list(sampled)])
    return [int(token) for token in only.argmax(-1)]


def _hold(logits: torch.Tensor, place: int, guide: RowGuide | None) -> None:
    """Leave one row only what its guide allows."""
    if guide is None:
        return
    allowed: Any = guide.mask()
    logits[place, : len(allowed)][~allowed.to(logits.device)] = -torch.inf
    logits[place, len(allowed) :] = -torch.inf
