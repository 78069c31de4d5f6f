"""Chat messages, the images in them, and sanitizing of text that goes into them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from msgspec import Meta

from render_agent.scans.camera import AnyCamera
from render_agent.util.contained_paths import IMAGE_NAME
from render_agent.util.safe_parse import Count, Either

ImageFile = Annotated[str, Meta(pattern=IMAGE_NAME)]


class TextPiece(TypedDict):
    """A text part of a message."""

    text: str
    type: Literal["text"]


class ImagePiece(TypedDict):
    """An image part of a message; `image` is its file in the run folder."""

    type: Literal["image"]
    image: ImageFile


if TYPE_CHECKING:
    Message = dict[str, Any]  # Only the keys below are read; messages may have others.
else:

    class Message(TypedDict):
        """{"role": "system" | "user" | "assistant", "content": [piece, …]}.

        Further keys: `tool_calls`, `tool_call_id` and `name` as in chat completions; `blocks` of a reply.
        """

        role: str
        content: list[Either[TextPiece, ImagePiece]]


Piece = dict[str, str]
# The content of a reply in the format of the API that returned it.
Blocks = tuple[dict[str, Any], ...]

_SPECIAL_TOKEN = re.compile(r"<([|/｜]?[^\W\d][^<>\s]*)>")
_BRACKETED_TOKEN = re.compile(  # Mistral's control tokens
    r"\[(/?(?:IMG|INST|THINK|TOOL|AVAILABLE|SYSTEM|MODEL|AUDIO)[A-Z_]*)\]"
)
# Marks around thoughts of Qwen, Seed, Magistral, Kimi and Gemma, and those of models that only imitate them.
_THINK_MARK = re.compile(
    r"(</?(?:seed:)?(?:think(?:ing)?|thought)>|\[/?THINK\]|◁/?think▷|<\|channel>thought\b|<channel\|>)",
    re.IGNORECASE,
)
_UNENCODABLE = re.compile("[\x00\ud800-\udfff]")


def text(content: str) -> Piece:
    """Return a text piece with special tokens escaped (see `escape_special_tokens`)."""
    return {"type": "text", "text": escape_special_tokens(content)}


def image_piece(file: str) -> Piece:
    """Return an image piece for a file in the run folder."""
    return {"type": "image", "image": file}


def message(role: str, *pieces: Piece) -> Message:
    """Build a message."""
    return {"role": role, "content": list(pieces)}


def assistant(reply: str) -> Message:
    """Return the assistant message for a reply: without thinking, and never empty."""
    return message("assistant", text(without_thinking(reply).strip() or "(no reply)"))


def with_blocks(reply: Message, blocks: Blocks) -> Message:
    """Return the message of a reply with the content that its API requires back verbatim."""
    return {**reply, "blocks": list(blocks)} if blocks else reply


def image_files(messages: list[Message]) -> list[str]:
    """Return the image files in the messages, in order."""
    pieces = (piece for entry in messages for piece in entry["content"])
    return [piece["image"] for piece in pieces if piece["type"] == "image"]


def escape_special_tokens(content: str) -> str:
    """Escape special tokens ("<|im_end|>", "<image>", "[IMG]"), so that tokenizers treat them as text.

    Their brackets are replaced with look-alike characters. Nothing is removed, so no new token can form.
    """
    return replace_unencodable(_BRACKETED_TOKEN.sub("‹\\1›", _SPECIAL_TOKEN.sub("‹\\1›", content)))


def map_texts(change: Callable[[str], str], value: Any) -> Any:
    """Apply `change` to all strings in a JSON value, including keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(str(key)): map_texts(change, item) for key, item in value.items()}
    return [map_texts(change, item) for item in value] if isinstance(value, list) else value


def replace_unencodable(content: str) -> str:
    """Replace lone surrogates and NULs, which UTF-8 encoders or tokenizers reject."""
    try:
        content.encode()
    except UnicodeEncodeError:
        return _UNENCODABLE.sub("\ufffd", content)
    return content.replace("\0", "\ufffd")


def without_thinking(reply: str) -> str:
    """Return a reply without its <think> blocks, which are logged but neither parsed nor fed back."""
    return split_thinking(reply)[1]


def split_thinking(reply: str) -> tuple[list[str], str]:
    """Split a reply into its <think> blocks and the text outside them. Other models' marks count as <think>.

    A block that was opened in the prompt ends at the first </think>; a block that was cut off extends to
    the end of the reply.
    """
    blocks: list[str] = []
    outside: list[str] = []
    is_thinking = False
    for index, part in enumerate(_THINK_MARK.split(reply)):
        is_mark = index % 2 == 1
        is_closing = is_mark and ("/" in part or part.endswith("|>"))
        if is_closing and not is_thinking:
            blocks, outside = ["".join(outside)], []
        elif not is_mark:
            (blocks if is_thinking else outside).append(part)
        is_thinking = (is_thinking or is_mark) and not is_closing
    return blocks, "".join(outside)


@dataclass(frozen=True, slots=True)
class View:
    """An image that the model was shown."""

    number: Count  # index within the question, from 0
    kind: str
    file: ImageFile  # the image file, relative to the run folder
    camera: AnyCamera | None
    """The camera it was rendered with; for `around`, the first of the four. None for a target, whose pose is hidden."""
