"""What an engine and a view provider do over a run: how many requests are under way, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from render_agent.dialogue.state import Candidate, QuestionState
from render_agent.engines.base import Engine, Reply, Request
from render_agent.engines.memory.device import DeviceMemory
from render_agent.observation import Observation, ViewProvider

Span = tuple[float, float]


class MeteredEngine:
    """An engine that is watched: it answers as the one inside does, whose own all is that is not defined here.

    busy: when it was asked for replies, and with how many requests under way. A batching engine
    answers at most `batch_size` of them at a time, so no more count. closed: when it was closed, closed_cpu: by
    the process's own time. peak: bytes that the memory watched held at the most until then.
    """

    def __init__(
        self,
        inside: Engine,
        memory: DeviceMemory | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.inside = inside
        self.memory = memory
        self.clock = clock
        self.closed = self.closed_cpu = 0.0
        self._calls: int | None = None
        self.peak: int | None = None
        if memory is not None:
            memory.reset_peak()
        self.under_way = 0
        self._limit = inside.batch_size
        self.busy: list[tuple[Span, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    @property
    def calls(self) -> int:
        """Calls of the model."""
        return self.inside.calls if self._calls is None else self._calls

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order."""
        began = self.clock()
        replies = self.inside.generate(requests)
        self.busy.append(((began, self.clock()), min(len(requests), self.inside.batch_size)))
        return replies

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        self.under_way += len(requests)
        self.inside.submit(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Give what the engine inside gives."""
        self._limit = max(self._limit, self.inside.batch_size)
        began, running = self.clock(), min(self.under_way, self.inside.batch_size)
        answered = list(self.inside.ready(timeout))
        self.busy.append(((began, self.clock()), running))
        self.under_way -= len(answered)
        yield from answered

    def close(self) -> None:
        """Give back what the engine inside holds; the watch ends."""
        self._calls = self.inside.calls
        self.closed, self.closed_cpu = self.clock(), time.process_time()
        if self.memory is not None:
            self.peak = self.memory.peak()
        self.inside.close()

    @property
    def limit(self) -> int:
        """The most that `batch_size` was, which an engine may lower as it goes."""
        return self._limit

    def running(self) -> float:
        """Return the mean number of requests under way over `limit`, from the first to the last reply."""
        if not self.busy:
            return 0.0
        (first, _), _ = self.busy[0]
        (_, last), _ = self.busy[-1]
        work = sum((end - start) * count for (start, end), count in self.busy)
        return work / max(last - first, 1e-9) / max(self.limit, 1)

    def gaps(self, began: float, ended: float) -> list[Span]:
        """Return when the engine was asked for nothing, between two moments."""
        edges = [began, *(edge for span, _ in self.busy for edge in span), ended]
        return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]


class MeteredViews:
    """A view provider that is watched; all that is not defined here is its own. drawing: when it was drawing."""

    def __init__(
        self, inside: ViewProvider, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.inside = inside
        self.clock = clock
        self.drawing: list[Span] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def observe(self, state: QuestionState) -> Observation:
        """Return the next views of a question."""
        began = self.clock()
        try:
            return self.inside.observe(state)
        finally:
            self.drawing.append((began, self.clock()))

    def preview(
        self, state: QuestionState, now: Observation, candidates: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return candidates with what each would be shown next."""
        began = self.clock()
        try:
            return self.inside.preview(state, now, candidates)
        finally:
            self.drawing.append((began, self.clock()))


def overlap(a: Sequence[Span], b: Sequence[Span]) -> float:
    """Return the total overlap of two lists of spans, each in order and without overlaps of its own."""
    total, i, j = 0.0, 0, 0
    while i < len(a) and j < len(b):
        total += max(0.0, min(a[i][1], b[j][1]) - max(a[i][0], b[j][0]))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return total
