"""Adapts requests to servers that reject a part of them; what was adapted is an event of every reply."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from render_agent.dialogue.events import OMITTED, RENAMED, SYSTEM_IN_USER
from render_agent.engines.engine import Request
from render_agent.engines.remote.chat_api import ChatApi
from render_agent.engines.remote.phrases import (
    LIMIT_NAMES,
    Meaning,
    mentions_field,
    rejects_limit_name,
)
from render_agent.engines.remote.response_bodies import error_message, named_fields


def find_adaptation(
    body: Any, fields: Mapping[str, Any], request: Request, api: ChatApi
) -> str | None:
    """Return the event of the adaptation that an error asks for; None if no adaptation helps."""
    text, named = error_message(body), named_fields(body)
    if Meaning.NO_SYSTEM_ROLE.is_in(text) and has_system(request):
        return SYSTEM_IN_USER
    limit = next((name for name in api.limit_names if name in fields), None)
    if limit is not None and rejects_limit_name(limit, text):
        return RENAMED
    optional = [name for name in api.optional_fields if name in fields]
    mentioned = (name for name in optional if mentions_field(name, text))
    name = next((name for name in optional if name in named), None) or next(mentioned, None)
    return name and OMITTED + name


def adapt(
    adaptations: Collection[str], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a request with some adaptations, and the events of those that changed them."""
    result, events = dict(fields), []
    for event in sorted(adaptations):
        name = event.removeprefix(OMITTED)
        if event == RENAMED:
            old = next((limit for limit in LIMIT_NAMES if limit in result), None)
            if old is None:
                continue
            result[LIMIT_NAMES[1 - LIMIT_NAMES.index(old)]] = result.pop(old)
        elif result.pop(name, None) is None:
            continue
        events.append(event)
    return result, events


def has_system(request: Request) -> bool:
    """Return True if a request has a system message."""
    return any(message["role"] == "system" for message in request.messages)


def system_in_user(request: Request) -> Request:
    """Move the system message of a request to the beginning of its first user message."""
    system = [p for m in request.messages if m["role"] == "system" for p in m["content"]]
    first, *rest = (message for message in request.messages if message["role"] != "system")
    pieces = [*system, *first["content"]]
    if not any(piece["type"] == "image" for piece in pieces):  # servers may require plain text
        pieces = [{"type": "text", "text": "\n\n".join(piece["text"] for piece in pieces)}]
    return replace(request, messages=[{**first, "content": pieces}, *rest])
