"""Which tokens end a reply, which must not stand in one, and which a text from outside must not become."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from render_agent.dialogue.chat import Message

MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)
"""An added token of this form stands for something else than its own text."""

WORD_JOINER = "\u2060"
"""A character that is not seen and means nothing; it parts what would be read as one token."""

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


def disarming(tokenizer: Any) -> Callable[[Sequence[Message]], list[Message]]:
    """Return a function that splits special tokens of this tokenizer in the texts of messages, so that they are read as text.

    Texts are harmless to most tokenizers already; this knows the very tokens of one, such as `[gMASK]` or `TILE_1`.
    """
    own, added = set(tokenizer.all_special_tokens), tokenizer.get_added_vocab()
    special = [text for text in added if len(text) > 1 and (text in own or MARKER.fullmatch(text))]
    pattern = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def parted(match: re.Match[str]) -> str:
        return match[0][0] + WORD_JOINER + match[0][1:]

    def piece(entry: dict[str, Any]) -> dict[str, Any]:
        if entry["type"] != "text" or not special:
            return entry
        return {**entry, "text": pattern.sub(parted, entry["text"])}

    def disarmed(messages: Sequence[Message]) -> list[Message]:
        return [
            {**entry, "content": [piece(part) for part in entry["content"]]} for entry in messages
        ]

    return disarmed


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
