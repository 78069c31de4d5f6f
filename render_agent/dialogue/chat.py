"""Chat messages: their form, and texts made safe to stand in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from msgspec import Meta

from render_agent.util.contained_paths import PICTURE
from render_agent.util.safe_parse import Either

PictureFile = Annotated[str, Meta(pattern=PICTURE)]


class TextPiece(TypedDict):
    """A piece of a message that is a text."""

    text: str
    type: Literal["text"]


class PicturePiece(TypedDict):
    """A piece of a message that is a picture, by its file in the run folder."""

    type: Literal["image"]
    image: PictureFile


if TYPE_CHECKING:
    Message = dict[str, Any]
    """Whoever makes one may add to it; what is read of one is what stands below."""
else:

    class Message(TypedDict):
        """{"role": "system" | "user" | "assistant", "content": [piece, …]}."""

        role: str
        content: list[Either[TextPiece, PicturePiece]]


Piece = dict[str, str]

_SPECIAL_TOKEN = re.compile(r"<([|/｜]?[^\W\d][^<>\s]*)>")
_BRACKETED_TOKEN = re.compile(
    r"\[(/?(?:IMG|INST|THINK|TOOL|AVAILABLE|SYSTEM|MODEL|AUDIO)[A-Z_]*)\]"
)
"""Mistral's control tokens."""

_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")


def text(words: str) -> Piece:
    """Return a piece of text, harmless to the tokenizers of the models that are served."""
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
    """Return a text in which nothing reads as a special token ("<|im_end|>", "<image>", "[IMG]").

    Tokenizers take such words for control tokens wherever they stand; their brackets become similar
    characters that no vocabulary gives a meaning. Nothing is taken out, so no new token can form.
    """
    return encodable(_BRACKETED_TOKEN.sub("‹\\1›", _SPECIAL_TOKEN.sub("‹\\1›", words)))


def encodable(words: str) -> str:
    """Return a text that UTF-8 and every tokenizer can take: lone surrogates and NULs are replaced."""
    try:
        words.encode()
    except UnicodeEncodeError:
        return _UNENCODABLE.sub("\ufffd", words)
    return words.replace("\0", "\ufffd")


def without_thinking(reply: str) -> str:
    """Return a reply without its <think> blocks, which are logged but neither read nor fed back."""
    return thinking_and_rest(reply)[1]


def thinking_and_rest(reply: str) -> tuple[list[str], str]:
    """Return the <think> blocks of a reply, and what is left of it without them.

    A block that was opened in the prompt ends at the first </think>; one that was cut off runs to
    the end.
    """
    blocks: list[str] = []
    kept: list[str] = []
    thinking = False
    for part in re.split("(</?think>)", reply):
        if part == "</think>" and not thinking:
            blocks, kept = ["".join(kept)], []
        elif part not in ("<think>", "</think>"):
            (blocks if thinking else kept).append(part)
        thinking = part == "<think>" or (thinking and part != "</think>")
    return blocks, "".join(kept)
