"""Estimates the number of tokens of images and texts without the model's tokenizer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil

from render_agent.dialogue.chat import Message

# Side in pixels of the square that becomes one token, by part of the model name. InternVL encodes a tile of 448 × 448
# pixels in 256 tokens; the number of tiles depends on its options.
TOKEN_SIDE_PIXELS = {"qwen2-vl": 28, "qwen2.5-vl": 28, "internvl": 28}
DEFAULT_TOKEN_SIDE_PIXELS = 32  # Qwen3-VL, and the guess for all other models

CHARACTERS_PER_TOKEN = 4  # of English text

# Tokens per image of any size, at the default media resolution of Gemini 3 and later; 258 per tile before.
# https://ai.google.dev/gemini-api/docs/media-resolution and /tokens
GEMINI_TOKENS, GEMINI_TILE_TOKENS = 1120, 258

CLAUDE_SIDE_PIXELS = (
    28  # of one token; https://platform.claude.com/docs/en/build-with-claude/vision
)

# Pattern in the name of an OpenAI model -> tokens per patch of 32 pixels, or (base, tokens per tile of 512 pixels).
# Tiles, -nano (gpt-4.1-nano) and -mini (o4-mini, the highest) are from https://developers.openai.com/api/docs/guides/
# images-vision. 1.2 per patch was measured by users with gpt-5.2 and gpt-5.4 (https://community.openai.com/t/1377015,
# which reports 1.2 to 1.5 for -mini and -nano of gpt-5, too); it is assumed for later models.
GPT_IMAGES: tuple[tuple[str, tuple[int, int] | float], ...] = (
    (r"gpt-4o-mini", (2833, 5667)),
    (r"gpt-4o|gpt-4\.1(-\d|$)|o[13](-\d|$)", (85, 170)),
    (r"gpt-5(\.1)?(-\d|$)", (70, 140)),
    (r"-nano", 2.46),
    (r"-mini", 1.72),
    (r"", 1.2),
)


def hosted_image_tokens(
    name: str,
    width: int,  # width in pixels
    height: int,  # height in pixels
) -> int | None:
    """Return an upper bound on the tokens that Anthropic, OpenAI or Google count for an image; None for other models.

    The services scale large images down, which is not taken into account except for tiles of OpenAI.
    """

    def squares(side: float) -> int:
        return ceil(width / side) * ceil(height / side)

    shorter = min(width, height)
    if name.startswith("claude"):
        return squares(CLAUDE_SIDE_PIXELS)
    if name.startswith("gemini"):
        tiles = 1 if max(width, height) <= 384 else squares(shorter / 1.5)
        return GEMINI_TILE_TOKENS * tiles if re.match("gemini-[12]", name) else GEMINI_TOKENS
    if not re.match(r"gpt-(?!oss)|o\d", name):
        return None
    rule = next(rule for pattern, rule in GPT_IMAGES if re.search(pattern, name))
    if isinstance(rule, tuple):  # the shorter side is scaled to 768 pixels
        return rule[0] + rule[1] * squares(512 * shorter / 768)
    return ceil(rule * squares(32))


def image_tokens(model: str, width: int, height: int) -> int:
    """Estimate the number of tokens of an image from the model's name and the size in pixels."""
    name = model.lower().replace("_", "-")
    if (hosted_tokens := hosted_image_tokens(name.rpartition("/")[2], width, height)) is not None:
        return hosted_tokens
    side = next(
        (side for part, side in TOKEN_SIDE_PIXELS.items() if part in name),
        DEFAULT_TOKEN_SIDE_PIXELS,
    )
    return max(1, round(width / side)) * max(1, round(height / side))


def text_tokens(messages: Sequence[Message]) -> int:
    """Estimate the number of tokens of the texts in messages; images are not counted."""
    pieces = (piece for entry in messages for piece in entry["content"])
    return ceil(sum(len(piece.get("text", "")) for piece in pieces) / CHARACTERS_PER_TOKEN)
