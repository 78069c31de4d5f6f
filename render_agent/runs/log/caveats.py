"""Caveats derived from the turns of a run: unreadable replies, and requests adapted to a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from render_agent.dialogue.chat import split_thinking
from render_agent.dialogue.events import (
    CONTENT_FILTER,
    NO_USAGE,
    PROMPT_TRUNCATED,
    adaptation,
)
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Turn
from render_agent.util.reasons import truncate

MAX_REASON_CHARS = 160  # of a quoted reason

EVENT_CAVEATS = {
    CONTENT_FILTER: "the server's content filter ended the reply",
    NO_USAGE: "tokens: not reported by the server, so token totals are too low",
    PROMPT_TRUNCATED: (
        "the server's count of prompt tokens did not grow with the dialogue: it probably dropped earlier turns; raise its"
        " context length (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH), or lower --max-turns or --image-size"
    ),
}

# Consequence of each adaptation; adaptations without consequences are absent.
CONSEQUENCES = {
    "temperature": "so the server's default applied instead of --temperature",
    "seed": "so sampled replies cannot be reproduced",
    "response_format": "so the server did not enforce the form of replies",
    "system message": "because the server has no system role",
}

THOUGHT_OPTIONS = "raise --max-new-tokens, set --thinking-budget, or pass --thinking off"
CAUSES = {
    "filter": "the server's content filter ended most of them",
    "thought cut": f"most were cut off at the token limit while the model was thinking: {THOUGHT_OPTIONS}",
    "cut": "most were cut off at the token limit: raise --max-new-tokens, or set --thinking-budget if the model thinks",
    "thought only": (
        "most consist only of thinking, probably because the token limit ended it or the server's reasoning parser took"
        f" the reply for a thought: {THOUGHT_OPTIONS}"
    ),
    "empty": "most are empty: check the server's log and the chat template of the model",
}


def event_caveat(event: str) -> str | None:
    """Return the caveat for an event; None for events that do not affect results."""
    if adapted := adaptation(event):
        name, how = adapted
        if name not in CONSEQUENCES:
            return None
        return f"adapted to the server: {name} {how}, {CONSEQUENCES[name]}"
    return EVENT_CAVEATS.get(event)


def caveats(turns: Sequence[Turn]) -> list[str]:
    """Return the caveats of some turns, most important first."""
    unreadable = unreadable_caveat(turns)
    found = [] if unreadable is None else [unreadable]
    for event, number in sorted(_event_counts(turns).items()):
        if sentence := event_caveat(event):
            found.append(f"{sentence} ({number} of {len(turns)} turns)")
    return found


def adapted_fields(turns: Iterable[Turn]) -> dict[str, dict[str, Any]]:
    """Return adaptations to a server by request field: `how`, and the number of `turns`."""
    found = ((adaptation(event), number) for event, number in sorted(_event_counts(turns).items()))
    return {which[0]: {"how": which[1], "turns": number} for which, number in found if which}


def _event_counts(turns: Iterable[Turn]) -> Counter[str]:
    return Counter(event for turn in turns for event in set(turn.events))


def is_unreadable(turn: Turn) -> bool:
    """Return True if the reply of a turn was unreadable."""
    return isinstance(turn.action, Malformed)


def unreadable_caveat(turns: Sequence[Turn]) -> str | None:
    """Return the number of unreadable replies and the main cause; None unless most are unreadable."""
    unreadable = [turn for turn in turns if is_unreadable(turn)]
    if 2 * len(unreadable) <= len(turns):
        return None
    cause, _ = Counter(map(_cause, unreadable)).most_common(1)[0]
    return f"{len(unreadable)} of {len(turns)} replies are unreadable: {CAUSES.get(cause, cause)}"


def _cause(turn: Turn) -> str:
    """Return the likely cause of an unreadable reply: a key of CAUSES, or a description."""
    blocks, rest = split_thinking(turn.reply)
    thought = bool("".join(blocks).strip())
    if CONTENT_FILTER in turn.events:
        return "filter"
    if turn.finish == "length":
        return "thought cut" if thought and not rest.strip() else "cut"
    if not rest.strip():
        return "thought only" if thought else "empty"
    reason = turn.action.reason if isinstance(turn.action, Malformed) else ""
    return f"most frequent reason: {truncate(reason, MAX_REASON_CHARS)}"
