"""Estimates the number of tokens of images and texts without the model's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from render_agent.dialogue.chat import Message

# Side in pixels of the square that becomes one token, by part of the model name. InternVL encodes a tile of 448 × 448
# pixels in 256 tokens; the number of tiles depends on its options.
TOKEN_SIDE_PIXELS = {"qwen2-vl": 28, "qwen2.5-vl": 28, "internvl": 28}
DEFAULT_TOKEN_SIDE_PIXELS = 32  # Qwen3-VL, and the guess for all other models

CHARACTERS_PER_TOKEN = 4  # of English text


def picture_tokens(model: str, width: int, height: int) -> int:
    """Estimate the number of tokens of an image from the model's name and the size in pixels."""
    normalized = model.lower().replace("_", "-")
    side = next(
        (side for part, side in TOKEN_SIDE_PIXELS.items() if part in normalized),
        DEFAULT_TOKEN_SIDE_PIXELS,
    )
    return max(1, round(width / side)) * max(1, round(height / side))


def text_tokens(messages: Sequence[Message]) -> int:
    """Estimate the number of tokens of the texts in messages; images are not counted."""
    pieces = (piece for entry in messages for piece in entry["content"])
    return ceil(sum(len(piece.get("text", "")) for piece in pieces) / CHARACTERS_PER_TOKEN)
