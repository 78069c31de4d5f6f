"""The action tower: histories of camera moves as embeddings, a past that they share read once.

The transformer looks back only. So what it makes of the first moves does not depend on the last one,
and candidates of one state, which differ in their last move, share all of it but one step each.
"""

from __future__ import annotations

import torch

from render_agent.agents.verifiers.learned.layers import feed_forward, linear, norm, unit
from render_agent.agents.verifiers.learned.parameters import Parameters
from render_agent.agents.verifiers.learned.shape import Shape

Cache = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of every layer, each (M, N, H, heads, channels)."""


def shared_moves(values: torch.Tensor, known: torch.Tensor) -> int:
    """Return how many first places are the same in all N histories: (N, H, A) and (N, H).

    One place at least is left to each history.
    """
    same = (values == values[:1]).all(-1).all(0) & (known == known[:1]).all(0)
    return min(int(same.long().cumprod(0).sum()), int(values.shape[1]) - 1)


def embed_histories(
    shape: Shape,
    p: Parameters,
    values: torch.Tensor,
    known: torch.Tensor,
    *,
    shared: int = 0,
) -> torch.Tensor:
    """Return the embeddings of N histories, (M, N, W), of length 1.

    values (M or 1, N, H, A), known (M or 1, N, H). shared: how many first places are the same in all
    of them (see `shared_moves`), and are read once.
    """
    past: Cache = []
    total: torch.Tensor | float = 0.0
    if shared:
        first = values[:, :1, :shared], known[:, :1, :shared]
        made, past = _read(shape, p, *first, first[1], past, 0)
        total = _sum(made, first[1])
    rest = values[:, :, shared:], known[:, :, shared:]
    made, _ = _read(shape, p, *rest, known, past, shared)
    total = total + _sum(made, rest[1])
    return unit(linear(p, "moves", total / known.sum(-1, keepdim=True)))


def _sum(made: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    return (made * known[..., None]).sum(2)


def _read(
    shape: Shape,
    p: Parameters,
    values: torch.Tensor,
    known: torch.Tensor,
    all_known: torch.Tensor,
    past: Cache,
    before: int,
) -> tuple[torch.Tensor, Cache]:
    """Return what the tower makes of moves after `before` others: (M, N, moves, W), and its cache.

    all_known: (M or 1, N, before + moves), of those before, too.
    """
    moves = values.shape[2]
    x = linear(p, "move", values) + p["positions"][:, None, before : before + moves]
    order = torch.arange(before + moves, device=values.device)
    backwards = order[None] <= order[before:, None]
    # a place without a move sees itself, as a softmax over nothing is no number; nobody sees it
    itself = order[None] == order[before:, None]
    visible = (backwards & all_known[:, :, None] | itself)[:, :, None]  # (M or 1, N, 1, moves, all)
    cache: Cache = []
    for layer in range(shape.layers):
        name = f"tower.{layer}"
        taken, kept = _attend(shape, p, name, x, visible, past[layer] if past else None)
        cache.append(kept)
        x = x + linear(p, f"{name}.out", taken)
        x = feed_forward(p, f"{name}.then", x)
    return norm(p, "tower.norm", x), cache


def _attend(
    shape: Shape,
    p: Parameters,
    name: str,
    x: torch.Tensor,
    visible: torch.Tensor,
    past: tuple[torch.Tensor, torch.Tensor] | None,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Return what moves (M, N, moves, W) take from those before them, and their keys and values."""
    members, count, moves, width = x.shape
    each = width // shape.heads
    mixed = linear(p, f"{name}.qkv", norm(p, f"{name}.norm", x))
    query, key, value = mixed.view(members, count, moves, 3, shape.heads, each).unbind(3)
    if past is not None:
        key, value = (
            torch.cat([old.expand(-1, count, -1, -1, -1), new], 2)
            for old, new in zip(past, (key, value), strict=True)
        )
    # numbers of a head side by side before the product, as it copies them one by one otherwise
    by_head = (part.transpose(2, 3).contiguous() for part in (query * each**-0.5, key, value))
    asking, asked, given = by_head
    logits = asking @ asked.transpose(3, 4)
    weights = logits.masked_fill(~visible, float("-inf")).softmax(-1)
    taken = (weights @ given).transpose(2, 3).reshape(x.shape)
    return taken, (key, value)
