"""Kinds of events that engines report beside a reply; every turn logs those of its requests."""

from __future__ import annotations

OMITTED = "omitted:"
"""Prefix of a request field that was not sent: the server rejects it, or an option says so."""

RENAMED = "renamed:max_tokens"
"""The token limit was sent under the other of its two names."""

SYSTEM_IN_USER = "system_in_user_message"
"""The instructions were sent in the first user message: the server has no system role."""

CONTENT_FILTER = "content_filter"
"""The server's content filter ended the reply."""

NO_USAGE = "tokens_not_reported"
"""The server did not report token counts; they are logged as 0."""

PROMPT_TRUNCATED = "prompt_truncated"
"""The server's count of prompt tokens did not grow with the dialogue, so earlier turns were probably dropped."""


def adaptation(event: str) -> tuple[str, str] | None:
    """Return what the program adapted to a server, and how; None for other kinds of events."""
    if event.startswith(OMITTED):
        return event.removeprefix(OMITTED), "not sent"
    if event == RENAMED:
        return "max_tokens", "sent under its other name"
    return ("system message", "sent in the user message") if event == SYSTEM_IN_USER else None


def in_words(event: str) -> str:
    """Return an event as a short phrase."""
    return " ".join(adaptation(event) or (event.replace("_", " "),))
