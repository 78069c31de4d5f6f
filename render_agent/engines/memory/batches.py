"""Batches of rows that are halved when memory runs out, and the limit that this leaves for later ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from render_agent.engines.memory.faults import Fault

LOG = logging.getLogger(__name__)
Row = TypeVar("Row")
Outcome = TypeVar("Outcome")

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
class Batches:
    """Divides rows into batches; one that does not fit in memory is halved, and later ones are smaller, too."""

    most_rows: int
    ceiling: Ceiling = field(default_factory=lambda: Ceiling(GROW_AFTER))
    events: list[str] = field(default_factory=list)
    """Recovered faults that have not been reported yet."""

    def take_events(self) -> tuple[str, ...]:
        """Return the events since the last call."""
        events, self.events = tuple(self.events), []
        return events

    def run(
        self, rows: Sequence[Row], call: Callable[[Sequence[Row]], Sequence[Outcome] | Fault]
    ) -> list[Outcome | Fault]:
        """Return the outcome or the fault of every row, in order.

        A row that runs out of memory alone is retried once, because the cause may be temporary.
        """
        outcomes: list[Outcome | Fault] = []
        smaller, is_retry = self.most_rows, False
        while batch := rows[len(outcomes) :][: min(self.ceiling.clamp(self.most_rows), smaller)]:
            result = call(batch)
            if not isinstance(result, Fault):
                outcomes += result
                smaller, is_retry = self.most_rows, False
                self.events += ["batch_grown"] if self.ceiling.record_success(len(batch)) else []
                continue
            if result.out_of_memory:
                LOG.warning("out of memory with %d rows", len(batch))
                self.events.append("out_of_memory")
            if len(batch) > 1:
                smaller = (len(batch) + 1) // 2
                if result.out_of_memory:
                    self.ceiling.lower(smaller)
                    self.events.append("batch_halved")
            elif result.out_of_memory and not is_retry:
                is_retry = True
                self.events.append("retried")
            else:
                outcomes.append(result)
                smaller, is_retry = self.most_rows, False
        return outcomes
