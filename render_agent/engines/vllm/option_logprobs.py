"""Log-probabilities of given choices without generation. Prefixes shared by several choices are computed once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Scores

Prefix = tuple[int, ...]
"""Tokens at the beginning of a choice."""

MAX_LOGPROB_TOKENS = 128  # vLLM's limit of log-probabilities per position


def logprob_queries(choices: Iterable[Sequence[int]]) -> list[tuple[Prefix, list[int]]]:
    """Return pairs of a prefix and at most MAX_LOGPROB_TOKENS next tokens; every combination occurs in exactly one
    pair.
    """
    next_tokens: dict[Prefix, dict[int, None]] = {}
    for tokens in choices:
        for index, token in enumerate(tokens):
            next_tokens.setdefault(tuple(tokens[:index]), {})[token] = None
    return [
        (prefix, list(ids)[start : start + MAX_LOGPROB_TOKENS])
        for prefix, ids in next_tokens.items()
        for start in range(0, len(ids), MAX_LOGPROB_TOKENS)
    ]


@dataclass
class ScoringRequest:
    """A request whose choices are being scored."""

    choices: Sequence[Sequence[int]]
    """The tokens of each choice."""
    queries: Sequence[tuple[Prefix, Sequence[int]]] = ()
    outputs: dict[int, Any] = field(default_factory=dict)
    """vLLM's outputs by index of the query."""
    error: str | None = None
    began: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> bool:
        """True if all queries are answered or the request has failed."""
        return self.error is not None or len(self.outputs) == len(self.queries)

    def scores(self, batch_size: int) -> Scores:
        """Return the scores of a completed request."""
        seconds = time.perf_counter() - self.began
        if self.error is not None:
            return Scores(error=self.error, seconds=seconds, batch_size=batch_size)
        logprobs_by_prefix: dict[Prefix, dict[int, float]] = {}
        for index, output in self.outputs.items():
            prefix, ids = self.queries[index]
            logprobs: Mapping[int, Any] = output.outputs[0].logprobs[0]
            logprobs_by_prefix.setdefault(prefix, {}).update(
                {token: logprobs[token].logprob for token in ids}
            )
        token_counts = Tokens(
            prompt=sum(len(output.prompt_token_ids) for output in self.outputs.values()),
            reply=sum(len(tokens) for tokens in self.choices),
            cached=sum(output.num_cached_tokens or 0 for output in self.outputs.values()),
        )
        sums = tuple(_sum_logprobs(tokens, logprobs_by_prefix) for tokens in self.choices)
        return Scores(sums, token_counts, seconds, batch_size)


def _sum_logprobs(tokens: Sequence[int], logprobs: Mapping[Prefix, Mapping[int, float]]) -> float:
    """Return the log-probability of a choice: the sum over its tokens."""
    return sum((logprobs[tuple(tokens[:index])][token] for index, token in enumerate(tokens)), 0.0)
