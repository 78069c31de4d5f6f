"""The image-and-text branch: what a view shows of what is asked, as one embedding a member."""

from __future__ import annotations

import torch

from render_agent.agents.verifiers.learned.layers import (
    feed_forward,
    linear,
    norm,
    standardised,
    unit,
)
from render_agent.agents.verifiers.learned.parameters import POOLINGS, Parameters
from render_agent.agents.verifiers.learned.shape import Shape

TEMPERATURE = 0.07
"""How sharply a text token picks its patches; a constant of the design, not learned."""


def positions(rows: int, columns: int, features: int) -> torch.Tensor:
    """Return sines and cosines of the places of patches, (rows · columns, features).

    The first half of the features tells the row, the second the column.
    """
    quarter = features // 4
    rates = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float32) / quarter)

    def along(count: int) -> torch.Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)

    down, across = along(rows), along(columns)
    return torch.cat([down.repeat_interleave(columns, 0), across.repeat(rows, 1)], 1)


def extract(shape: Shape, patches: torch.Tensor, text: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return what each text token finds in the picture, and the text: both (B, T, D), by POOLINGS.

    patches (B, P, D), text (B, T, D). A token looks where the patches are like it: the softmax of
    their cosines over TEMPERATURE weighs the patches with their places. Cosines, since the features
    of an encoder are long enough to make a choice of one patch out of every softmax. Nothing here is
    learned, so it is the same for all members.
    """
    place = positions(shape.rows, shape.columns, shape.features).to(patches.device)
    likeness = unit(text) @ unit(patches).transpose(1, 2) / TEMPERATURE
    seen = likeness.softmax(-1) @ (standardised(patches) + place)
    return standardised(seen), standardised(text)


def embed_context(
    shape: Shape, p: Parameters, tokens: tuple[torch.Tensor, ...], *, folded: bool = True
) -> torch.Tensor:
    """Return the embeddings of B contexts, (M, B, W), of length 1.

    tokens: what `extract` gave, each (M or 1, B, T, D). folded: see `_attend`.
    """
    pooled = [_pool(shape, p, name, x, folded) for name, x in zip(POOLINGS, tokens, strict=True)]
    return unit(linear(p, "context", torch.cat(pooled, -1)))


def _pool(shape: Shape, p: Parameters, name: str, x: torch.Tensor, folded: bool) -> torch.Tensor:
    """Return x (M or 1, B, T, D) as one vector each, (M, B, W): a query that asks it several times."""
    query = p[f"{name}.query"][:, None].expand(-1, x.shape[1], -1)
    for block in range(shape.blocks):
        here = f"{name}.{block}"
        asked = linear(p, f"{here}.query", norm(p, f"{here}.norm", query))
        attend = _attend if folded else _attend_plainly
        query = query + linear(p, f"{here}.out", attend(shape, p, here, asked, x))
        query = feed_forward(p, f"{here}.then", query)
    return norm(p, f"{name}.norm", query)


def _attend(
    shape: Shape, p: Parameters, name: str, query: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Return what a single query (M, B, W) takes from x (M or 1, B, T, D): (M, B, W).

    The query goes through the keys' weight and the sum through the values', instead of every token
    through both: q · (K x) = (Kᵀ q) · x, and Σ aᵢ (V xᵢ) = V Σ aᵢ xᵢ. With T tokens that is about
    1 / T of the work.
    """
    members, batch, _ = query.shape
    heads, each = shape.heads, shape.width // shape.heads
    key = p[f"{name}.key.weight"].view(members, heads, each, -1)
    value = p[f"{name}.value.weight"].view(members, heads, each, -1)
    by_head = query.view(members, batch, heads, each).transpose(1, 2)
    asking = (by_head @ key).transpose(1, 2) * each**-0.5  # (M, B, heads, D)
    weights = (asking @ x.transpose(2, 3)).softmax(-1)  # (M, B, heads, T)
    taken = (weights @ x).transpose(1, 2) @ value.transpose(2, 3)  # (M, heads, B, each)
    return taken.transpose(1, 2).reshape(query.shape) + p[f"{name}.value.bias"][:, None]


def _attend_plainly(
    shape: Shape, p: Parameters, name: str, query: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """Return the same as `_attend`, with a key and a value for every token."""
    members, batch, _ = query.shape
    heads, each = shape.heads, shape.width // shape.heads

    def by_head(y: torch.Tensor) -> torch.Tensor:
        return y.reshape(members, batch, -1, heads, each).transpose(2, 3)

    key, value = (by_head(linear(p, f"{name}.{part}", x)) for part in ("key", "value"))
    asking = by_head(query[:, :, None]) * each**-0.5
    taken = (asking @ key.transpose(3, 4)).softmax(-1) @ value  # (M, B, heads, 1, each)
    return taken.reshape(query.shape)
