"""The turn scheduler: turns are coroutines, and the same kind of request from several turns is served in one batch."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, cast

from render_agent.agents.agent import Ask, Barrier, Draw, Need
from render_agent.agents.verifiers.verifier import Case, Verifier
from render_agent.engines.engine import Engine, Prefetcher, Reply, Request
from render_agent.errors import EngineError, RenderAgentError, RenderError
from render_agent.util.interrupts import reraise
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "out of memory (give the program more memory, or lower --batch-size)"

TurnCoroutine = Generator[
    Need, Any, None
]  # one or more turns of a question: yields requests, receives results


@dataclass(eq=False)
class InFlight:
    """A coroutine, and the replies that it waits for: by dialogue id, in the order of its requests."""

    coroutine: TurnCoroutine
    replies: dict[str, Reply | None] = field(default_factory=dict)
    is_stopped: bool = True
    """True before its first step, and at a barrier."""


class TurnScheduler:
    """Runs turn coroutines concurrently and serves their requests in batches.

    Views are rendered in a worker thread while the engine generates. Not thread-safe: call it from the thread that
    owns the engine.
    """

    def __init__(
        self, engine: Engine, asking: Sequence[Verifier], settle: Callable[[], None]
    ) -> None:
        self.engine = engine
        self.asking = asking
        self.settle = settle
        self._thread = ThreadPoolExecutor(1, "drawing")
        self._in_flight = 0
        self._unprepared: dict[TurnCoroutine, InFlight] = {}  # at the barrier, in order of arrival
        self._ahead: dict[TurnCoroutine, InFlight] = {}  # prepare the turn after the barrier
        self._to_draw: deque[tuple[InFlight, Draw]] = deque()
        self._drawing: deque[tuple[InFlight, Future[Any]]] = deque()
        self._asked: dict[str, InFlight] = {}
        self._to_judge: list[tuple[InFlight, Case]] = []

    def run(self, coroutines: Iterable[TurnCoroutine], max_concurrent: int | None) -> None:
        """Run coroutines until each has ended or reached a barrier, starting them in order.

        Coroutines at the barrier prepare their next turns while others are in flight. Another call with them lifts the
        barrier. An exception in any coroutine ends the run.
        """
        pending = map(self._lift_barrier, coroutines)
        while self._start(pending, max_concurrent):
            self._serve_next()
            self.settle()
            reraise()

    def draw(self, work: Callable[[], Any]) -> Future[Any]:
        """Submit work to the rendering thread, after all earlier work."""
        return self._thread.submit(work)

    def cancel(self) -> None:
        """Cancel views that are not being rendered yet."""
        for _, future in self._drawing:
            future.cancel()

    def close(self) -> None:
        """Wait for the rendering thread to complete its work."""
        self.cancel()
        self._thread.shutdown()

    def _start(self, pending: Iterator[InFlight], max_concurrent: int | None) -> bool:
        """Start coroutines up to the limit; return True if any is in flight."""
        # Views prepared ahead may fill the room if the batch size has decreased.
        while self._in_flight < (max_concurrent or self.engine.batch_size) and (
            self._has_room() or not self._in_flight
        ):
            if (flight := next(pending, None)) is None:
                self._prepare_ahead()
                break
            self._in_flight += 1
            if flight.is_stopped:
                self._resume(flight)
        self._submit_renders()
        return self._in_flight > 0

    def _lift_barrier(self, coroutine: TurnCoroutine) -> InFlight:
        ahead = self._ahead.pop(coroutine, None)
        return ahead or self._unprepared.pop(coroutine, None) or InFlight(coroutine)

    def _prepare_ahead(self) -> None:
        """Prepare the next turns of coroutines at the barrier, unless others wait for views or many are prepared."""
        while (
            self._unprepared
            and self._in_flight
            and len(self._ahead) < self.engine.batch_size
            and not self._is_rendering_now()
        ):
            coroutine = next(iter(self._unprepared))
            self._ahead[coroutine] = flight = self._unprepared.pop(coroutine)
            self._resume(flight)

    def _is_rendering_now(self) -> bool:
        """Return True if a coroutine that is not ahead waits for a view."""
        waiting = chain(self._drawing, self._to_draw)
        return any(flight.coroutine not in self._ahead for flight, _ in waiting)

    def _submit_renders(self) -> None:
        """Submit as many views to the rendering thread as there is room for."""
        while self._to_draw and self._has_room():
            flight, need = self._to_draw.popleft()
            future = self.draw(need.work)
            if self.engine.capabilities.streaming:
                future.add_done_callback(lambda _: self.engine.wake())
            self._drawing.append((flight, future))

    def _has_room(self) -> bool:
        """Return True if another view may be rendered. Waiting views take memory."""
        waiting = len(self._drawing)
        if self.engine.capabilities.streaming:
            waiting += len(self._asked)
        return waiting < 2 * self.engine.batch_size

    def _serve_next(self) -> None:
        """Serve the first kind of request that is due: rendering, replies, verdicts.

        Verifiers that query the engine come last, when no other coroutine can join their batch.
        """
        if self._waits_for_render():
            while self._waits_for_render():
                self._take_rendered()
        elif self._asked:
            with engine_faults(self.engine):
                replies = self.engine.ready()
            while (result := self._next(replies)) is not None:
                self._answer(result[0].dialogue_id, result[1])
        else:
            self._judge()

    def _waits_for_render(self) -> bool:
        """Return True if the next view should be awaited before asking the engine for replies.

        Batching engines get full batches, because rendering takes less time than a model call. Streaming engines get
        each view as soon as it is rendered, which wakes them.
        """
        if not self._drawing:
            return False
        if self.engine.capabilities.streaming and self._drawing[0][1].done():
            return True
        enough = 1 if self.engine.capabilities.streaming else self.engine.batch_size
        return len(self._asked) < enough and self._is_rendering_now()

    def _take_rendered(self) -> None:
        flight, future = self._drawing.popleft()
        if (error := future.exception()) is not None:
            self._advance(flight, partial(flight.coroutine.throw, _fault(error)))
        else:
            self._advance(flight, partial(flight.coroutine.send, future.result()))

    def _answer(self, dialogue: str, reply: Reply) -> None:
        flight = self._asked.pop(dialogue)
        flight.replies[dialogue] = reply
        replies = list(flight.replies.values())
        if None not in replies:
            self._advance(flight, partial(flight.coroutine.send, replies))

    def _next(self, replies: Iterator[tuple[Request, Reply]]) -> tuple[Request, Reply] | None:
        with engine_faults(self.engine):
            return next(replies, None)

    def _judge(self) -> None:
        """Let every verifier that queries the engine score all waiting cases."""
        waiting, self._to_judge = self._to_judge, []
        cases = [case for _, case in waiting]
        try:
            verdicts = [*zip(*(v.score_all(cases) for v in self.asking), strict=True)]
        except RenderAgentError:
            raise
        except Exception as error:  # noqa: BLE001 - any exception fails the turns that wait for it
            for flight, _ in waiting:
                self._advance(flight, partial(flight.coroutine.throw, step_fault(error)))
            return
        for (flight, _), verdict in zip(waiting, verdicts, strict=True):
            self._advance(flight, partial(flight.coroutine.send, list(verdict)))

    def _resume(self, flight: InFlight) -> None:
        flight.is_stopped = False
        self._advance(flight, partial(next, flight.coroutine))

    def _advance(self, flight: InFlight, step: Callable[[], Need]) -> None:
        """Take the next step of a coroutine, and queue the requests that it yields."""
        try:
            need = step()
        except StopIteration:
            if self._ahead.pop(flight.coroutine, None) is None:
                self._in_flight -= 1
            return
        if isinstance(need, Barrier):
            self._stop_at_barrier(flight, need)
        elif isinstance(need, Draw):
            self._to_draw.append((flight, need))
        elif isinstance(need, Ask):
            flight.replies = {request.dialogue_id: None for request in need.requests}
            self._asked.update(dict.fromkeys(flight.replies, flight))
            with engine_faults(self.engine):
                self.engine.submit(need.requests)
        else:
            self._to_judge.append((flight, need.case))

    def _stop_at_barrier(self, flight: InFlight, barrier: Barrier) -> None:
        """Stop a coroutine after its turn, or before the first request of the next one if it is ahead."""
        flight.is_stopped = True
        if barrier.request is None:
            self._in_flight -= 1
            self._unprepared[flight.coroutine] = flight
        elif flight.coroutine not in self._ahead:
            self._resume(flight)
        elif self.engine.capabilities.prefetch:
            with engine_faults(self.engine):
                cast("Prefetcher", self.engine).prefetch([barrier.request])


@contextmanager
def engine_faults(engine: Engine) -> Iterator[None]:
    """Convert exceptions of an engine, except those of single questions, to an EngineError that stops the run."""
    try:
        yield
    except RenderAgentError:
        raise
    except Exception as error:
        logger.exception("the engine %s failed", engine.name)
        reason = OUT_OF_MEMORY if isinstance(error, MemoryError) else reason_of(repr(error))
        raise EngineError(
            f"the engine {engine.name} failed: {reason}. See run.log for details, then resume with --continue."
        ) from error


def step_fault(error: BaseException) -> RenderAgentError:
    """Wrap a third-party exception from a turn in an error that fails its question."""
    reason = OUT_OF_MEMORY if isinstance(error, MemoryError) else reason_of(repr(error))
    fault = RenderAgentError(f"the turn failed: {reason}")
    fault.__cause__ = error
    return fault


def _fault(error: BaseException) -> BaseException:
    """Return the exception to raise in a coroutine after rendering failed. Library errors become RenderError."""
    if isinstance(error, RenderAgentError) or not isinstance(error, Exception):
        return error
    fault = RenderError(
        "out of memory while rendering a view. Give the program more memory, or lower --image-size, then resume"
        " with --continue."
        if isinstance(error, MemoryError)
        else repr(error)
    )
    fault.__cause__ = error
    return fault
