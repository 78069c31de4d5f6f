"""The JSON of chat completions: a request as a server reads it, and the samples and tokens of its answer."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import Message
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.openai.openai_options import OpenAIOptions


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


def request_fields(
    request: Request, samples: int, seed: int, options: OpenAIOptions, endpoint: Endpoint
) -> dict[str, Any]:
    """Return the fields of a request to a server, except the model and the messages."""
    hosted = endpoint.host == HOSTED_HOST or options.reasoning_effort is not None
    limit = options.max_tokens_field or ("max_completion_tokens" if hosted else "max_tokens")
    fields: dict[str, Any] = {
        "temperature": request.temperature,
        "seed": seed,
        limit: request.most_tokens,
        "top_p": options.top_p,
        "reasoning_effort": options.reasoning_effort,
        "thinking_token_budget": request.thinking_budget,
    }
    if samples > 1:
        fields["n"] = samples
    if request.schema is not None:
        schema = {"name": "reply", "schema": request.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    sent = {k: v for k, v in fields.items() if v is not None and k not in options.omit}
    return {**sent, **options.extra_body}


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
    """Return the text of a message, or its refusal; the reasoning before it in a <think> block."""
    content = _words(message.get("content")) or _words(message.get("refusal"))
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
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(detail("prompt_tokens_details", "cached_tokens")),
        _count(detail("completion_tokens_details", "reasoning_tokens")),
    )


def _count(value: Any) -> int:
    """Return a count from a server, 0 where it is no valid one."""
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if counted else 0
