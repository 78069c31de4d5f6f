"""Kinds of events that engines report with a reply. Each turn logs the events of its requests."""

from __future__ import annotations

# Prefix: a request field was omitted because the server rejects it or an option omits it.
OMITTED = "omitted:"

RENAMED = "renamed:max_tokens"  # the token limit was sent under its alternative name
SYSTEM_IN_USER = "system_in_user_message"  # the system message was sent as part of the user message
RESTATED = "restated"  # the answer of the last turn was requested once more, in its form
CONTENT_FILTER = "content_filter"  # the server's content filter ended the reply
CONTEXT_EXCEEDED = "context_exceeded"  # the reply ended at the end of the model's context window
NO_USAGE = "tokens_not_reported"  # token counts are missing and logged as 0
FEWER_WORDINGS = "fewer_wordings"  # the model gave fewer wordings of a question than requested
BATCH_JOB = "batch_job"  # a batch API answered the request, at a discount
JUDGE = "judge:"  # prefix; the event concerns a request of a model-based verifier

# The server's count of prompt tokens did not grow with the dialogue: earlier turns were probably dropped.
PROMPT_TRUNCATED = "prompt_truncated"

# Options that make prompts shorter.
SHORTER_PROMPTS = "pass a smaller --history, --image-size or --max-turns"


def adaptation(event: str) -> tuple[str, str] | None:
    """Return (request field, how it was adapted to the server); None for other events."""
    if event.startswith(OMITTED):
        return event.removeprefix(OMITTED), "not sent"
    if event == RENAMED:
        return "max_tokens", "sent under its other name"
    return ("system message", "sent in the user message") if event == SYSTEM_IN_USER else None


def describe_event(event: str) -> str:
    """Return a short phrase for an event."""
    return " ".join(adaptation(event) or (event.replace("_", " "),))
