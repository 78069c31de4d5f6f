"""Caveats about probes whose replies are unreadable."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.parsing.unreadable import (
    CAUSES,
    MAX_REASON_CHARS,
    THOUGHT_OPTIONS,
    describe_unreadable,
    likely_cause,
)
from render_agent.dialogue.turn import Probe
from render_agent.parts.beliefs.ask_beliefs import MAX_TOKENS
from render_agent.util.reasons import truncate

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


def unreadable_probes(probes: Sequence[Probe]) -> str | None:
    """Return the number of unreadable belief probes and the main cause; None unless most probes are unreadable."""
    return describe_unreadable(Probe.noun, [*map(_cause_of_probe, probes)], PROBE_CAUSES)


def _cause_of_probe(probe: Probe) -> str | None:
    if probe.parsed_belief is not None:
        return None
    if probe.error is not None:
        return f"most frequent error: {truncate(probe.error, MAX_REASON_CHARS)}"
    reason = str(getattr(probe.belief, "reason", "not parsed"))
    return likely_cause(probe.reply, probe.finish, probe.events, reason)
