"""Rows taken through calls of the model that may fail: what fails is halved, and nothing is lost."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from render_agent.engines.transformers.memory.faults import Fault
from render_agent.engines.transformers.memory.sizing import Sizing, grouped

LOG = logging.getLogger(__name__)
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Fitted(Generic[Given]):
    """What one row became, or why it became nothing; and the events that it is the one to tell."""

    outcome: Given | Fault
    events: tuple[str, ...] = ()


def fit_rows(
    lengths: Sequence[int],
    attempt: Callable[[Sequence[int]], Sequence[Given] | Fault],
    sizing: Sizing,
    limit: int | None = None,
    events: Sequence[str] = (),
) -> list[Fitted[Given]]:
    """Return what every row became, in their order.

    lengths: tokens of each row, the reply that may follow included. attempt: calls the model with the
    rows of these places, at most `limit`, and returns what each became or why all failed; the memory
    is given back by then. A batch that fails is halved, until a single row is left that has failed
    twice where memory ran out: what is in the way of the first attempt may be gone in the second.
    events: what happened before, to be told with them.
    """
    became: dict[int, Given | Fault] = {}
    told: dict[int, tuple[str, ...]] = {}
    untold = list(events)
    waiting = deque(sizing.batches(lengths, limit))
    again: set[int] = set()
    while waiting:
        batch = waiting.popleft()
        rows, tokens = len(batch), len(batch) * max(lengths[place] for place in batch)
        ceiling = sizing.ceiling.tokens
        if rows > 1 and ceiling is not None and tokens > ceiling:
            waiting.extendleft(reversed(grouped(batch, lengths, ceiling, rows)))
            continue
        outcome = attempt(batch)
        if not isinstance(outcome, Fault):
            became.update(zip(batch, outcome, strict=True))
            if sizing.succeeded(rows, tokens):
                LOG.info("%d rows with %d tokens fitted: more may now", rows, tokens)
                untold.append("batch_grown")
            told[batch[0]], untold = tuple(untold), []
            continue
        if outcome.out_of_memory:
            untold += ["out_of_memory"]
            sizing.failed(rows, tokens)
        if rows > 1:
            waiting.extendleft(reversed(_halves(batch, lengths)))
            if outcome.out_of_memory:
                untold += ["batch_halved"]
                LOG.warning("out of memory with %d rows and %d tokens: halved", rows, tokens)
        elif outcome.out_of_memory and batch[0] not in again:
            again.add(batch[0])
            waiting.appendleft(batch)
            untold += ["retried"]
            LOG.warning("out of memory with one row and %d tokens: tried once more", tokens)
        else:
            became[batch[0]] = outcome
    if untold and became:
        last = max(became, key=lambda place: isinstance(became[place], Fault))
        told[last] = (*told.get(last, ()), *untold)
    return [Fitted(became[place], told.get(place, ())) for place in range(len(lengths))]


def _halves(batch: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
    """Return two halves of a batch, its longer rows and its shorter ones."""
    return grouped(batch, lengths, None, (len(batch) + 1) // 2)
