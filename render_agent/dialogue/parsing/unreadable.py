"""Why replies could not be parsed: likely causes, and what to do about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from render_agent.dialogue.chat import split_thinking
from render_agent.dialogue.events import CONTENT_FILTER, CONTEXT_EXCEEDED, SHORTER_PROMPTS
from render_agent.util.reasons import truncate

MAX_REASON_CHARS = 160  # maximum length of a quoted reason

THOUGHT_OPTIONS = "raise --max-new-tokens, set --thinking-budget, or pass --thinking off"
CAUSES = {
    "filter": "the server's content filter ended most of them",
    "context": f"most ended at the end of the model's context window: {SHORTER_PROMPTS}",
    "thought cut": f"most were cut off at the token limit while the model was thinking: {THOUGHT_OPTIONS}",
    "cut": "most were cut off at the token limit: raise --max-new-tokens, or set --thinking-budget if the model thinks",
    "thought only": (
        "most consist only of thinking, probably because the token limit ended it or the server's reasoning parser took"
        f" the reply for a thought: {THOUGHT_OPTIONS}"
    ),
    "empty": "most are empty: check the server's log and the chat template of the model",
}


def describe_unreadable(
    noun: str,
    causes: Sequence[str | None],  # result of `likely_cause` for each reply; None if it is readable
    texts: Mapping[str, str],  # such as CAUSES
) -> str | None:
    """Return the number of unreadable replies and the main cause; None unless most replies are unreadable."""
    unreadable = [cause for cause in causes if cause is not None]
    if 2 * len(unreadable) <= len(causes):
        return None
    cause, _ = Counter(unreadable).most_common(1)[0]
    return f"{len(unreadable)} of {len(causes)} {noun} are unreadable: {texts.get(cause, cause)}"


def likely_cause(reply: str, finish: str, events: Collection[str], reason: str) -> str:
    """Return the likely cause of an unreadable reply: a key of CAUSES, or a description."""
    blocks, text_outside = split_thinking(reply)
    has_thoughts = bool("".join(blocks).strip())
    if CONTENT_FILTER in events:
        return "filter"
    if CONTEXT_EXCEEDED in events:
        return "context"
    if finish == "length":
        return "thought cut" if has_thoughts and not text_outside.strip() else "cut"
    if not text_outside.strip():
        return "thought only" if has_thoughts else "empty"
    return f"most frequent reason: {truncate(reason, MAX_REASON_CHARS)}"
