"""The language model over a batch of dialogues: the model's own weights, padded on the right, loss at replies.

The model's own forward makes a mask for every row; where all padding is on the right, none is needed. A
test holds the two to the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.shape import COLUMNS_OF_TOKENS, ROWS_OF_TOKENS, TOKENS, WIDTH


@dataclass(frozen=True, eq=False)
class Batch:
    """Dialogues side by side, padded on the right.

    ids: (n, tokens) int64. places: (3, n, tokens) int64, Qwen3-VL's positions in time, down and across.
    pictures: (shown,) rows of the features, in the order in which the dialogues show them. weights:
    (n, tokens) float32, what the loss of predicting each token counts; 0 for what is not learned.
    """

    ids: NDArray[np.int64]
    places: NDArray[np.int64]
    pictures: NDArray[np.int64]
    weights: NDArray[np.float32]


def batch_of(
    ids: Sequence[NDArray[np.int16]],
    weights: Sequence[NDArray[np.float32]],
    pictures: Sequence[Sequence[int]],
    picture_token: int,
    padding: int,
) -> Batch:
    """Return dialogues as a batch; weights: of each of their tokens."""
    longest = max(map(len, ids))
    shape = len(ids), longest
    all_ids = np.full(shape, padding, np.int64)
    all_weights = np.zeros(shape, np.float32)
    places = np.zeros((3, *shape), np.int64)
    for row, (some, weight) in enumerate(zip(ids, weights, strict=True)):
        all_ids[row, : len(some)] = some
        all_weights[row, : len(some)] = weight
        places[:, row, : len(some)] = positions(some == picture_token)
    shown = np.array([number for some in pictures for number in some], np.int64)
    return Batch(all_ids, places, shown, all_weights)


def positions(picture: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the positions of a dialogue's tokens, (3, tokens): time, down, across.

    picture: (tokens,) which of them are of pictures, all of one size. As `get_rope_index` of Qwen3-VL
    has it: text counts on by one; a picture's tokens share their time, and what follows it begins behind
    its longer side.
    """
    starts = np.flatnonzero(picture & ~np.concatenate([[False], picture[:-1]]))
    found = np.zeros((3, len(picture)), np.int64)
    at = done = 0
    down, across = np.divmod(np.arange(TOKENS), COLUMNS_OF_TOKENS)
    for start in starts:
        for first in range(int(start), _end(picture, int(start)), TOKENS):
            found[:, done:first] = at + np.arange(first - done)
            at += first - done
            found[0, first : first + TOKENS] = at
            found[1, first : first + TOKENS] = at + down
            found[2, first : first + TOKENS] = at + across
            at += max(ROWS_OF_TOKENS, COLUMNS_OF_TOKENS)
            done = first + TOKENS
    found[:, done:] = at + np.arange(len(picture) - done)
    return found


def _end(picture: NDArray[np.bool_], start: int) -> int:
    others = np.flatnonzero(~picture[start:])
    return start + int(others[0]) if len(others) else len(picture)


class Language:
    """Runs the language model of a Qwen3-VL on batches of dialogues.

    model: the whole model, in the number format that it shall run in. picture_token: the placeholder.
    """

    def __init__(self, model: Any, picture_token: int) -> None:
        self.text = model.model.language_model
        self.picture_token = picture_token

    def scores(self, batch: Batch, features: tuple[Any, Any] | None) -> tuple[Any, Any]:
        """Return the scores of what comes next, (learned, vocabulary) float32, and the flat index of each.

        features: what the tower gives for the batch's pictures, each (shown, 70, 256); None without any.
        The index is that of the token predicted, which stands behind the one whose scores they are.
        """
        import torch
        from torch.nn import functional

        text = self.text
        ids = torch.from_numpy(batch.ids)
        x = text.embed_tokens(ids)
        shown = (ids == self.picture_token).flatten().nonzero().flatten()
        deeper = None
        if features is not None and len(shown):
            merged, deeper = (part.reshape(-1, WIDTH).to(x.dtype) for part in features)
            x = x.view(-1, WIDTH).index_copy(0, shown, merged).view(x.shape)
        length = x.shape[1]
        later = torch.full((length, length), -torch.inf, dtype=x.dtype).triu(1)
        cos, sin = text.rotary_emb(x, torch.from_numpy(batch.places))
        for number, layer in enumerate(text.layers):
            x = self._layer(layer, x, cos[:, None], sin[:, None], later)
            if number == 0 and deeper is not None:
                x = x.view(-1, WIDTH).index_add(0, shown, deeper).view(x.shape)
        learned = torch.from_numpy(np.flatnonzero(batch.weights.ravel()))
        x = normed(x.reshape(-1, WIDTH)[learned - 1], text.norm)
        return functional.linear(x, text.embed_tokens.weight).float(), learned

    def _layer(self, layer: Any, x: Any, cos: Any, sin: Any, later: Any) -> Any:
        from torch.nn import functional

        mlp = layer.mlp
        x = x + attended(layer.self_attn, normed(x, layer.input_layernorm), cos, sin, later)
        y = normed(x, layer.post_attention_layernorm)
        return x + mlp.down_proj(functional.silu(mlp.gate_proj(y)) * mlp.up_proj(y))


def attended(attention: Any, x: Any, cos: Any, sin: Any, mask: Any) -> Any:
    """Return what an attention of the language model makes of tokens, (n, tokens, width).

    cos, sin: of their positions, (n, 1, tokens, head). mask: (tokens, tokens), added to the scores.
    """
    shape = (*x.shape[:2], -1, attention.head_dim)
    q = normed(attention.q_proj(x).view(shape), attention.q_norm).transpose(1, 2)
    k = normed(attention.k_proj(x).view(shape), attention.k_norm).transpose(1, 2)
    v = attention.v_proj(x).view(shape).transpose(1, 2)
    q, k = _turned(q, cos, sin), _turned(k, cos, sin)
    groups = attention.num_key_value_groups
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    # on a processor faster than the fused form, whose way back is slow
    mixed = (q * attention.scaling @ k.transpose(-1, -2) + mask).softmax(-1) @ v
    return attention.o_proj(mixed.transpose(1, 2).reshape(*x.shape[:2], -1))


def normed(x: Any, norm: Any) -> Any:
    """Return tokens as a norm of the language model leaves them."""
    from torch.nn import functional

    return functional.rms_norm(x, (x.shape[-1],), norm.weight, norm.variance_epsilon)


def _turned(x: Any, cos: Any, sin: Any) -> Any:
    import torch

    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
