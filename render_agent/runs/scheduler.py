"""The turn scheduler: turns are coroutines, and those that wait for the same are served in one batch."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from render_agent.agents.agent import Ask, Draw, Need
from render_agent.agents.verifiers.verifier import Case, Verifier
from render_agent.engines.engine import Engine, Reply, Request
from render_agent.errors import EngineError, RenderAgentError, RenderError
from render_agent.util.interrupts import raise_again
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

OUT_OF_MEMORY = "this machine's memory ran out: give the program more, or lower --batch-size"

TurnCoroutine = Generator[Need, Any, None]
"""One turn, or several of one question: yields what it waits for, and is sent what it asked for."""


@dataclass(eq=False)
class InFlight:
    """A coroutine that was begun; replies: those that it waits for, by dialogue id, in the order it asked."""

    coroutine: TurnCoroutine
    replies: dict[str, Reply | None] = field(default_factory=dict)


class TurnScheduler:
    """Serves coroutines what they yield; owned by the thread that owns the engine.

    One thread of its own draws, so that views are drawn while the engine generates. asking: the verifiers that
    ask a model. settle: called whenever some coroutines went on, so that what they wrote is synced to
    disk together.
    """

    def __init__(
        self, engine: Engine, asking: Sequence[Verifier], settle: Callable[[], None]
    ) -> None:
        self.engine = engine
        self.asking = asking
        self.settle = settle
        self._thread = ThreadPoolExecutor(1, "drawing")
        self._in_flight = 0
        self._to_draw: deque[tuple[InFlight, Draw]] = deque()
        self._drawing: deque[tuple[InFlight, Future[Any]]] = deque()
        self._asked: dict[str, InFlight] = {}
        self._to_judge: list[tuple[InFlight, Case]] = []

    def run(self, coroutines: Iterable[TurnCoroutine], together: int | None) -> None:
        """Take coroutines to their ends, at most `together` side by side, begun in their order.

        None: as many as the engine says that it takes best, which it may learn on the way. What a
        coroutine raises ends the run of all.
        """
        line = iter(coroutines)
        try:
            while self._feed(line, together):
                self._serve()
                self.settle()
                raise_again()
        finally:
            for _, future in self._drawing:
                future.cancel()

    def draw(self, work: Callable[[], Any]) -> Future[Any]:
        """Have work done by the thread that draws, after all that it was given before."""
        return self._thread.submit(work)

    def close(self) -> None:
        """Wait for the thread that draws to do what it was given."""
        self._thread.shutdown()

    def _feed(self, line: Iterator[TurnCoroutine], together: int | None) -> bool:
        """Begin as many coroutines as may be; return whether any is in flight."""
        self._hand_over()
        while self._in_flight < (together or self.engine.batch_size) and self._has_room():
            if (coroutine := next(line, None)) is None:
                break
            self._in_flight += 1
            self._go_on(InFlight(coroutine), partial(next, coroutine))
        return self._in_flight > 0

    def _hand_over(self) -> None:
        """Give the thread that draws what it has room for."""
        while self._to_draw and self._has_room():
            flight, need = self._to_draw.popleft()
            future = self.draw(need.work)
            if self.engine.capabilities.free_running:
                future.add_done_callback(lambda _: self.engine.wake())
            self._drawing.append((flight, future))

    def _has_room(self) -> bool:
        """Whether another view may be drawn: those that wait take memory, in an engine that runs free too."""
        waiting = len(self._drawing)
        if self.engine.capabilities.free_running:
            waiting += len(self._asked)
        return waiting < 2 * self.engine.batch_size

    def _serve(self) -> None:
        """Let coroutines go on with what comes first of all that is waited for.

        Verifiers that ask the engine judge last, when no other coroutine can join them.
        """
        if self._wants_drawn():
            while self._wants_drawn():
                self._take_drawn()
        elif self._asked:
            with engine_faults(self.engine):
                replies = self.engine.ready()
            while (served := self._next(replies)) is not None:
                self._answer(served[0].question_id, served[1])
        else:
            self._judge()

    def _wants_drawn(self) -> bool:
        """Whether the next view is taken, and waited for, before the engine is asked for replies.

        An engine that batches is handed full batches: drawing takes less than a call of a model. One that runs
        free is handed whatever is drawn, and is woken by what will be.
        """
        if not self._drawing:
            return False
        if self.engine.capabilities.free_running:
            return not self._asked or self._drawing[0][1].done()
        return len(self._asked) < self.engine.batch_size

    def _take_drawn(self) -> None:
        flight, future = self._drawing.popleft()
        if (error := future.exception()) is not None:
            self._go_on(flight, partial(flight.coroutine.throw, _fault(error)))
        else:
            self._go_on(flight, partial(flight.coroutine.send, future.result()))

    def _answer(self, dialogue: str, reply: Reply) -> None:
        flight = self._asked.pop(dialogue)
        flight.replies[dialogue] = reply
        replies = list(flight.replies.values())
        if None not in replies:
            self._go_on(flight, partial(flight.coroutine.send, replies))

    def _next(self, replies: Iterator[tuple[Request, Reply]]) -> tuple[Request, Reply] | None:
        with engine_faults(self.engine):
            return next(replies, None)

    def _judge(self) -> None:
        """Have every verifier that asks the engine score all cases that wait."""
        waiting, self._to_judge = self._to_judge, []
        cases = [case for _, case in waiting]
        try:
            verdicts = [*zip(*(v.score_all(cases) for v in self.asking), strict=True)]
        except RenderAgentError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it fails the turns that wait for it
            for flight, _ in waiting:
                self._go_on(flight, partial(flight.coroutine.throw, step_fault(error)))
            return
        for (flight, _), verdict in zip(waiting, verdicts, strict=True):
            self._go_on(flight, partial(flight.coroutine.send, list(verdict)))

    def _go_on(self, flight: InFlight, step: Callable[[], Need]) -> None:
        """Let a coroutine take its next step, and queue what it needs then."""
        try:
            need = step()
        except StopIteration:
            self._in_flight -= 1
            return
        if isinstance(need, Draw):
            self._to_draw.append((flight, need))
        elif isinstance(need, Ask):
            flight.replies = {request.question_id: None for request in need.requests}
            self._asked.update(dict.fromkeys(flight.replies, flight))
            with engine_faults(self.engine):
                self.engine.submit(need.requests)
        else:
            self._to_judge.append((flight, need.case))


@contextmanager
def engine_faults(engine: Engine) -> Iterator[None]:
    """Turn whatever an engine raises, and is not one question's, into the end of a run that can be continued."""
    try:
        yield
    except RenderAgentError:
        raise
    except Exception as error:
        logger.exception("the engine %s failed", engine.name)
        reason = OUT_OF_MEMORY if isinstance(error, MemoryError) else reason_of(repr(error))
        raise EngineError(
            f"the engine {engine.name} failed: {reason}; run.log says where; go on with --continue"
        ) from error


def step_fault(error: BaseException) -> RenderAgentError:
    """Return the error with which a question fails after its turn raised an exception of a foreign class."""
    reason = OUT_OF_MEMORY if isinstance(error, MemoryError) else reason_of(repr(error))
    fault = RenderAgentError(f"its turn could not be taken: {reason}")
    fault.__cause__ = error
    return fault


def _fault(error: BaseException) -> BaseException:
    """Return the error to raise in a coroutine after drawing failed; any exception of a library counts as a RenderError."""
    if isinstance(error, RenderAgentError) or not isinstance(error, Exception):
        return error
    fault = RenderError(
        "this machine's memory ran out when its view was drawn: give the program more, or lower"
        " --image-size, and try again with --continue"
        if isinstance(error, MemoryError)
        else repr(error)
    )
    fault.__cause__ = error
    return fault
