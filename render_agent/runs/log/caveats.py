"""Caveats derived from turns and belief probes: unreadable replies, and requests adapted to a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from render_agent.dialogue.chat import split_thinking
from render_agent.dialogue.events import (
    CONTENT_FILTER,
    CONTEXT_EXCEEDED,
    JUDGE,
    NO_USAGE,
    PROMPT_TRUNCATED,
    SHORTER_PROMPTS,
    adaptation,
)
from render_agent.dialogue.probe import MAX_TOKENS, Probe
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.turn import Turn
from render_agent.util.reasons import truncate

MAX_REASON_CHARS = 160  # maximum length of a quoted reason

EVENT_CAVEATS = {
    CONTENT_FILTER: "the server's content filter ended the reply",
    CONTEXT_EXCEEDED: f"the reply ended at the end of the model's context window: {SHORTER_PROMPTS}",
    NO_USAGE: "tokens: not reported by the server, so token totals do not include them",
    PROMPT_TRUNCATED: (
        "the server's count of prompt tokens did not grow with the dialogue: it probably dropped earlier turns; raise its"
        f" context length (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH), or {SHORTER_PROMPTS}"
    ),
}

# Consequence of each adaptation; adaptations without consequences are absent.
CONSEQUENCES = {
    "temperature": "so the server's default applied instead of --temperature",
    "seed": "so sampled replies cannot be reproduced",
    **dict.fromkeys(
        ("response_format", "output_config", "response_json_schema", "text"),
        "so the server did not enforce the form of replies",
    ),
    "system message": "because the server has no system role",
}

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

# `--max-new-tokens` does not apply to belief probes.
PROBE_THOUGHT_OPTIONS = "set --thinking-budget, or pass --thinking off"
PROBE_CAUSES = {
    name: text.replace(THOUGHT_OPTIONS, PROBE_THOUGHT_OPTIONS) for name, text in CAUSES.items()
} | {
    "cut": (
        f"most were cut off at the token limit of a probe, {MAX_TOKENS:,}, which is fixed: ask for fewer beliefs with"
        " --probe, or set --thinking-budget if the model thinks"
    ),
}


def event_caveat(event: str) -> str | None:
    """Return the caveat for an event; None for events that do not affect results."""
    if event.startswith(JUDGE):
        sentence = event_caveat(event.removeprefix(JUDGE))
        return sentence and f"requests of the verifier: {sentence}"
    if field_and_change := adaptation(event):
        name, how = field_and_change
        if name not in CONSEQUENCES:
            return None
        return f"adapted to the server: {name} {how}, {CONSEQUENCES[name]}"
    return EVENT_CAVEATS.get(event)


def caveats(turns: Sequence[Turn]) -> list[str]:
    """Return the caveats of the given turns and their belief probes, most important first."""
    probes = [turn.probe for turn in turns if turn.probe]
    unreadable = [unreadable_caveat(turns), unreadable_probes(probes)]
    return [
        *(caveat for caveat in unreadable if caveat is not None),
        *_event_caveats({"turns": turns, "belief probes": probes}),
    ]


def _event_caveats(groups: Mapping[str, Sequence[Turn | Probe]]) -> Iterator[str]:
    """Yield each caveat about events once, with its number in every group of entries."""
    numbers: dict[str, list[str]] = {}
    for noun, entries in groups.items():
        for event, number in sorted(_event_counts(entries).items()):
            if sentence := event_caveat(event):
                numbers.setdefault(sentence, []).append(f"{number} of {len(entries)} {noun}")
    yield from (f"{sentence} ({', '.join(counts)})" for sentence, counts in numbers.items())


def adapted_fields(turns: Iterable[Turn]) -> dict[str, dict[str, Any]]:
    """Return adaptations to a server by request field: `how`, and the number of `turns`."""
    adaptations = (
        (adaptation(event), number) for event, number in sorted(_event_counts(turns).items())
    )
    return {
        adapted[0]: {"how": adapted[1], "turns": number}
        for adapted, number in adaptations
        if adapted
    }


def _event_counts(entries: Iterable[Turn | Probe]) -> Counter[str]:
    return Counter(event for entry in entries for event in set(entry.events))


def is_unreadable(turn: Turn) -> bool:
    """Return True if the reply of a turn was unreadable."""
    return isinstance(turn.action, Malformed)


def unreadable_caveat(turns: Sequence[Turn]) -> str | None:
    """Return the number of unreadable replies and the main cause; None unless most replies are unreadable."""
    unreadable = [turn for turn in turns if is_unreadable(turn)]
    if 2 * len(unreadable) <= len(turns):
        return None
    cause, _ = Counter(map(_cause_of_turn, unreadable)).most_common(1)[0]
    return f"{len(unreadable)} of {len(turns)} replies are unreadable: {CAUSES.get(cause, cause)}"


def unreadable_probes(probes: Sequence[Probe]) -> str | None:
    """Return the number of unreadable belief probes and the main cause; None unless most probes are unreadable."""
    unreadable = [probe for probe in probes if probe.parsed_belief is None]
    if 2 * len(unreadable) <= len(probes):
        return None
    cause, _ = Counter(map(_cause_of_probe, unreadable)).most_common(1)[0]
    number = f"{len(unreadable)} of {len(probes)}"
    return f"{number} belief probes are unreadable: {PROBE_CAUSES.get(cause, cause)}"


def _cause_of_turn(turn: Turn) -> str:
    reason = turn.action.reason if isinstance(turn.action, Malformed) else ""
    return _cause(turn.reply, turn.finish, turn.events, reason)


def _cause_of_probe(probe: Probe) -> str:
    if probe.error is not None:
        return f"most frequent error: {truncate(probe.error, MAX_REASON_CHARS)}"
    reason = str(getattr(probe.belief, "reason", "not parsed"))
    return _cause(probe.reply, probe.finish, probe.events, reason)


def _cause(reply: str, finish: str, events: Collection[str], reason: str) -> str:
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
