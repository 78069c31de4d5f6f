"""Upper bounds on the requests and tokens of probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from render_agent.dialogue.probe import MAX_TOKENS
from render_agent.options import RunConfig

PROBE_TOKENS = 600  # message of a probe


class ProbeEstimate(NamedTuple):
    """Requests and tokens of the probes of one question."""

    requests: int
    prompt_tokens: int
    reply_tokens: int


def estimate_probes(config: RunConfig, prompts: Sequence[int]) -> ProbeEstimate:
    """Estimate the probes of one question; `prompts` are the prompt tokens of its turns."""
    if not config.probe:
        return ProbeEstimate(0, 0, 0)
    turns, thinking = len(prompts), config.thinking_budget or 0
    return ProbeEstimate(
        turns,
        sum(prompts) + turns * (config.max_new_tokens + PROBE_TOKENS),
        turns * (MAX_TOKENS + thinking),
    )
