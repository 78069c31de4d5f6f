"""The JSON of chat completions: a request as a server reads it, and the samples and tokens of its answer."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import Message
from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Request
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.server_compat import ServerDialect


def data_url(picture: Image) -> str:
    """Return a picture as a data URL; lossless, lightly compressed, as pictures are stored."""
    written = io.BytesIO()
    picture.save(written, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode("ascii")


def wire_messages(
    messages: Sequence[Message], url: Callable[[str], str], detail: str | None = None
) -> list[dict[str, Any]]:
    """Return messages as servers read them, pictures as data URLs.

    A single text becomes a plain string, which every server takes and none splits.
    """

    def piece(entry: Mapping[str, str]) -> dict[str, Any]:
        if entry["type"] != "image":
            return {"type": "text", "text": entry["text"]}
        image = {"url": url(entry["image"])}
        return {"type": "image_url", "image_url": image | ({"detail": detail} if detail else {})}

    written = []
    for message in messages:
        content = [piece(entry) for entry in message["content"]]
        alone = len(content) == 1 and content[0]["type"] == "text"
        written.append(
            {"role": message["role"], "content": content[0]["text"] if alone else content}
        )
    return written


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a server: the messages, the number of samples, and the seed of the first."""

    request: Request
    messages: Sequence[Mapping[str, Any]]
    samples: int
    seed: int

    def fields(self, dialect: ServerDialect, options: OpenAIOptions) -> dict[str, Any]:
        """Return all fields but the model and the messages, as the server's dialect has them."""
        request = self.request
        wanted: dict[str, Any] = {"temperature": request.temperature, "seed": self.seed}
        if self.samples > 1:
            wanted["n"] = self.samples
        for name in ("top_p", "reasoning_effort"):
            if (value := getattr(options, name)) is not None:
                wanted[name] = value
        if request.thinking_budget is not None:
            wanted["thinking_token_budget"] = request.thinking_budget
        if request.schema is not None and (form := dialect.response_format(request.schema)):
            wanted["response_format"] = form
        return {**dialect.fields(wanted, request.most_tokens), **options.extra_body}


MAX_COUNT = 10**15
"""A server that tells of more tokens than that does not count them."""


def read_answer(body: Any) -> Reply | None:
    """Return the samples of a complete chat answer, with their thinking; None where the body is no such answer."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        return None
    messages: list[dict[str, Any]] = []
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            return None
        messages.append(message)
    cut_off = any(choice.get("finish_reason") == "length" for choice in choices)
    return Reply(
        samples=tuple(text_of(message) for message in messages),
        tokens=_tokens(body.get("usage")),
        finish="length" if cut_off else "stop",
    )


def text_of(message: Mapping[str, Any]) -> str:
    """Return the text of a message, the reasoning before it in a <think> block.

    Where it said nothing else, that is its refusal, or what it called a tool with.
    """
    content = _words(message.get("content")) or _words(message.get("refusal"))
    if not content:
        calls = message.get("tool_calls")
        tool_calls = calls if isinstance(calls, list) else []
        functions = [call.get("function") for call in tool_calls if isinstance(call, dict)]
        content = "".join(
            _words(call.get("arguments")) for call in functions if isinstance(call, dict)
        )
    thought = _words(message.get("reasoning_content")) or _words(message.get("reasoning"))
    if not thought:
        return content
    # A mark inside would end the block early, and what was only thought would count.
    thought = re.sub("<(/?think)>", "‹\\1›", thought)
    return f"<think>{thought}</think>\n{content}"


def _words(content: Any) -> str:
    """Return the text of a field that holds a text, or pieces of text."""
    if isinstance(content, list):
        pieces = (piece.get("text") for piece in content if isinstance(piece, dict))
        return "".join(piece for piece in pieces if isinstance(piece, str))
    return content if isinstance(content, str) else ""


def _tokens(usage: Any) -> Tokens:
    """Return the tokens that a server counted; what it does not count is 0."""
    usage = usage if isinstance(usage, dict) else {}

    def detail(name: str, counted: str) -> Any:
        details = usage.get(name)
        return details.get(counted) if isinstance(details, dict) else 0

    return Tokens(
        *map(
            _count,
            (
                usage.get("prompt_tokens"),
                usage.get("completion_tokens"),
                detail("prompt_tokens_details", "cached_tokens"),
                detail("completion_tokens_details", "reasoning_tokens"),
            ),
        )
    )


def _count(value: Any) -> int:
    """Return a count from a server, 0 where it is no valid one."""
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if counted else 0
