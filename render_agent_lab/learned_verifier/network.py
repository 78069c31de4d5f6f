"""One member of the ensemble: embeds moves, and the parts of a view that are relevant to a question, in a common space.

Independent of the other members; `torch.func` calls it with the parameters of each.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from render_agent_lab.learned_verifier.shape import VerifierShape

# Softmax temperature of the attention of text tokens over patches; fixed, not learned.
TEMPERATURE = 0.07


def patch_positions(rows: int, columns: int, features: int) -> torch.Tensor:
    """Return sinusoidal position embeddings of the patches, (rows * columns, features).

    The first half of the features encodes the row, the second the column.
    """
    quarter = features // 4
    rates = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float32) / quarter)

    def along(count: int) -> torch.Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)

    down, across = along(rows), along(columns)
    return torch.cat([down.repeat_interleave(columns, 0), across.repeat(rows, 1)], 1)


def extract(
    shape: VerifierShape,
    patches: torch.Tensor,  # (B, P, D)
    text: torch.Tensor,  # (B, T, D)
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attend from text tokens to patches; parameter-free, so the same for all members.

    Returns the attended patches with positions, and the text, both standardised, (B, T, D).

    Attention weights are the softmax of cosine similarities over TEMPERATURE. Cosine rather than dot product, because
    encoder features have norms large enough to make every softmax one-hot.
    """
    place = patch_positions(shape.rows, shape.columns, shape.features).to(patches.device)
    unit_text, unit_patches = (functional.normalize(x, dim=-1) for x in (text, patches))
    likeness = unit_text @ unit_patches.transpose(1, 2) / TEMPERATURE
    attended_patches = likeness.softmax(-1) @ (_standardise(patches) + place)
    return _standardise(attended_patches), _standardise(text)


def _standardise(x: torch.Tensor) -> torch.Tensor:
    """Return x (..., D) normalised to mean 0 and variance 1 along its last axis."""
    return functional.layer_norm(x, x.shape[-1:])


# Keys and values per layer, each (N, heads, moves, channels).
Cache = list[tuple[torch.Tensor, torch.Tensor]]

FIRST_TEMPERATURE = 0.07


class FeedForward(nn.Module):
    """Residual feed-forward block on x (..., W)."""

    def __init__(self, shape: VerifierShape) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(shape.width)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (…, W)."""
        added: torch.Tensor = self.down(functional.gelu(self.up(self.norm(x))))
        return x + added


class PoolingBlock(nn.Module):
    """Cross-attention from a query (B, W) to tokens (B, T, D), followed by a feed-forward block."""

    def __init__(self, shape: VerifierShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.width)
        self.query = nn.Linear(shape.width, shape.width)
        # no key bias, because it would add the same value to every logit of a softmax
        self.key = nn.Linear(shape.features, shape.width, bias=False)
        self.value = nn.Linear(shape.features, shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.then = FeedForward(shape)

    def forward(self, query: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return (B, W)."""
        queries = self.query(self.norm(query)).unflatten(-1, (self.heads, -1))
        attention = self.attend(queries, tokens).flatten(1)
        result: torch.Tensor = self.then(query + self.out(attention))
        return result

    def attend(self, query: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Attend from a single query (B, heads, channels) to the tokens; returns the same shape.

        Projects the query through the key weights and the weighted sum through the value weights, instead of every
        token through both: q · (K x) = (Kᵀ q) · x, and Σ aᵢ (V xᵢ) = V Σ aᵢ xᵢ. With T tokens this takes about 1 / T of
        the work.
        """
        key, value = (part.weight.unflatten(0, query.shape[1:]) for part in (self.key, self.value))
        projected_query = torch.einsum("bhc,hcd->bhd", query, key) * query.shape[-1] ** -0.5
        weights = (projected_query @ tokens.transpose(1, 2)).softmax(-1)  # (B, heads, T)
        attention = torch.einsum("bhd,hcd->bhc", weights @ tokens, value)
        return attention + self.value.bias.view(query.shape[1:])


class AttentionPooling(nn.Module):
    """Pools tokens (B, T, D) to one vector each, (B, W), with a learned query and several cross-attention blocks."""

    def __init__(self, shape: VerifierShape) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(shape.width))
        self.blocks = nn.ModuleList(PoolingBlock(shape) for _ in range(shape.blocks))
        self.norm = nn.LayerNorm(shape.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (B, W)."""
        query = self.query.expand(len(tokens), -1)
        for block in self.blocks:
            query = block(query, tokens)
        result: torch.Tensor = self.norm(query)
        return result


class TowerLayer(nn.Module):
    """Causal transformer layer over moves (N, moves, W)."""

    def __init__(self, shape: VerifierShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm = nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.then = FeedForward(shape)

    def forward(
        self, x: torch.Tensor, visible: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor] | None
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """Return the updated moves, and their keys and values appended to those of `past`.

        `visible` is the attention mask (N, moves, all); `past` has the keys and values of earlier moves.
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
        attention = (weights @ value).transpose(1, 2).flatten(2)
        return self.then(x + self.out(attention)), (key, value)


class ActionTower(nn.Module):
    """Causal transformer over moves (N, moves, W).

    The output for a move does not depend on later ones, so candidates of one state, which differ only in the last move,
    share the computation for all earlier moves.
    """

    def __init__(self, shape: VerifierShape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(TowerLayer(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)

    def forward(
        self, x: torch.Tensor, known: torch.Tensor, past: Cache
    ) -> tuple[torch.Tensor, Cache]:
        """Return the output for moves that follow those of `past`, and the cache of all.

        `known` is the mask (N, all) of entries that contain a move, including earlier ones.
        """
        num_entries, moves = known.shape[1], x.shape[1]
        order = torch.arange(num_entries, device=x.device)
        backwards = order[None] <= order[num_entries - moves :, None]
        # padding attends to itself, because a softmax over nothing is NaN; no move attends to padding
        itself = order[None] == order[num_entries - moves :, None]
        visible = backwards & known[:, None] | itself
        cache: Cache = []
        for number, layer in enumerate(self.layers):
            x, layer_cache = layer(x, visible, past[number] if past else None)
            cache.append(layer_cache)
        return self.norm(x), cache


class MemberNetwork(nn.Module):
    """Contrastive head over frozen features: maps matching contexts and histories close to each other."""

    def __init__(self, shape: VerifierShape) -> None:
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
        # the two results of `extract`, each (B, T, D)
        contexts: tuple[torch.Tensor, torch.Tensor] | None = None,
        # values (N, H, A) and mask (N, H)
        histories: tuple[torch.Tensor, torch.Tensor] | None = None,
        shared: int = 0,
    ) -> tuple[torch.Tensor, ...]:
        """Return unit-length embeddings of contexts, (B, W), and histories, (N, W), whose first `shared` moves are all
        the same.
        """
        outputs: list[torch.Tensor] = []
        if contexts is not None:
            pooled = torch.cat([self.seen(contexts[0]), self.asked(contexts[1])], -1)
            outputs.append(functional.normalize(self.context(pooled), dim=-1))
        if histories is not None:
            outputs.append(functional.normalize(self._moves(*histories, shared), dim=-1))
        return tuple(outputs)

    def _moves(self, values: torch.Tensor, known: torch.Tensor, shared: int) -> torch.Tensor:
        """Return the projected mean of the tower's outputs over the moves, (N, W)."""
        past: Cache = []
        total: torch.Tensor | float = 0.0
        spans = [slice(shared), slice(shared, None)] if shared else [slice(None)]
        for number, span in enumerate(spans):
            rows = (
                slice(1) if number + 1 < len(spans) else slice(None)
            )  # the shared prefix is the same for all
            x = self.move(values[rows, span]) + self.positions[span]
            outputs, past = self.tower(x, known[rows, : span.stop], past)
            total = total + (outputs * known[rows, span, None]).sum(1)
        mean: torch.Tensor = self.moves(total / known.sum(-1, keepdim=True))
        return mean

    def initialise(self, generator: torch.Generator) -> None:
        """Draw initial parameters."""
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
                # scale down residual branches by the number of blocks that add to one stream
                stack = self.tower.layers if name.startswith("tower") else self.seen.blocks
                tensor.mul_((2 * len(stack)) ** -0.5)
        else:
            tensor.normal_(0.0, 0.02 if name == "positions" else 1.0, generator=generator)


def shared_moves(values: torch.Tensor, known: torch.Tensor) -> int:
    """Return the number of leading entries that are equal in all N histories, given (N, H, A) and (N, H).

    At least one entry of each history is not counted.
    """
    is_equal = (values == values[:1]).all(-1).all(0) & (known == known[:1]).all(0)
    return min(int(is_equal.long().cumprod(0).sum()), int(values.shape[1]) - 1)
