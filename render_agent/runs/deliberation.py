"""Turns being decided: every agent gets what it waits for, whatever waits alike in one batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from render_agent.agents.base import Ask, Draw, Steps, Taken
from render_agent.agents.verifiers.base import Case, Panel
from render_agent.engines.base import Engine, Reply
from render_agent.errors import EngineError, RenderAgentError, RunLogError

LOOK_AGAIN = 0.005
"""Seconds that a free-running engine is waited for while something is being drawn for it."""

Owner = TypeVar("Owner")


@dataclass(frozen=True)
class Failure:
    """Why a turn came to nothing, and the engine's events on the way."""

    error: Exception
    events: tuple[str, ...] = ()


@dataclass(eq=False)
class Course(Generic[Owner]):
    """One turn on its way; replies: those that it waits for, by dialogue id, in order.

    kept: ids of dialogues that go on after it. events: the engine's, up to now.
    """

    owner: Owner
    steps: Steps
    kept: frozenset[str]
    replies: dict[str, Reply | None] = field(default_factory=dict)
    events: tuple[str, ...] = ()


class Deliberations(Generic[Owner]):
    """The turns under way; owned by the thread that owns the engine.

    draw: has work done by the thread that draws.
    """

    def __init__(
        self, engine: Engine, panel: Panel, draw: Callable[[Callable[[], Any]], Future[Any]]
    ) -> None:
        self.engine = engine
        self.panel = panel
        self._draw = draw
        self._asked: dict[str, Course[Owner]] = {}
        self._drawing: deque[tuple[Course[Owner], Future[Any]]] = deque()
        self._judging: list[tuple[Course[Owner], Case]] = []
        self._ended: list[tuple[Owner, Taken | Failure]] = []

    def __len__(self) -> int:
        courses = {id(course) for course in self._asked.values()}
        return len(courses) + len(self._drawing) + len(self._judging) + len(self._ended)

    @property
    def asked(self) -> int:
        """Requests that the engine has not answered."""
        return len(self._asked)

    @property
    def idle(self) -> bool:
        """Whether neither the engine nor the thread that draws has anything to do for them."""
        return not self._asked and not self._drawing

    def begin(self, owner: Owner, steps: Steps, kept: Sequence[str]) -> None:
        """Take a turn on its way; kept: ids of dialogues that go on after it."""
        self._go_on(Course(owner, steps, frozenset(kept)), None)

    def ended(self, view: Future[Any] | None) -> list[tuple[Owner, Taken | Failure]]:
        """Wait until something came that a turn waits for, and return the turns that ended.

        view: the next that is drawn for another question, which will be asked soon; verifiers that ask
        the engine wait for it. EngineError or RunLogError where the run has to stop.
        """
        self._take_drawn(view)
        if not self._ended:
            # what ended is written down first; what it is shown next is drawn meanwhile
            self._take_said(view)
        ended, self._ended = self._ended, []
        return ended

    def close(self) -> None:
        """Give up the turns under way: of what is to be drawn for them nothing more is begun."""
        for _, future in self._drawing:
            future.cancel()

    def _take_drawn(self, view: Future[Any] | None) -> None:
        """Let turns go on with what was drawn for them, waiting for it where nothing else is to be done.

        A free-running engine goes on by itself. Any other is best handed a full batch, and drawing takes
        less than a call of a model: for that it waits, too.
        """
        free = self.engine.capabilities.free_running
        while self._drawing and not self._ended:
            course, future = self._drawing[0]
            if not future.done():
                if len(self._asked) >= (1 if free else self.engine.batch_size):
                    return
                if free and view is not None:
                    wait((future, view), return_when=FIRST_COMPLETED)
                    if not future.done():
                        return
            self._drawing.popleft()
            self._drew(course, future)

    def _take_said(self, view: Future[Any] | None) -> None:
        """Wait for replies; where none is to come, and no question is about to be asked, have cases judged."""
        if self._asked:
            soon = view is not None or bool(self._drawing)
            for request, reply in self.engine.ready(LOOK_AGAIN if soon else None):
                self._answered(request.question_id, reply)
        elif self._judging and not self._drawing and view is None:
            self._judge()

    def _drew(self, course: Course[Owner], future: Future[Any]) -> None:
        try:
            found = future.result()
        except (RunLogError, EngineError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever a scan makes a library raise fails its
            self._ended.append((course.owner, Failure(error, course.events)))  # question alone
        else:
            self._go_on(course, found)

    def _answered(self, dialogue: str, reply: Reply) -> None:
        course = self._asked.pop(dialogue)
        course.replies[dialogue] = reply
        course.events += reply.events
        replies = [found for found in course.replies.values() if found is not None]
        if len(replies) < len(course.replies):
            return
        for name in course.replies.keys() - course.kept:
            self.engine.retire(name)
        faults = [found.error for found in replies if found.error is not None]
        if faults:
            failure = Failure(RenderAgentError(faults[0]), course.events)
            self._ended.append((course.owner, failure))
        else:
            self._go_on(course, replies)

    def _judge(self) -> None:
        """Have every verifier that asks the engine score all cases that wait."""
        waiting, self._judging = self._judging, []
        cases = [case for _, case in waiting]
        verdicts = zip(*(v.score_all(cases) for v in self.panel.asking), strict=True)
        for (course, _), found in zip(waiting, verdicts, strict=True):
            course.events += tuple(event for verdict in found for event in verdict.events)
            self._go_on(course, list(found))

    def _go_on(self, course: Course[Owner], found: Any) -> None:
        """Give a turn what it waits for, so that it goes on to what it needs next, or to its end."""
        try:
            need = course.steps.send(found)
        except StopIteration as end:
            self._ended.append((course.owner, end.value))
            return
        except (RunLogError, EngineError):
            raise
        except RenderAgentError as error:
            self._ended.append((course.owner, Failure(error, course.events)))
            return
        if isinstance(need, Ask):
            course.replies = {request.question_id: None for request in need.requests}
            self._asked.update(dict.fromkeys(course.replies, course))
            self.engine.submit(need.requests)
        elif isinstance(need, Draw):
            self._drawing.append((course, self._draw(need.work)))
        else:
            self._judging.append((course, need.case))
