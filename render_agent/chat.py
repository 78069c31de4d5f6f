"""Chat messages: their form, and texts made safe to stand in them."""

from __future__ import annotations

import re
from typing import Any

Message = dict[str, Any]
"""{"role": "system" | "user" | "assistant", "content": [piece, …]}, a piece as `text` and `picture` make it."""

Piece = dict[str, str]


def text(words: str) -> Piece:
    """Return a piece of text, harmless to any model's tokenizer."""
    return {"type": "text", "text": harmless(words)}


def picture(file: str) -> Piece:
    """Return a picture, by its file in the run folder."""
    return {"type": "image", "image": file}


def message(role: str, *pieces: Piece) -> Message:
    """Return one message."""
    return {"role": role, "content": list(pieces)}


def assistant(reply: str) -> Message:
    """Return the message that holds a reply as it is fed back: without its thinking, never empty."""
    return message("assistant", text(without_thinking(reply).strip() or "(no reply)"))


def pictures(messages: list[Message]) -> list[str]:
    """Return the files of all pictures in the messages, in order."""
    pieces = (piece for entry in messages for piece in entry["content"])
    return [piece["image"] for piece in pieces if piece["type"] == "image"]


def harmless(words: str) -> str:
    """Return a text in which nothing reads as a special token ("<|im_end|>", "<image>", "</think>").

    Tokenizers take such words for control tokens wherever they stand; the angle brackets become
    similar characters that no vocabulary gives a meaning.
    """
    return re.sub(r"<([|/]?[A-Za-z_][\w ./:-]*[|]?)>", "‹\\1›", words)


def without_thinking(reply: str) -> str:
    """Return a reply without its <think> blocks, which are logged but neither read nor fed back."""
    reply = re.sub(r"<think>.*?</think>", "", reply, flags=re.DOTALL)
    reply = reply.rpartition("</think>")[2]
    return reply.partition("<think>")[0]
