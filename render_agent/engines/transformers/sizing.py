"""Chooses the number of rows per model call from the measured memory usage; batches that do not fit are halved."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from render_agent.engines.memory.device import DeviceMemory, spare
from render_agent.engines.memory.faults import Fault

LOG = logging.getLogger(__name__)
Outcome = TypeVar("Outcome")

FREE_FRACTION = 0.1  # share of the memory that stays free, for fragmentation and underestimates
# Largest batch relative to the largest so far; attention masks grow faster than tokens.
MAX_GROWTH = 16
GROW_AFTER = 32  # successful batches at the ceiling after which it is raised


class Ceiling:
    """Limit of the rows or tokens per call: halved after a fault, doubled after `grow_after` successful calls."""

    def __init__(self, grow_after: int) -> None:
        self.limit: int | None = None
        self._grow_after = grow_after
        self._successes = 0

    def clamp(self, size: int) -> int:
        """Return `size`, or the limit if it is lower."""
        return size if self.limit is None else min(size, self.limit)

    def lower(self, limit: int) -> None:
        """Set the limit after twice as much was too much."""
        self.limit, self._successes = max(1, limit), 0

    def record_success(self, size: int) -> bool:
        """Record a successful call of this size; return True if the limit was raised."""
        if self.limit is None or 2 * size < self.limit:
            return False
        self._successes += 1
        if self._successes < self._grow_after:
            return False
        self.limit, self._successes = 2 * self.limit, 0
        return True


@dataclass
class Sizing:
    """Determines how many rows fit in a batch, deterministically from the calls so far.

    The size of a batch in tokens includes padding: it is the number of rows times the longest row, where a row is a prompt
    with the longest possible reply.
    """

    memory: DeviceMemory
    most_rows: int  # maximum number of rows per batch
    fraction: float = FREE_FRACTION  # share of the memory that stays free
    ceiling: Ceiling = field(default_factory=lambda: Ceiling(GROW_AFTER))
    largest: int = field(default=0, init=False)  # tokens of the largest batch so far
    needed: int = field(default=0, init=False)  # memory of the largest batch so far, in bytes
    events: list[str] = field(default_factory=list, init=False)
    """Recovered faults that have not been reported yet."""

    def take_events(self) -> tuple[str, ...]:
        """Return the events since the last call."""
        events, self.events = tuple(self.events), []
        return events

    def observe(self, tokens: int, needed: int) -> None:
        """Record the additional memory in bytes that a batch of this many tokens needed."""
        if tokens >= self.largest:
            self.largest, self.needed = tokens, max(1, needed)

    def budget(self) -> int | None:
        """Return the maximum number of tokens of a batch; None if no limit is known."""
        limits = [] if self.ceiling.limit is None else [self.ceiling.limit]
        if self.largest:
            room = spare(self.memory, self.fraction) * self.largest // self.needed
            limits += [room, MAX_GROWTH * self.largest]
        return min(limits, default=None)

    def rows_that_fit(self, tokens: int) -> int:
        """Return how many rows of this many tokens fit in one batch, at least 1."""
        return _rows_within(self.budget(), tokens, self.most_rows)

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Split the indices of rows of these lengths into batches, longest rows first."""
        return split_by_length(range(len(lengths)), lengths, self.budget(), self.most_rows)

    def next_batch(self, lengths: Sequence[int]) -> list[int]:
        """Return the sorted indices of one batch: the first row and those closest to it in length."""
        budget, longest = self.budget(), lengths[0]
        nearest = sorted(range(len(lengths)), key=lambda index: abs(lengths[index] - lengths[0]))
        batch: list[int] = []
        for index in nearest:
            longest = max(longest, lengths[index])
            if batch and len(batch) >= _rows_within(budget, longest, self.most_rows):
                break
            batch.append(index)
        return sorted(batch)


def _rows_within(budget: int | None, tokens: int, max_rows: int) -> int:
    return max(1, max_rows if budget is None else min(max_rows, budget // max(1, tokens)))


def split_by_length(
    indices: Sequence[int], lengths: Sequence[int], budget: int | None, max_rows: int
) -> list[list[int]]:
    """Split indices of rows into batches of similar length, longest first; each batch is sorted.

    `lengths` are those of all rows, and `budget` limits the tokens of a batch with several rows, including padding.
    """
    order = sorted(indices, key=lambda index: -lengths[index])
    batches = []
    start = 0
    while start < len(order):
        rows = _rows_within(budget, lengths[order[start]], max_rows)
        batches.append(sorted(order[start : start + rows]))
        start += rows
    return batches


def fit_rows(
    lengths: Sequence[int],
    attempt: Callable[[Sequence[int]], Sequence[Outcome] | Fault],
    sizing: Sizing,
) -> list[Outcome | Fault]:
    """Process rows of these lengths in batches that fit in memory; return the result or the fault of every row.

    `attempt` processes the rows at some indices. A batch that fails is halved. A single row that runs out of memory is
    retried once, because the cause may be temporary.
    """
    results: dict[int, Outcome | Fault] = {}
    waiting = deque(sizing.batches(lengths))
    retried: set[int] = set()
    while waiting:
        batch = waiting.popleft()
        rows, tokens = len(batch), len(batch) * max(lengths[index] for index in batch)
        if rows > 1 and tokens > (limit := sizing.ceiling.clamp(tokens)):
            waiting.extendleft(reversed(split_by_length(batch, lengths, limit, rows)))
            continue
        outcome = attempt(batch)
        if not isinstance(outcome, Fault):
            results.update(zip(batch, outcome, strict=True))
            sizing.events += ["batch_grown"] if sizing.ceiling.record_success(tokens) else []
            continue
        if outcome.out_of_memory:
            LOG.warning("out of memory with %d rows and %d tokens", rows, tokens)
            sizing.events.append("out_of_memory")
        if rows > 1:
            if outcome.out_of_memory:
                sizing.ceiling.lower(tokens // rows * ((rows + 1) // 2))
                sizing.events.append("batch_halved")
            waiting.extendleft(reversed(split_by_length(batch, lengths, None, (rows + 1) // 2)))
        elif outcome.out_of_memory and batch[0] not in retried:
            retried.add(batch[0])
            waiting.appendleft(batch)
            sizing.events.append("retried")
        else:
            results[batch[0]] = outcome
    return [results[index] for index in range(len(lengths))]
