"""Special tokens: those that end a reply, those that must not occur in one, and those to escape in input texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from render_agent.dialogue.chat import Message, map_texts

MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # added tokens of this form are control tokens
WORD_JOINER = "\u2060"  # invisible character that breaks up a special token
IMAGE_TOKEN_NAMES = re.compile(r"image|img|video|vision", re.IGNORECASE)


def image_token_ids(config: Any, tokenizer: Any) -> list[int]:
    """Return the sorted ids of all tokens that represent or delimit images and videos.

    They must be suppressed while generating: a reply that contains one cannot be part of a later prompt.
    """
    ids_in_config = (
        value
        for name, value in vars(config).items()
        if IMAGE_TOKEN_NAMES.search(name) and name.endswith(("token_id", "token_index"))
    )
    ids_of_tokens = (
        token_id
        for text, token_id in tokenizer.get_added_vocab().items()
        if IMAGE_TOKEN_NAMES.search(text)
    )
    return sorted(
        {
            value
            for value in (*ids_in_config, *ids_of_tokens)
            if isinstance(value, int) and value >= 0
        }
    )


def special_token_escaper(tokenizer: Any) -> Callable[[Sequence[Message]], list[Message]]:
    """Return a function that escapes this tokenizer's special tokens in messages, so that they are read as text.

    Message texts are already escaped for common tokenizers; this adds tokens such as `[gMASK]` or `TILE_1`.
    """
    own_tokens, added_tokens = set(tokenizer.all_special_tokens), tokenizer.get_added_vocab()
    special = [
        text
        for text in added_tokens
        if len(text) > 1 and (text in own_tokens or MARKER.fullmatch(text))
    ]
    pattern = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def split_token(match: re.Match[str]) -> str:
        return match[0][0] + WORD_JOINER + match[0][1:]

    def escape_text(text: str) -> str:
        return pattern.sub(split_token, text) if special else text

    def escape_piece(piece: dict[str, Any]) -> dict[str, Any]:
        return {**piece, "text": escape_text(piece["text"])} if piece["type"] == "text" else piece

    def escape_message(message: Message) -> Message:
        result = {**message, "content": [escape_piece(piece) for piece in message["content"]]}
        if "tool_calls" in message:
            result["tool_calls"] = map_texts(escape_text, message["tool_calls"])
        return result

    def escape(messages: Sequence[Message]) -> list[Message]:
        return [*map(escape_message, messages)]

    return escape


def end_tokens(model: Any, tokenizer: Any) -> list[int]:
    """Return the ids of the tokens that end a reply; empty if only the token limit ends it."""
    ids = model.generation_config.eos_token_id
    if ids is None:
        ids = tokenizer.eos_token_id
    if ids is None:
        return []
    return list(ids) if isinstance(ids, (list, tuple)) else [int(ids)]


def pad_token(tokenizer: Any, ends: list[int]) -> int:
    """Return the id of the padding token; if the tokenizer has none, set it to the first end token."""
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token_id = ends[0] if ends else 0
    return int(tokenizer.pad_token_id)
