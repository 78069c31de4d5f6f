"""The chat completions format: builds request bodies and parses response bodies."""

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


def data_url(image: Image) -> str:
    """Return an image as a data URL: a PNG with fast compression, like the images in the run folder."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def wire_messages(
    messages: Sequence[Message], url: Callable[[str], str], detail: str | None = None
) -> list[dict[str, Any]]:
    """Convert messages to the format of chat completions.

    A single text becomes a plain string, which all servers support.

    Args:
        messages: The messages of a request.
        url: Returns the URL of an image, given its file name.
        detail: Value of the field `detail` of images.
    """

    def convert(piece: Mapping[str, str]) -> dict[str, Any]:
        if piece["type"] != "image":
            return {"type": "text", "text": piece["text"]}
        image = {"url": url(piece["image"])}
        return {"type": "image_url", "image_url": image | ({"detail": detail} if detail else {})}

    converted = []
    for message in messages:
        content = [convert(piece) for piece in message["content"]]
        is_text = len(content) == 1 and content[0]["type"] == "text"
        converted.append(
            {"role": message["role"], "content": content[0]["text"] if is_text else content}
        )
    return converted


def request_fields(
    request: Request, samples: int, seed: int, options: OpenAIOptions, endpoint: Endpoint
) -> dict[str, Any]:
    """Return the request body without the model and the messages."""
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
    fields = {k: v for k, v in fields.items() if v is not None and k not in options.omit}
    return {**fields, **options.extra_body}


MAX_COUNT = 10**15  # larger token counts in a response are treated as invalid


def read_answer(body: Any) -> Reply | None:
    """Parse a response body; return None if it is not a chat completion."""
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
    """Return the text of a message, or its refusal, preceded by the reasoning in a <think> block."""
    content = _text(message.get("content")) or _text(message.get("refusal"))
    thought = _text(message.get("reasoning_content")) or _text(message.get("reasoning"))
    if not thought:
        return content
    # A mark inside the thought would end the block early, and the rest would count as the reply.
    thought = re.sub("<(/?think)>", "‹\\1›", thought)
    return f"<think>{thought}</think>\n{content}"


def _text(content: Any) -> str:
    """Return the text of a field that contains a string or a list of text pieces."""
    if isinstance(content, list):
        pieces = (piece.get("text") for piece in content if isinstance(piece, dict))
        return "".join(piece for piece in pieces if isinstance(piece, str))
    return content if isinstance(content, str) else ""


def _tokens(usage: Any) -> Tokens:
    """Return the token counts of a response; missing ones are 0."""
    usage = usage if isinstance(usage, dict) else {}

    def detail(name: str, key: str) -> Any:
        details = usage.get(name)
        return details.get(key) if isinstance(details, dict) else 0

    return Tokens(
        _count(usage.get("prompt_tokens")),
        _count(usage.get("completion_tokens")),
        _count(detail("prompt_tokens_details", "cached_tokens")),
        _count(detail("completion_tokens_details", "reasoning_tokens")),
    )


def _count(value: Any) -> int:
    """Return a count from a response, or 0 if it is not valid."""
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_valid else 0
