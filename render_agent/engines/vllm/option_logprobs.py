"""Log-probabilities of given answers from prefills alone, the prefixes that answers share asked once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Scores

Path = tuple[int, ...]
"""The tokens of a prefix of an answer."""

MAX_LOGPROB_TOKENS = 128
"""Tokens whose log-probabilities vLLM gives at one place."""


def logprob_queries(choices: Iterable[Sequence[int]]) -> list[tuple[Path, list[int]]]:
    """Return the queries that score some choices: prefixes, each with the next tokens whose log-probabilities are wanted.

    choices: the tokens of each. Every pair (prefix, next token) stands in exactly one query,
    of at most `MAX_LOGPROB_TOKENS` tokens.
    """
    following: dict[Path, dict[int, None]] = {}
    for tokens in choices:
        for place, token in enumerate(tokens):
            following.setdefault(tuple(tokens[:place]), {})[token] = None
    return [
        (path, list(ids)[start : start + MAX_LOGPROB_TOKENS])
        for path, ids in following.items()
        for start in range(0, len(ids), MAX_LOGPROB_TOKENS)
    ]


@dataclass
class ScoringRequest:
    """One request whose choices are being scored.

    choices: the tokens of each. outputs: vLLM's, by the number of the query.
    """

    choices: Sequence[Sequence[int]]
    queries: Sequence[tuple[Path, Sequence[int]]] = ()
    outputs: dict[int, Any] = field(default_factory=dict)
    error: str | None = None
    began: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> bool:
        """Whether nothing is under way any more."""
        return self.error is not None or len(self.outputs) == len(self.queries)

    def scores(self, batch_size: int) -> Scores:
        """Return the scores, once it is done."""
        seconds = time.perf_counter() - self.began
        if self.error is not None:
            return Scores(error=self.error, seconds=seconds, batch_size=batch_size)
        by_path: dict[Path, dict[int, float]] = {}
        for number, output in self.outputs.items():
            path, ids = self.queries[number]
            logprobs: Mapping[int, Any] = output.outputs[0].logprobs[0]
            by_path.setdefault(path, {}).update({token: logprobs[token].logprob for token in ids})
        counted = Tokens(
            prompt=sum(len(output.prompt_token_ids) for output in self.outputs.values()),
            reply=sum(len(tokens) for tokens in self.choices),
            cached=sum(output.num_cached_tokens or 0 for output in self.outputs.values()),
        )
        sums = tuple(_summed(tokens, by_path) for tokens in self.choices)
        return Scores(sums, counted, seconds, batch_size)


def _summed(tokens: Sequence[int], logprobs: Mapping[Path, Mapping[int, float]]) -> float:
    """Return a choice's log-probability: those of its tokens, each behind its prefix, summed."""
    return sum((logprobs[tuple(tokens[:place])][token] for place, token in enumerate(tokens)), 0.0)
