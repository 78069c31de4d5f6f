"""The requests of a judge to an engine, in batches of a given size; the engine keeps nothing of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, isnan
from typing import Any

import numpy as np

from render_agent.agents.verifiers.judge.pictures import Pictures
from render_agent.config import AUTO
from render_agent.dialogue.chat import Message
from render_agent.engines.base import Engine, Reply, Request, Scorer, Scores
from render_agent.errors import UsageError


@dataclass(frozen=True, slots=True)
class JudgedPicture:
    """One picture to be judged: the system and user prompt, and pictures by name.

    within: what it is of, where prompts and earlier views do not tell that.
    """

    prompts: tuple[str, str]
    earlier: tuple[str, ...]
    picture: str
    within: Hashable = None

    @property
    def state(self) -> tuple[tuple[str, str], tuple[str, ...], Hashable]:
        """What it has in common with the pictures that it may be compared with."""
        return self.prompts, self.earlier, self.within


class ModelQueries:
    """Puts messages to an engine, each as a question of its own.

    batch_size: requests handed over at once; auto hands over all, and the engine makes batches of what
    memory holds. max_new_tokens: of a written reply.
    """

    def __init__(
        self, engine: Engine, pictures: Pictures, batch_size: int | str, max_new_tokens: int
    ) -> None:
        if batch_size != AUTO and (not isinstance(batch_size, int) or batch_size < 1):
            raise UsageError(f"the batch size must be {AUTO} or a number above 0: {batch_size!r}")
        self.engine = engine
        self.batch_size = batch_size
        self.max_new_tokens = max_new_tokens
        # One and the same function: engines know pictures by it and their names.
        self._picture = pictures.picture

    def written(self, messages: Sequence[Sequence[Message]], schema: dict[str, Any]) -> list[Reply]:
        """Return the reply to each, greedy, held to the schema where the engine can."""
        replies: list[Reply] = []
        for requests in self._pieces(messages, schema):
            replies += self.engine.generate(requests)
            self._retire(requests)
        return replies

    def likely(self, messages: Sequence[Sequence[Message]], choices: Sequence[str]) -> list[Scores]:
        """Return the log-probability that each choice begins the reply to each dialogue; nothing is generated.

        UsageError where the engine does not give probabilities.
        """
        engine = scorer(self.engine)
        scores: list[Scores] = []
        for requests in self._pieces(messages, None):
            scores += engine.score(requests, [choices] * len(requests))
            self._retire(requests)
        return scores

    def _pieces(
        self, dialogues: Sequence[Sequence[Message]], schema: dict[str, Any] | None
    ) -> Iterator[list[Request]]:
        requests = [
            Request(
                f"judge/{number}",
                0,
                messages,
                self._picture,
                last=True,
                max_new_tokens=self.max_new_tokens,
                schema=schema,
            )
            for number, messages in enumerate(dialogues)
        ]
        size = len(requests) if self.batch_size == AUTO else int(self.batch_size)
        for start in range(0, len(requests), max(1, size)):
            yield requests[start : start + size]

    def _retire(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self.engine.retire(request.question_id)


def scorer(engine: Engine) -> Scorer:
    """Return the engine as one that gives probabilities. UsageError where it gives none."""
    if not engine.capabilities.score:
        raise UsageError(
            f"mode yes reads the model's probabilities, which --engine {engine.name} does not give:"
            " use --mode json or pairwise, or --engine transformers or vllm"
        )
    return engine  # type: ignore[return-value]  # it says that it is one


def log_odds(logs: Sequence[float], first: int) -> tuple[float, float] | None:
    """Return the log-odds of one word against another, and the probability of either.

    logs: of every way to write them, of the first word the `first` ones. None where both have no
    probability at all, or where a figure is none.
    """
    if any(map(isnan, logs)) or max(logs) == -inf:
        return None
    ours, others, either = map(np.logaddexp.reduce, (logs[:first], logs[first:], logs))
    return float(ours - others), min(1.0, exp(either))
