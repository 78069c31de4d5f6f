"""One member of the ensemble: what a view shows of what is asked, and the moves, as embeddings of one space.

Nothing here knows of other members: `torch.func` calls it with the parameters of each.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from render_agent_lab.learned_verifier.shape import Shape

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


def extract(
    shape: Shape, patches: torch.Tensor, text: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the text tokens attended over the picture, and the text: both (B, T, D).

    patches (B, P, D), text (B, T, D). A token looks where the patches are like it: the softmax of
    their cosines over TEMPERATURE weighs the patches with their places. Cosines, since the features
    of an encoder are long enough to make a choice of one patch out of every softmax. It is the same
    for all members.
    """
    place = positions(shape.rows, shape.columns, shape.features).to(patches.device)
    unit_text, unit_patches = (functional.normalize(x, dim=-1) for x in (text, patches))
    likeness = unit_text @ unit_patches.transpose(1, 2) / TEMPERATURE
    seen = likeness.softmax(-1) @ (_standardised(patches) + place)
    return _standardised(seen), _standardised(text)


def _standardised(x: torch.Tensor) -> torch.Tensor:
    """Return x (…, D) with mean 0 and variance 1 along its last axis."""
    return functional.layer_norm(x, x.shape[-1:])


Cache = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of every layer of the tower, each (N, heads, moves, channels)."""

FIRST_TEMPERATURE = 0.07


class FeedForward(nn.Module):
    """x (…, W) plus what two linear layers make of it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (…, W)."""
        added: torch.Tensor = self.down(functional.gelu(self.up(self.norm(x))))
        return x + added


class PoolingBlock(nn.Module):
    """A query (B, W) plus what it takes from tokens (B, T, D) by cross-attention, and a feed-forward."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.width)
        self.query = nn.Linear(shape.width, shape.width)
        # a bias of the keys would add the same to every logit of a softmax: there is none
        self.key = nn.Linear(shape.features, shape.width, bias=False)
        self.value = nn.Linear(shape.features, shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.then = FeedForward(shape)

    def forward(self, query: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return (B, W)."""
        asked = self.query(self.norm(query)).unflatten(-1, (self.heads, -1))
        taken = self.attend(asked, tokens).flatten(1)
        pooled: torch.Tensor = self.then(query + self.out(taken))
        return pooled

    def attend(self, query: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return what a single query (B, heads, channels) takes from the tokens: the same size.

        The query goes through the keys' weight and the sum through the values', instead of every token
        through both: q · (K x) = (Kᵀ q) · x, and Σ aᵢ (V xᵢ) = V Σ aᵢ xᵢ. With T tokens that is about
        1 / T of the work.
        """
        key, value = (part.weight.unflatten(0, query.shape[1:]) for part in (self.key, self.value))
        asking = torch.einsum("bhc,hcd->bhd", query, key) * query.shape[-1] ** -0.5
        weights = (asking @ tokens.transpose(1, 2)).softmax(-1)  # (B, heads, T)
        taken = torch.einsum("bhd,hcd->bhc", weights @ tokens, value)
        return taken + self.value.bias.view(query.shape[1:])


class AttentionPooling(nn.Module):
    """Tokens (B, T, D) as one vector each, (B, W): a learned query that asks them several times."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(shape.width))
        self.blocks = nn.ModuleList(PoolingBlock(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (B, W)."""
        query = self.query.expand(len(tokens), -1)
        for block in self.blocks:
            query = block(query, tokens)
        pooled: torch.Tensor = self.norm(query)
        return pooled


class TowerLayer(nn.Module):
    """A layer of the action tower: moves (N, moves, W) and what they take from those before them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.then = FeedForward(shape)

    def forward(
        self,
        x: torch.Tensor,
        visible: torch.Tensor,
        past: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Return the moves anew, and their keys and values behind those of `past`.

        visible: (N, moves, all), which moves see which. past: of the moves before these.
        """
        parts = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        query, key, value = parts.unbind(2)  # (N, heads, moves, channels) each
        if past is not None:
            key, value = (
                torch.cat([old.expand(len(x), -1, -1, -1), new], 2)
                for old, new in zip(past, (key, value), strict=True)
            )
        logits = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        weights = logits.masked_fill(~visible[:, None], float("-inf")).softmax(-1)
        taken = (weights @ value).transpose(1, 2).flatten(2)
        return self.then(x + self.out(taken)), (key, value)


class ActionTower(nn.Module):
    """A transformer over moves (N, moves, W) that looks back only.

    So what it makes of the first moves does not depend on the last one, and candidates of one state, which
    differ in their last move, share all of it but one step each.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TowerLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(
        self, x: torch.Tensor, known: torch.Tensor, past: Cache
    ) -> tuple[torch.Tensor, Cache]:
        """Return what it makes of moves after those of `past`, and the cache of all.

        known: (N, all), of those before, too.
        """
        every, moves = known.shape[1], x.shape[1]
        order = torch.arange(every, device=x.device)
        backwards = order[None] <= order[every - moves :, None]
        # a place without a move sees itself, as a softmax over nothing is no number; nobody sees it
        itself = order[None] == order[every - moves :, None]
        visible = backwards & known[:, None] | itself
        cache: Cache = []
        for number, layer in enumerate(self.layers):
            x, kept = layer(x, visible, past[number] if past else None)
            cache.append(kept)
        return self.norm(x), cache


class MemberNetwork(nn.Module):
    """A contrastive head over frozen features: contexts and histories near each other where they fit."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.empty(()))
        self.positions = nn.Parameter(torch.empty(shape.history, shape.width))
        self.seen = AttentionPooling(shape)
        self.asked = AttentionPooling(shape)
        self.context = nn.Linear(2 * shape.width, shape.width)
        self.move = nn.Linear(shape.action, shape.width)
        self.tower = ActionTower(shape)
        self.moves = nn.Linear(shape.width, shape.width)

    def forward(
        self,
        contexts: tuple[torch.Tensor, torch.Tensor] | None = None,
        histories: tuple[torch.Tensor, torch.Tensor] | None = None,
        shared: int = 0,
    ) -> tuple[torch.Tensor, ...]:
        """Return the embeddings, of length 1, of B contexts (B, W) and of N histories (N, W), of what is given.

        contexts: seen and asked of `extract`, each (B, T, D). histories: values (N, H, A), known (N, H).
        shared: how many first places are the same in all histories (see `shared_moves`), and are read once.
        """
        outputs: list[torch.Tensor] = []
        if contexts is not None:
            pooled = torch.cat([self.seen(contexts[0]), self.asked(contexts[1])], -1)
            outputs.append(functional.normalize(self.context(pooled), dim=-1))
        if histories is not None:
            outputs.append(functional.normalize(self._moves(*histories, shared), dim=-1))
        return tuple(outputs)

    def _moves(self, values: torch.Tensor, known: torch.Tensor, shared: int) -> torch.Tensor:
        """Return the mean of what the tower makes of the moves, through the last layer: (N, W)."""
        past: Cache = []
        total: torch.Tensor | float = 0.0
        spans = [slice(shared), slice(shared, None)] if shared else [slice(None)]
        for number, span in enumerate(spans):
            rows = (
                slice(1) if number + 1 < len(spans) else slice(None)
            )  # the past is the same for all
            x = self.move(values[rows, span]) + self.positions[span]
            made, past = self.tower(x, known[rows, : span.stop], past)
            total = total + (made * known[rows, span, None]).sum(1)
        mean: torch.Tensor = self.moves(total / known.sum(-1, keepdim=True))
        return mean

    def initialise(self, generator: torch.Generator) -> None:
        """Draw parameters to begin with."""
        with torch.no_grad():
            for name, tensor in self.named_parameters():
                self._draw(name, tensor, generator)

    def _draw(self, name: str, tensor: torch.Tensor, generator: torch.Generator) -> None:
        if name == "log_scale":
            tensor.fill_(-math.log(FIRST_TEMPERATURE))
        elif name.endswith("norm.weight"):
            tensor.fill_(1.0)
        elif name.endswith(".bias"):
            tensor.zero_()
        elif name.endswith(".weight"):
            tensor.normal_(0.0, tensor.shape[-1] ** -0.5, generator=generator)
            if name.endswith(("out.weight", "down.weight")):
                # many blocks add to one sum: each begins the smaller
                stack = self.tower.layers if name.startswith("tower") else self.seen.blocks
                tensor.mul_((2 * len(stack)) ** -0.5)
        else:
            tensor.normal_(0.0, 0.02 if name == "positions" else 1.0, generator=generator)


def shared_moves(values: torch.Tensor, known: torch.Tensor) -> int:
    """Return how many first places are the same in all N histories: (N, H, A) and (N, H).

    One place at least is left to each history.
    """
    same = (values == values[:1]).all(-1).all(0) & (known == known[:1]).all(0)
    return min(int(same.long().cumprod(0).sum()), int(values.shape[1]) - 1)
