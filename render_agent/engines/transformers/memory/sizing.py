"""How many rows go into one call of the model, by what calls were seen to need; where they do not fit, they are halved."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from render_agent.engines.memory.device import DeviceMemory, spare
from render_agent.engines.memory.faults import Fault

LOG = logging.getLogger(__name__)
Given = TypeVar("Given")

FRACTION = 0.1
"""Of all memory, what is kept free: blocks are never filled quite, and what was seen is no promise."""

REACH = 16
"""How many times the tokens of the largest batch so far may be dared next: masks grow faster than tokens do."""

GROW_AFTER = 32
"""Batches that a ceiling held back, and that went well, after which it is raised."""


class Ceiling:
    """How much one call takes, rows or tokens: halved by a fault, doubled after so many calls without one."""

    def __init__(self, grow_after: int) -> None:
        self.most: int | None = None
        self._grow_after = grow_after
        self._good = 0

    def of(self, wanted: int) -> int:
        """Return how much of this one call takes."""
        return wanted if self.most is None else min(wanted, self.most)

    def lower(self, most: int) -> None:
        """Take no more than so much from now on: twice of it was too much."""
        self.most, self._good = max(1, most), 0

    def succeeded(self, taken: int) -> bool:
        """So much went well; whether more will be taken from now on."""
        if self.most is None or 2 * taken < self.most:
            return False
        self._good += 1
        if self._good < self._grow_after:
            return False
        self.most, self._good = 2 * self.most, 0
        return True


@dataclass
class Sizing:
    """Tells how many rows fit; the same calls always lead to the same answers.

    Tokens of a batch are counted with padding: its rows times its longest row, and a row is a
    prompt and the reply that may follow. memory: where they have to fit. most_rows: rows of a batch
    at the most, whatever memory holds. fraction: of all memory, what is kept free. largest: tokens of the
    largest batch so far, and needed: the bytes that it took. events: what went wrong and is not told yet.
    """

    memory: DeviceMemory
    most_rows: int
    fraction: float = FRACTION
    ceiling: Ceiling = field(default_factory=lambda: Ceiling(GROW_AFTER))
    largest: int = field(default=0, init=False)
    needed: int = field(default=0, init=False)
    events: list[str] = field(default_factory=list, init=False)

    def take_events(self) -> tuple[str, ...]:
        """Return the events since the last call."""
        events, self.events = tuple(self.events), []
        return events

    def observe(self, tokens: int, needed: int) -> None:
        """Note that a batch of so many tokens needed so many bytes beyond what was in use before."""
        if tokens >= self.largest:
            self.largest, self.needed = tokens, max(1, needed)

    def budget(self) -> int | None:
        """Return the tokens that a batch may have now; None where nothing speaks against any number."""
        limits = [] if self.ceiling.most is None else [self.ceiling.most]
        if self.largest:
            room = spare(self.memory, self.fraction) * self.largest // self.needed
            limits += [room, REACH * self.largest]
        return min(limits, default=None)

    def rows_that_fit(self, tokens: int) -> int:
        """Return how many rows of so many tokens each fit into one batch: at least one, which is tried."""
        return _rows_within(self.budget(), tokens, self.most_rows)

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Return the places of rows of these lengths, batch after batch, the longest rows first."""
        return grouped(range(len(lengths)), lengths, self.budget(), self.most_rows)

    def next_batch(self, lengths: Sequence[int]) -> list[int]:
        """Return the places of one batch: the first row, which waits longest, and those nearest to it in length."""
        budget, longest = self.budget(), lengths[0]
        nearest = sorted(range(len(lengths)), key=lambda place: abs(lengths[place] - lengths[0]))
        batch: list[int] = []
        for place in nearest:
            longest = max(longest, lengths[place])
            if batch and len(batch) >= _rows_within(budget, longest, self.most_rows):
                break
            batch.append(place)
        return sorted(batch)


def _rows_within(budget: int | None, tokens: int, most: int) -> int:
    return max(1, most if budget is None else min(most, budget // max(1, tokens)))


def grouped(
    places: Sequence[int], lengths: Sequence[int], budget: int | None, limit: int
) -> list[list[int]]:
    """Return the places in batches of similar length, the longest first, in each in their order.

    lengths: of all rows, by place. A batch has at most `limit` rows, and with padding at most
    `budget` tokens, unless it is a single row.
    """
    order = sorted(places, key=lambda place: -lengths[place])
    batches = []
    start = 0
    while start < len(order):
        rows = _rows_within(budget, lengths[order[start]], limit)
        batches.append(sorted(order[start : start + rows]))
        start += rows
    return batches


def fit_rows(
    lengths: Sequence[int],
    attempt: Callable[[Sequence[int]], Sequence[Given] | Fault],
    sizing: Sizing,
) -> list[Given | Fault]:
    """Return the result of every row, in their order, or why it has none.

    lengths: tokens of each row, the reply that may follow included. attempt: calls the model with the
    rows of these places, and returns the result of each, or why all failed, its memory given back by then. A batch that fails is
    halved, until a single row is left that has failed twice where memory ran out: what is in the way of the first
    attempt may be gone in the second.
    """
    results: dict[int, Given | Fault] = {}
    waiting = deque(sizing.batches(lengths))
    retried: set[int] = set()
    while waiting:
        batch = waiting.popleft()
        rows, tokens = len(batch), len(batch) * max(lengths[place] for place in batch)
        if rows > 1 and tokens > (most := sizing.ceiling.of(tokens)):
            waiting.extendleft(reversed(grouped(batch, lengths, most, rows)))
            continue
        outcome = attempt(batch)
        if not isinstance(outcome, Fault):
            results.update(zip(batch, outcome, strict=True))
            sizing.events += ["batch_grown"] if sizing.ceiling.succeeded(tokens) else []
            continue
        if outcome.out_of_memory:
            LOG.warning("out of memory with %d rows and %d tokens", rows, tokens)
            sizing.events.append("out_of_memory")
        if rows > 1:
            # A single row teaches nothing, since none is smaller.
            if outcome.out_of_memory:
                sizing.ceiling.lower(tokens // rows * ((rows + 1) // 2))
                sizing.events.append("batch_halved")
            waiting.extendleft(reversed(grouped(batch, lengths, None, (rows + 1) // 2)))
        elif outcome.out_of_memory and batch[0] not in retried:
            retried.add(batch[0])
            waiting.appendleft(batch)
            sizing.events.append("retried")
        else:
            results[batch[0]] = outcome
    return [results[place] for place in range(len(lengths))]
