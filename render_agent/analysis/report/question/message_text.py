"""The messages of a dialogue as a page has them, word for word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.chat import Message
from render_agent.dialogue.state import QuestionState


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A message of the prompt: the turn (from 1) that it was new in, who says it, its pieces in words."""

    turn: int
    role: str
    pieces: tuple[str, ...]


def message_parts(state: QuestionState) -> list[MessagePart]:
    """Return every message as the model read it; pictures by their files."""
    return [
        MessagePart(turn.number + 1, message["role"], _pieces(message))
        for turn in state.turns
        for message in turn.messages
    ]


def _pieces(message: Message) -> tuple[str, ...]:
    pieces: Sequence[Mapping[str, Any]] = message["content"]
    return tuple(
        f"[picture {piece['image']}]" if piece["type"] == "image" else piece["text"]
        for piece in pieces
    )
