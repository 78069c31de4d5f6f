"""Attention of one new token a row, without copying the keys that several heads share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

NAME = "one_token_a_row"


@contextmanager
def one_token_a_row(model: Any) -> Iterator[None]:
    """Let a model attend so within; only where it would use `sdpa`, and its masks are our own.

    The library repeats keys and values for every head that shares them where there is a mask (up to
    version 5.17 for one token, too): for an 8B Qwen3-VL four times what is kept, copied every step.
    """
    config = model.config.get_text_config()
    if config._attn_implementation != "sdpa":
        yield
        return
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, attend)
    config._attn_implementation = NAME
    try:
        yield
    finally:
        config._attn_implementation = "sdpa"


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[torch.Tensor, None]:
    """Return what each row's one query attends to, (rows, 1, heads, width).

    query: (rows, heads, 1, width). key, value: (rows, shared heads, tokens, width). attention_mask:
    (rows, 1, 1, tokens) of bool. The heads that share keys stand as several queries of one head.
    """
    rows, heads, _, width = query.shape
    shared = key.shape[1]
    attended = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, shared, heads // shared, width),
        key,
        value,
        attn_mask=attention_mask,
        scale=scaling,
    )
    return attended.reshape(rows, 1, heads, value.shape[-1]), None
