"""About how many tokens images and texts take, without the model's tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from render_agent.dialogue.chat import Message

TOKEN_SIDE_PIXELS = {"qwen2-vl": 28, "qwen2.5-vl": 28, "internvl": 28}
"""Sides of the square of pixels that is one token, by a part of the model's name.

InternVL's is that of a tile of 448 × 448 in 256 tokens; how many tiles it cuts depends on its options.
"""

DEFAULT_TOKEN_SIDE_PIXELS = 32
"""That of Qwen3-VL, and the guess for all others."""

CHARACTERS_A_TOKEN = 4
"""Of English text."""


def picture_tokens(model: str, width: int, height: int) -> int:
    """Return about how many tokens a picture of so many pixels takes, from the model's name."""
    named = model.lower().replace("_", "-")
    side = next(
        (side for part, side in TOKEN_SIDE_PIXELS.items() if part in named),
        DEFAULT_TOKEN_SIDE_PIXELS,
    )
    return max(1, round(width / side)) * max(1, round(height / side))


def text_tokens(messages: Sequence[Message]) -> int:
    """Return about how many tokens the texts of messages take."""
    pieces = (piece for entry in messages for piece in entry["content"])
    return ceil(sum(len(piece.get("text", "")) for piece in pieces) / CHARACTERS_A_TOKEN)
