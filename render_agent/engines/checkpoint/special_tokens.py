"""Special tokens: those that end a reply, those that must not occur in one, and those to escape in input texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from render_agent.dialogue.chat import Message
from render_agent.errors import SetupError

MARKER = re.compile(r"<.+>|\[.+\]", re.DOTALL)  # added tokens of this form are control tokens
WORD_JOINER = "\u2060"  # invisible character that breaks up a special token
IMAGE_TOKEN_NAMES = re.compile(r"image|img|video|vision", re.IGNORECASE)


def image_token_ids(config: Any, tokenizer: Any) -> list[int]:
    """Return the sorted ids of all tokens that represent or delimit images and videos.

    They must be suppressed while generating: a reply that contains one cannot be part of a later prompt.

    Args:
        config: Configuration of the model.
        tokenizer: Tokenizer of the model.
    """
    configured = (
        value
        for name, value in vars(config).items()
        if IMAGE_TOKEN_NAMES.search(name) and name.endswith(("token_id", "token_index"))
    )
    added = (
        token_id
        for text, token_id in tokenizer.get_added_vocab().items()
        if IMAGE_TOKEN_NAMES.search(text)
    )
    return sorted(
        {value for value in (*configured, *added) if isinstance(value, int) and value >= 0}
    )


def special_token_escaper(tokenizer: Any) -> Callable[[Sequence[Message]], list[Message]]:
    """Return a function that escapes this tokenizer's special tokens in messages, so that they are read as text.

    Message texts are already escaped for common tokenizers; this adds tokens such as `[gMASK]` or `TILE_1`.
    """
    own, added = set(tokenizer.all_special_tokens), tokenizer.get_added_vocab()
    special = [text for text in added if len(text) > 1 and (text in own or MARKER.fullmatch(text))]
    pattern = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def split_token(match: re.Match[str]) -> str:
        return match[0][0] + WORD_JOINER + match[0][1:]

    def escape_piece(piece: dict[str, Any]) -> dict[str, Any]:
        if piece["type"] != "text" or not special:
            return piece
        return {**piece, "text": pattern.sub(split_token, piece["text"])}

    def escape_value(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: escape_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [escape_value(item) for item in value]
        return pattern.sub(split_token, value) if isinstance(value, str) and special else value

    def escape_message(message: Message) -> Message:
        escaped = {**message, "content": [escape_piece(piece) for piece in message["content"]]}
        if "tool_calls" in message:
            escaped["tool_calls"] = escape_value(message["tool_calls"])
        return escaped

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


def check_tools(name: str, processor: Any, tools: Sequence[Mapping[str, Any]] | None) -> None:
    """Check that a chat template passes on tools, calls, their results, and images.

    Args:
        name: Name of the model, for the message.
        processor: Its processor.
        tools: The tools of a run; None if its replies are plain text.

    Raises:
        SetupError: The template drops one of them.
    """
    if tools is None:
        return
    call = {"name": "look", "arguments": {"view": "sentinel-view"}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": [{"type": "text", "text": "sentinel-system"}]},
        {"role": "user", "content": [{"type": "text", "text": "sentinel-user"}]},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "sentinel-thought"}],
            "tool_calls": [{"id": "t0000c000", "type": "function", "function": call}],
        },
        {
            "role": "tool",
            "name": "look",
            "tool_call_id": "t0000c000",
            "content": [{"type": "text", "text": "sentinel-result"}],
        },
        {"role": "user", "content": [{"type": "text", "text": "sentinel-next"}, {"type": "image"}]},
    ]
    try:
        text = processor.apply_chat_template(
            messages, tools=tools, tokenize=False, add_generation_prompt=True
        )
    except Exception as error:  # noqa: BLE001 - templates raise anything
        text = ""
        reason = f"it raises {type(error).__name__}: {error}"
    parts = ["sentinel-user", "sentinel-view", "sentinel-result", "sentinel-next"]
    parts += [tool["function"]["name"] for tool in tools]
    parts += [token] if (token := getattr(processor, "image_token", None)) else []
    missing = [part for part in parts if part not in text]
    if text:
        reason = f"it drops {', '.join(missing)}"
    if missing:
        raise SetupError(
            f"the chat template of {name} has no tool calls ({reason}). Use --reply-protocol json."
        )
