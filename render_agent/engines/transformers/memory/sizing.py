"""How many rows fit into memory: bytes fitted to tokens, batches by tokens, and what failures teach."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2

from render_agent.engines.transformers.memory.device import DeviceMemory, spare

FRACTION = 0.1
"""Of all memory, what is kept free: blocks are never filled quite, and a fit is no promise."""

REACH = 16
"""How many times the tokens of the largest batch so far may be dared next, whatever the fit says."""

UNTRUSTED = 2
"""How many times what the fit says may be needed beyond the largest batch so far: masks, and torn
memory, grow faster than tokens do."""

STEP = 1.25
"""By how much the largest batch so far may be surpassed where the fit says that it is only just
enough, so that batches come to fill the memory all the same."""

GROW_AFTER = 8
"""Batches that the ceiling held back, and that went well, after which it is raised."""

GROWTH = 1.1
"""By how much it is raised; once memory has come back, by twice."""

BELOW = 0.95
"""Up to which part of what failed last it is raised; with less, each of the last rows would be tried."""

LONG_AGO = 64
"""Such batches after which it may be raised beyond where it failed last: what filled the memory then
may be gone, and one failed batch in so many costs less than small batches for the rest of the run."""

KEPT_A_SIZE = 4
"""Observations kept of batches of one size; sizes within a factor of √2 count as one."""


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes that a batch needs: fixed + per_token × its tokens, padding included."""

    fixed: float
    per_token: float

    def needed(self, tokens: int) -> float:
        """Return the bytes for so many tokens."""
        return self.fixed + self.per_token * tokens

    def tokens(self, count: float) -> int:
        """Return the tokens that so many bytes are enough for; 0 where there are none."""
        return max(0, int((count - self.fixed) / self.per_token))


def line_above(points: Sequence[tuple[int, int]]) -> Line:
    """Return the line of the points' slope that no point lies above.

    points: (tokens, bytes), at least one. Of a single size, the line goes through the origin.
    """
    mean = sum(tokens for tokens, _ in points) / len(points)
    level = sum(count for _, count in points) / len(points)
    spread = sum((tokens - mean) ** 2 for tokens, _ in points)
    if spread:
        slope = sum((t - mean) * (count - level) for t, count in points) / spread
    else:
        slope = max(count for _, count in points) / mean
    # Noise alone can make more tokens seem to need less.
    slope = max(slope, 1.0)
    return Line(max(0.0, max(count - slope * tokens for tokens, count in points)), slope)


@dataclass
class Ceiling:
    """The most tokens a batch may have since one failed; None while none has.

    A failure lowers it to half of what failed, or to the most that fitted since the failure before,
    whichever is more. It is raised by a tenth after eight batches that it held back, up to a
    little below where it failed last, beyond that only when that is long ago. Where more memory is free
    than at the failure, it is doubled at once.
    """

    tokens: int | None = None
    failed_at: int = 0
    fitted: int = 0
    free_then: int = 0
    streak: int = 0
    since: int = 0

    def failed(self, rows: int, tokens: int, free: int) -> None:
        """Lower it: a batch of several rows failed with so many tokens in all. free: bytes free now."""
        half = tokens * ((rows + 1) // 2) // rows
        lower = max(half, self.fitted) if self.fitted < tokens else half
        self.tokens = lower if self.tokens is None else min(lower, self.tokens)
        self.failed_at, self.free_then = tokens, free
        self.fitted = self.streak = self.since = 0

    def succeeded(self, rows: int, tokens: int, free: int, total: int) -> bool:
        """Note a batch that went well; whether larger ones may be tried from now on.

        free: bytes free now. total: all the memory there is.
        """
        self.fitted = max(self.fitted, tokens)
        if self.tokens is None or tokens * (rows + 1) // rows <= self.tokens:
            return False
        self.streak, self.since = self.streak + 1, self.since + 1
        before = self.tokens
        if free > self.free_then + total / 10:
            # What filled the memory then is gone, and with it what the failure taught.
            self.tokens, self.since = 2 * self.tokens, LONG_AGO
        elif self.streak >= GROW_AFTER:
            self.streak = 0
            raised = max(self.tokens + 1, int(self.tokens * GROWTH))
            most = raised if self.since >= LONG_AGO else int(BELOW * self.failed_at)
            self.tokens = max(self.tokens, min(raised, most))
        return self.tokens > before


@dataclass
class Sizing:
    """Tells how many rows fit; the same calls always lead to the same answers.

    Tokens of a batch are counted with padding: its rows times its longest row, and a row is a
    prompt and the reply that may follow. memory: where they have to fit. most_rows: rows of a batch
    at the most, whatever memory holds. fraction: of all memory, what is kept free.
    """

    memory: DeviceMemory
    most_rows: int
    fraction: float = FRACTION
    ceiling: Ceiling = field(default_factory=Ceiling)
    largest: int = field(default=0, init=False)
    _seen: dict[int, deque[tuple[int, int]]] = field(default_factory=dict, init=False, repr=False)

    @property
    def line(self) -> Line | None:
        """What batches need, as far as it was observed."""
        points = [point for kept in self._seen.values() for point in kept]
        return line_above(points) if points else None

    def observe(self, tokens: int, needed: int) -> None:
        """Note that a batch of so many tokens needed so many bytes beyond what was in use before."""
        size = round(2 * log2(max(1, tokens)))
        self._seen.setdefault(size, deque(maxlen=KEPT_A_SIZE)).append((tokens, max(0, needed)))
        self.largest = max(self.largest, tokens)

    def budget(self) -> int | None:
        """Return the tokens that a batch may have now; None where nothing speaks against any number."""
        limits = [] if self.ceiling.tokens is None else [self.ceiling.tokens]
        if (line := self.line) is not None:
            bytes_left = spare(self.memory, self.fraction)
            careful = max(line.tokens(bytes_left / UNTRUSTED), int(STEP * self.largest))
            limits += [line.tokens(bytes_left), careful, REACH * self.largest]
        return min(limits) if limits else None

    def rows_that_fit(self, tokens: int) -> int:
        """Return how many rows of so many tokens each fit into one batch: at least one, which is tried."""
        return rows_within(self.budget(), tokens, self.most_rows)

    def batches(self, lengths: Sequence[int], limit: int | None = None) -> list[list[int]]:
        """Return the places of rows of these lengths, batch after batch, the longest rows first.

        Every place occurs once. limit: rows of a batch at the most, by default `most_rows`.
        """
        return grouped(range(len(lengths)), lengths, self.budget(), limit or self.most_rows)

    def next_batch(self, lengths: Sequence[int], limit: int | None = None) -> list[int]:
        """Return the places of one batch: the first row, and those nearest to it in length.

        So whoever waits longest is always in it, and as little as possible is padding.
        """
        order = sorted(range(len(lengths)), key=lambda place: lengths[place])
        budget, most = self.budget(), min(limit or self.most_rows, self.most_rows)
        low = high = order.index(0)
        while high - low + 1 < len(order):
            # A shorter row costs its own padding; a longer one, that of all others too.
            ways = []
            if low > 0:
                ways.append((lengths[order[low]] - lengths[order[low - 1]], low - 1, high))
            if high + 1 < len(order):
                ways.append((lengths[order[high + 1]] - lengths[order[high]], low, high + 1))
            fitting = [
                way
                for way in ways
                if way[2] - way[1] < rows_within(budget, lengths[order[way[2]]], most)
            ]
            if not fitting:
                break
            _, low, high = min(fitting)
        return sorted(order[low : high + 1])

    def failed(self, rows: int, tokens: int) -> None:
        """Remember that a batch did not fit; a single row teaches nothing, since none is smaller."""
        if rows > 1:
            self.ceiling.failed(rows, tokens, self.memory.free())

    def succeeded(self, rows: int, tokens: int) -> bool:
        """Note that a batch fitted; whether larger ones may be tried from now on."""
        return self.ceiling.succeeded(rows, tokens, self.memory.free(), self.memory.total())


def rows_within(budget: int | None, tokens: int, most: int) -> int:
    """Return how many rows of so many tokens each a budget is enough for; at least one."""
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
        rows = rows_within(budget, lengths[order[start]], limit)
        batches.append(sorted(order[start : start + rows]))
        start += rows
    return batches
