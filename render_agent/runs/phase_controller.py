"""The phase controller: the first turns batched over all questions, then each at its own pace."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from render_agent.agents.base import Agent, Taken
from render_agent.agents.seeds import turn_seed
from render_agent.agents.verifiers.base import Panel, Situation, Verdict
from render_agent.dialogue.chat import Message
from render_agent.dialogue.prompt import Prompt, reply_schema
from render_agent.dialogue.state import Phase, QuestionState, Seconds, Tokens, Turn
from render_agent.engines.base import Engine, Reply, Request
from render_agent.errors import EngineError, RenderAgentError, RunLogError
from render_agent.observation import Look, Looking
from render_agent.runs.deliberation import Deliberations, Failure
from render_agent.runs.log.base import TurnLog
from render_agent.system.threads import begun_pool
from render_agent.text.redact import without_keys

logger = logging.getLogger(__name__)


class Observer(Protocol):
    """Is told what happens, as it happens."""

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        ...

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        ...

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        ...


class Silent:
    """The observer of a run that nobody watches."""

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """Nothing is said."""

    def took(self, state: QuestionState, turn: Turn) -> None:
        """Nothing is said."""

    def failed(self, state: QuestionState) -> None:
        """Nothing is said; the error is in the log."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are generated. guided: held to their schema, where the engine can."""

    temperature: float = 0.0
    seed: int = 0
    max_new_tokens: int = 512
    guided: bool = True


class PhaseController:
    """Runs questions to their end; owns nothing but the order in which things happen.

    agent: decides each turn. panel: the verifiers that it may ask. max_batched_turns: turns that all
    questions take together. finish_together: how many questions then finish side by side, each at its own
    pace; 1 is strictly one after the other. Neither changes what is said in any dialogue.
    """

    def __init__(
        self,
        looker: Looking,
        engine: Engine,
        log: TurnLog,
        prompt: Prompt,
        observer: Observer,
        agent: Agent,
        panel: Panel,
        *,
        max_batched_turns: int,
        finish_together: int,
        sampling: Sampling,
    ) -> None:
        self.looker = looker
        self.engine = engine
        self.log = log
        self.prompt = prompt
        self.observer = observer
        self.agent = agent
        self.panel = panel
        self.max_batched_turns = max_batched_turns
        self.finish_together = finish_together
        self.sampling = sampling
        self._stopped = False
        self.schema = reply_schema(prompt.on_request) if sampling.guided else None

    def run(self, states: Iterable[QuestionState]) -> None:
        """Take every active question to its end. EngineError or RunLogError where that is impossible.

        Continuing a run is running it: states read back from the log already have turns.
        """
        states = sorted(states, key=lambda state: state.question.scene)  # a scan is read once
        self._drawing = begun_pool(1, "drawing")
        try:
            self._drawing.submit(self._restore, [s for s in states if not s.active])
            while early := [
                s for s in states if s.active and len(s.turns) < self.max_batched_turns
            ]:
                self.advance(early, together=len(early), phase="batched")
            late = [s for s in states if s.active]
            self.advance(late, together=self.finish_together, phase="finishing")
        except BaseException:  # a time limit gives seconds: no view is waited for
            self._stopped = True
            self.looker.stop()
            raise
        finally:
            self._drawing.submit(self.panel.close)
            self._drawing.submit(self.looker.close)
            self._drawing.shutdown()

    def advance(self, states: Sequence[QuestionState], together: int, phase: Phase) -> None:
        """Take questions forward, `together` at a time: look, ask, act, write down.

        In the batched phase each takes one turn; in the finishing phase one goes on until it
        retires, and the next takes its place. Views are drawn while the engine generates.
        """
        if states:
            self.observer.began(phase, states)
        line = deque(states)
        looking: deque[tuple[QuestionState, Future[Look]]] = deque()
        deciding = Deliberations[Asked](self.engine, self.panel, self._drawing.submit)
        try:
            while line or looking or deciding:
                while (
                    line
                    and len(looking) + len(deciding) < together
                    and self._may_draw(looking, deciding)
                ):
                    state = line.popleft()
                    looking.append((state, self._drawing.submit(self.looker.look, state)))
                for asked in self._drawn(looking, phase, idle=deciding.idle):
                    steps = self.agent.decide(asked.situation, asked.request)
                    deciding.begin(asked, steps, self.agent.dialogues(asked.state.id))
                took = []
                for asked, outcome in deciding.ended(looking[0][1] if looking else None):
                    self._act(asked, outcome, phase)
                    took.append(asked.state)
                if phase == "finishing":
                    line.extendleft(state for state in reversed(took) if state.active)
                self.log.sync()
        finally:
            for _, future in looking:
                future.cancel()
            deciding.close()

    def _restore(self, retired: Sequence[QuestionState]) -> None:
        """Draw again what is gone of questions that are done; their reports need it, the run does not."""
        for state in retired:
            if self._stopped:
                break
            try:
                self.looker.restore(state)
            except RenderAgentError as error:
                logger.warning("question %s lacks a picture: %s", state.id, error)

    def _may_draw(self, looking: Sized, deciding: Deliberations[Asked]) -> bool:
        """Whether another view may be drawn before those that wait are asked about.

        What waits takes memory, in an engine that runs free as well as here.
        """
        waiting = len(looking)
        if self.engine.capabilities.free_running:
            waiting += deciding.asked
        return waiting < 2 * self.engine.batch_size

    def _drawn(
        self, looking: deque[tuple[QuestionState, Future[Look]]], phase: Phase, *, idle: bool
    ) -> Iterator[Asked]:
        """Give the questions that are drawn, in order: a full batch, or all that a free engine can take."""
        enough = self.engine.batch_size
        if self.engine.capabilities.free_running:
            enough = max(sum(future.done() for _, future in looking), int(idle))
        for _ in range(min(enough, len(looking))):
            state, future = looking.popleft()
            try:
                look = future.result()
            except (RunLogError, EngineError):
                raise
            except Exception as error:  # noqa: BLE001 - the one boundary of a question: whatever its
                self._fail(state, phase, error)  # scan makes a library raise, the others go on
            else:
                yield self._asked(state, look)

    def _asked(self, state: QuestionState, look: Look) -> Asked:
        turn = len(state.turns)
        messages = (
            self.prompt.following(turn, state.turns[-1].happened, look.views, look.camera)
            if state.turns
            else self.prompt.opening(state.question, look.views, look.camera)
        )
        request = Request(
            question_id=state.id,
            turn=turn,
            messages=[*state.dialogue, *messages],
            picture=self.log.pictures.get,
            views=(*state.views, *look.views),
            last=turn + 1 == state.max_turns,
            temperature=self.sampling.temperature,
            seed=turn_seed(self.sampling.seed, state.id, turn),
            max_new_tokens=self.sampling.max_new_tokens,
            schema=self.schema,
        )
        situation = Situation(state, look, self.log.pictures.get)
        return Asked(situation, tuple(messages), request, time.perf_counter())

    def _act(self, asked: Asked, outcome: Taken | Failure, phase: Phase) -> None:
        """Write down what a turn came to, and let its question take it."""
        state, look = asked.state, asked.look
        if isinstance(outcome, Failure):
            self._fail(state, phase, outcome.error, outcome.events)
            return
        for picture in (*look.written, *outcome.written):
            picture.result()
        spent = asked.spent(outcome)
        turn = Turn(
            number=asked.request.turn,
            phase=phase,
            views=look.views,
            messages=asked.messages,
            reply=outcome.reply,
            action=outcome.action,
            happened=outcome.response.happened,
            stood=look.camera,
            camera=outcome.response.camera,
            tokens=spent.tokens,
            seconds=spent.seconds,
            batch_size=outcome.replies[0].batch_size,
            finish=outcome.finish,
            events=spent.events,
            evidence=outcome.evidence,
        )
        self.log.append(state.id, turn)
        state.take(turn)
        self.observer.took(state, turn)
        if not state.active:
            self._retire(state)

    def _fail(
        self, state: QuestionState, phase: Phase, error: Exception, events: Sequence[str] = ()
    ) -> None:
        """Write down the error that stopped one question; the others go on."""
        sentence = without_keys(_sentence(error))
        logger.error("question %s failed: %s", state.id, sentence, exc_info=error)
        self.log.append_error(state.id, len(state.turns), phase, sentence, events)
        state.fail(sentence, events)
        self._retire(state)
        self.observer.failed(state)

    def _retire(self, state: QuestionState) -> None:
        for dialogue in self.agent.dialogues(state.id):
            self.engine.retire(dialogue)


def _sentence(error: Exception) -> str:
    """Return what is said of an error that stops one question."""
    if isinstance(error, MemoryError):
        return (
            "this machine's memory ran out when its view was drawn: give the program more, or lower"
            " --image-size, and try again with --continue"
        )
    return str(error) if isinstance(error, RenderAgentError) else repr(error)


@dataclass(frozen=True, eq=False)
class Asked:
    """A question whose turn is being decided since `since`; messages are those new in this turn."""

    situation: Situation
    messages: tuple[Message, ...]
    request: Request
    since: float

    @property
    def state(self) -> QuestionState:
        """The question."""
        return self.situation.state

    @property
    def look(self) -> Look:
        """What it is shown."""
        return self.situation.look

    def spent(self, taken: Taken) -> Spent:
        """Return what the turn took, now that it ended.

        The share of the turn in every batch counts, set against the batch of its first reply.
        """
        own = taken.replies[0]
        share = sum(reply.seconds / reply.batch_size for reply in taken.replies)
        share += sum(verdict.seconds for verdict in taken.verdicts)
        waited = max(0.0, time.perf_counter() - self.since - own.seconds)
        parts: list[Reply | Verdict] = [*taken.replies, *taken.verdicts]
        tokens = Tokens.total(part.tokens for part in parts)
        # Rounded here, so that a run that is read back from its log has the same totals.
        spent = (round(part, 4) for part in (self.look.seconds, waited, share * own.batch_size))
        seconds = Seconds(*spent)
        return Spent(tokens, seconds, tuple(event for part in parts for event in part.events))


@dataclass(frozen=True, slots=True)
class Spent:
    """What a turn took, and what went wrong on the way and was mended."""

    tokens: Tokens
    seconds: Seconds
    events: tuple[str, ...]
