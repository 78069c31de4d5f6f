"""Adapts requests to servers that reject a part of them; what was adapted is an event of every reply."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from render_agent.dialogue.events import OMITTED, RENAMED
from render_agent.engines.engine import Request
from render_agent.engines.remote.chat_api import ChatApi
from render_agent.engines.remote.phrases import finds
from render_agent.engines.remote.quirks import (
    KEYWORD,
    NULL_IN_ENUM,
    OTHER_LIMIT,
    SYSTEM,
    quirks_of,
)
from render_agent.engines.remote.response_bodies import error_message, named_fields


def find_adaptation(
    body: Any, fields: Mapping[str, Any], request: Request, api: ChatApi
) -> str | None:
    """Return the event of the adaptation that an error asks for; None if no adaptation helps."""
    text, named = error_message(body), named_fields(body)
    parts = {*fields, *([SYSTEM] if has_system(request) else [])}
    rejected = [
        row
        for row in quirks_of(api.name)
        if row.part in parts
        and row.errors is not None
        and (finds(row.errors, text) or (row.event == OMITTED and row.part in named))
    ]
    # An error may mention further fields.
    row = min(rejected, key=lambda row: row.part not in named, default=None)
    return None if row is None else row.adaptation


def adapt(
    adaptations: Collection[str], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a request with some adaptations, and the events of those that changed them."""
    result, events = dict(fields), []
    for event in sorted(adaptations):
        if event == RENAMED:
            old = next(filter(result.__contains__, OTHER_LIMIT), None)
            if old is None:
                continue
            result[OTHER_LIMIT[old]] = result.pop(old)
        elif result.pop(event.removeprefix(OMITTED), None) is None:
            continue
        events.append(event)
    return result, events


def has_system(request: Request) -> bool:
    return any(message["role"] == "system" for message in request.messages)


def system_in_user(request: Request) -> Request:
    """Move the system message of a request to the beginning of its first user message."""
    system = [p for m in request.messages if m["role"] == "system" for p in m["content"]]
    first, *rest = (message for message in request.messages if message["role"] != "system")
    pieces = [*system, *first["content"]]
    if not any(piece["type"] == "image" for piece in pieces):  # servers may require plain text
        pieces = [{"type": "text", "text": "\n\n".join(piece["text"] for piece in pieces)}]
    return replace(request, messages=[{**first, "content": pieces}, *rest])


def supported_schema(schema: Any, api: ChatApi) -> Any:
    """Return a JSON schema without the parts that an API does not have."""
    parts = {row.part for row in quirks_of(api.name)}

    def convert(part: Any) -> Any:
        if isinstance(part, list):
            return [*map(convert, part)]
        if not isinstance(part, Mapping):
            return part
        result = {key: convert(value) for key, value in part.items() if KEYWORD + key not in parts}
        if NULL_IN_ENUM in parts and None in result.get("enum", ()):
            texts = [value for value in result["enum"] if value is not None]
            string = {**result, "type": "string", "enum": texts}
            return {"anyOf": [string, {"type": "null"}]}
        return result

    return convert(schema)
