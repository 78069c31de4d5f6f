"""Which tokens end a reply, and which must not stand in one."""

from __future__ import annotations

import re
from typing import Any

PICTURE_TOKEN_NAMES = re.compile(r"image|img|video|vision", re.IGNORECASE)


def picture_tokens(config: Any, tokenizer: Any) -> list[int]:
    """Return the ids that stand for pictures and videos or frame them, in order.

    A model that writes one gives a reply that no later prompt can hold. config: of the model.
    """
    named = (
        value
        for name, value in vars(config).items()
        if PICTURE_TOKEN_NAMES.search(name) and name.endswith(("token_id", "token_index"))
    )
    added = (
        number
        for text, number in tokenizer.get_added_vocab().items()
        if PICTURE_TOKEN_NAMES.search(text)
    )
    return sorted({value for value in (*named, *added) if isinstance(value, int) and value >= 0})


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids that end a reply; empty where only the token limit does."""
    published = model.generation_config.eos_token_id
    if published is None:
        published = tokenizer.eos_token_id
    if published is None:
        return []
    return list(published) if isinstance(published, (list, tuple)) else [int(published)]


def pad_token(tokenizer: Any, ends: list[int]) -> int:
    """Return the id that fills up shorter rows; it is set on the tokenizer where it has none."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = ends[0] if ends else 0
    return int(tokenizer.pad_token_id)
