"""Adapts requests to servers that reject a part of them; what was adapted is an event of every reply."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from render_agent.dialogue.events import OMITTED, RENAMED, SYSTEM_IN_USER
from render_agent.engines.remote.response_bodies import NO_SYSTEM_ROLE, error_message, named_fields

LIMIT_NAMES = ("max_tokens", "max_completion_tokens")  # servers accept one or both
WRONG_LIMIT = re.compile(
    r"['\"`]?(max_(?:completion_)?tokens)['\"`]?:? ?(?:is |are )?(?:not |un|extra )"
    r"(?:support|permit|allow|input|recogni|known|expected)"
    r"|(?:unsupported|unknown|unrecognized|unexpected)[\w ]{0,30}:? ['\"`]?(max_(?:completion_)?tokens)\b",
    re.IGNORECASE,
)


def find_adaptation(
    body: Any,
    fields: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]],
    optional_fields: Mapping[str, str],
    limit_names: Sequence[str] = (),
) -> str | None:
    """Return the event of the adaptation that an error asks for; None if no adaptation helps.

    Args:
        body: The error response, parsed.
        fields: The fields of the rejected request.
        messages: Its messages.
        optional_fields: As in `ChatApi`.
        limit_names: As in `ChatApi`.
    """
    text, named = error_message(body), named_fields(body)
    if NO_SYSTEM_ROLE.search(text) and any(message.get("role") == "system" for message in messages):
        return SYSTEM_IN_USER
    wrong = WRONG_LIMIT.search(text)
    limit = next((name for name in limit_names if name in fields), None)
    if limit is not None and wrong is not None and limit in wrong.groups():
        return RENAMED
    optional = [name for name in optional_fields if name in fields]
    for name in optional:
        if name in named:
            return OMITTED + name
    for name in optional:
        if re.search(optional_fields[name], text, re.IGNORECASE):
            return OMITTED + name
    return None


def adapt(
    adaptations: Collection[str], fields: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], Sequence[Mapping[str, Any]], list[str]]:
    """Return the fields and messages of a request with some adaptations, and the events of those that changed it."""
    adapted, events = dict(fields), []
    for event in sorted(adaptations):
        name = event.removeprefix(OMITTED)
        if event == SYSTEM_IN_USER:
            messages = system_in_user(messages)
        elif event == RENAMED:
            old = next((limit for limit in LIMIT_NAMES if limit in adapted), None)
            if old is None:
                continue
            adapted[LIMIT_NAMES[1 - LIMIT_NAMES.index(old)]] = adapted.pop(old)
        elif adapted.pop(name, None) is None:
            continue
        events.append(event)
    return adapted, messages, events


def system_in_user(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Move the system message to the beginning of the first user message."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    rest = [message for message in messages if message["role"] != "system"]
    if not system or not rest or rest[0]["role"] != "user":
        return list(messages)
    first = rest[0]["content"]
    if isinstance(first, str) and all(isinstance(content, str) for content in system):
        content: Any = "\n\n".join([*system, first])
    else:
        content = [piece for part in (*system, first) for piece in _pieces(part)]
    return [{**rest[0], "content": content}, *rest[1:]]


def _pieces(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
