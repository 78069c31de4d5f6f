"""The chat completions format: builds request bodies and parses response bodies."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import Message
from render_agent.dialogue.events import CONTENT_FILTER, NO_USAGE
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.tools_protocol import call_text
from render_agent.engines.engine import Reply, Request
from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.openai.openai_options import OpenAIOptions
from render_agent.engines.openai.responses import finish_reasons


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
        more: dict[str, Any] = {
            name: message[name] for name in ("tool_call_id", "name") if name in message
        }
        if calls := message.get("tool_calls"):
            more["tool_calls"] = [_wire_call(call) for call in calls]
        text_or_pieces = content[0]["text"] if is_text else content
        converted.append({"role": message["role"], "content": text_or_pieces, **more})
    return converted


def _wire_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call with its arguments as text."""
    function = call["function"]
    arguments = json.dumps(function["arguments"], ensure_ascii=False)
    return {**call, "function": {**function, "arguments": arguments}}


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
    if request.tools is not None:
        fields["tools"] = list(request.tools)
    return {k: v for k, v in fields.items() if v is not None} | dict(options.extra_body)


MAX_COUNT = 10**15  # larger token counts in a response are treated as invalid

LENGTH_LIMITS = frozenset(
    "length max_tokens max_output_tokens max_length model_length"
    " model_context_window_exceeded".split()
)
"""Finish reasons, in lower case, of replies that a token limit cut off."""

FILTERS = frozenset(
    "content_filter content_filtered safety recitation prohibited_content blocklist spii"
    " image_safety refusal sensitive guardrail_intervened".split()
)
"""Finish reasons, in lower case, of replies that a content filter ended."""


def read_answer(body: Any, *, has_tools: bool = False) -> Reply | None:
    """Parse a response body; return None if it is not a chat completion.

    Args:
        body: The body, parsed.
        has_tools: True if the request declared tools: calls then keep their names, see `call_text`.
    """
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices:
        return None
    messages: list[dict[str, Any]] = []
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            return None
        messages.append(message)
    reasons = set(finish_reasons(body))
    tokens = _tokens(body.get("usage"))
    events = [CONTENT_FILTER] * bool(reasons & FILTERS) + [NO_USAGE] * (tokens.prompt == 0)
    return Reply(
        samples=tuple(text_of(message, has_tools=has_tools) for message in messages),
        tokens=tokens,
        finish="length" if reasons & LENGTH_LIMITS else "stop",
        events=tuple(events),
    )


def text_of(message: Mapping[str, Any], *, has_tools: bool = False) -> str:
    """Return the text of a message, or its refusal, and its tool calls or their arguments, after a <think> block."""
    content = message.get("content")
    text = _text(content) or _text(message.get("refusal"))
    calls = _functions(message)
    written = [
        call_text(_text(each.get("name")), each.get("arguments") or {})
        if has_tools
        else _text(each.get("arguments"))
        for each in calls
    ]
    reply = "\n".join(filter(None, (text, *written)))
    thoughts = (message.get("reasoning_content"), message.get("reasoning"))
    thought = next(filter(None, map(_text, (*thoughts, message.get("reasoning_details")))), "")
    if not thought and isinstance(content, list):  # Mistral's form
        pieces = (piece.get("thinking") for piece in content if isinstance(piece, dict))
        thought = "".join(map(_text, pieces))
    if not thought:
        return reply
    # A mark inside the thought would end the block early, and the rest would count as the reply.
    thought = re.sub("<(/?think)>", "‹\\1›", thought)
    return f"<think>{thought}</think>\n{reply}"


def _functions(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the functions that a message calls, with their arguments."""
    calls = message.get("tool_calls")
    functions = (
        [c.get("function") for c in calls if isinstance(c, dict)] if isinstance(calls, list) else []
    )
    functions.append(message.get("function_call"))
    return [each for each in functions if isinstance(each, dict)]


def _text(content: Any) -> str:
    """Return the text of a field that contains a string, a list of text pieces or a JSON object."""
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
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
