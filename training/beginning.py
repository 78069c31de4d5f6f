"""How the language model begins: names lie where the tower puts what they name, and alike attends to alike.

From random weights the model has to find out by chance that a name and a part of a picture belong together
before it can learn anything from places. Perception has found out already; this hands it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from training.labels import LABELS, TARGETS
from training.shape import WIDTH

CELLS = 16
"""Cells of a token, which perception's reader reads one by one."""

SHARP = 1.5
"""What the norms of queries and keys begin with, so that attention begins less even."""


def begin(model: Any, weights: Mapping[str, Any], tokenizer: Any) -> None:
    """Set a new language model to begin where perception ended.

    weights: of the checkpoint of perception, by name. ValueError where a name is not one token.
    """
    import torch

    text = model.model.language_model
    reader = weights["reader.weight"].view(CELLS, -1, 2 * WIDTH)
    if reader.shape[1] != len(LABELS) + 1 + TARGETS:
        raise ValueError("perception read other classes")
    classes = reader[:, 1 : len(LABELS) + 1, :WIDTH].mean(dim=0)
    classes = classes - classes.mean(dim=0)
    ids = [tokenizer(name)["input_ids"] for name in LABELS]
    if any(len(some) != 1 for some in ids):
        raise ValueError("the name of an object is more than one token")
    with torch.no_grad():
        table = text.embed_tokens.weight
        length = table.float().norm(dim=1).median()
        table[[some[0] for some in ids]] = (
            classes / classes.norm(dim=1, keepdim=True) * length
        ).to(table.dtype)
        for layer in text.layers:
            attention = layer.self_attn
            keys = attention.k_proj.weight
            heads = attention.q_proj.weight.view(
                -1, attention.num_key_value_groups, attention.head_dim, WIDTH
            )
            keys.copy_(heads[:, 0].reshape(keys.shape))
            attention.q_norm.weight.fill_(SHARP)
            attention.k_norm.weight.fill_(SHARP)
