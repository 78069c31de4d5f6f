"""The phase controller: the first turns batched over all questions, then each question at its own pace."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

from msgspec import structs

from render_agent.agents.agent import Agent, Ask, Decision, Draw, Need, probe_id, turn_seed
from render_agent.agents.candidates import AgentTools
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.beliefs import read_belief
from render_agent.dialogue.chat import Message, assistant
from render_agent.dialogue.probe import MAX_TOKENS, Probe, ProbePlan, ProbeRequest
from render_agent.dialogue.prompt import Prompt, reply_schema
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Phase, Turn
from render_agent.engines.engine import Engine, Request, within_bounds
from render_agent.errors import EngineError, RenderAgentError, RenderError, RunLogError, SceneError
from render_agent.runs.failures import Failures
from render_agent.runs.log.lines import Failed
from render_agent.runs.scheduler import (
    TurnCoroutine,
    TurnScheduler,
    engine_faults,
    step_fault,
)
from render_agent.tasks.mentions import named_categories
from render_agent.util.redact import without_keys
from render_agent.views.picture_store import Pictures
from render_agent.views.provider import Observation, ViewProvider

logger = logging.getLogger(__name__)


class Observer(Protocol):
    """Receives the events of a run as they happen; a subclass overrides those that it needs."""

    def began(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """A phase, or a batched turn, begins with these questions."""
        return

    def took(self, state: QuestionState, turn: Turn) -> None:
        """A question took a turn."""
        return

    def failed(self, state: QuestionState) -> None:
        """A question failed."""
        return


class Silent(Observer):
    """The observer of a run that nobody watches; an error is in the log."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are generated.

    thinking_budget: tokens of thought beside them, None where both share theirs. guided: held to their schema, where
    the engine can.
    """

    temperature: float = 0.0
    seed: int = 0
    max_new_tokens: int = 512
    thinking_budget: int | None = None
    guided: bool = True


@dataclass(eq=False)
class PhaseController:
    """Runs questions to their ends; owns nothing but the order in which things happen.

    agent: decides each turn. tools: what it works with. failures: says when too many failed. max_batched_turns: turns that all
    questions take together. finish_together: how many questions then finish side by side, each at its own
    pace; 1 is strictly one after the other, None as many as the engine takes best. Neither changes what is said in any dialogue.
    probe: what is asked beside the dialogues, which does not change them either; None for nothing.
    """

    engine: Engine
    log: TurnLog
    observer: Observer
    agent: Agent
    tools: AgentTools
    failures: Failures
    max_batched_turns: int
    finish_together: int | None
    sampling: Sampling
    probe: ProbePlan | None = None

    @property
    def views(self) -> ViewProvider:
        """What draws the views."""
        return self.tools.views

    @property
    def prompt(self) -> Prompt:
        """What words the dialogues."""
        return self.tools.prompt

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema that replies are held to, None where they are free."""
        if not self.sampling.guided:
            return None
        return reply_schema(self.prompt.on_request, measures=self.prompt.measures)

    def run(self, states: Iterable[QuestionState]) -> None:
        """Take every active question to its end. EngineError, RunStoppedError or RunLogError where that is impossible.

        Continuing a run is running it: states read back from the log already have turns.
        """
        states = sorted(states, key=lambda state: state.question.scene)  # a scan is read once
        with self._scheduler(states) as scheduler:
            while early := [
                s for s in states if s.active and len(s.turns) < self.max_batched_turns
            ]:
                self.observer.began("batched", early)
                scheduler.run((self.turn(s, "batched") for s in early), together=len(early))
            if late := [s for s in states if s.active]:
                self.observer.began("finishing", late)
                scheduler.run((self.finish(s) for s in late), together=self.finish_together)
            self.log.sync()

    def finish(self, state: QuestionState) -> TurnCoroutine:
        """Take all the turns that a question still takes."""
        while state.active:
            yield from self.turn(state, "finishing")

    def turn(self, state: QuestionState, phase: Phase) -> TurnCoroutine:
        """Take one turn: look, ask, act, write down. An error of this question alone ends it alone."""
        events: list[str] = []
        try:
            turn = yield from self._take(state, phase, events)
        except (EngineError, RunLogError):
            raise
        except RenderAgentError as error:
            self._fail(state, phase, error, events)
        # Whatever an agent, a verifier or a shortage of memory raises in a step fails this question alone.
        except Exception as error:  # noqa: BLE001
            self._fail(state, phase, step_fault(error), events)
        else:
            self.failures.went_on()
            self.observer.took(state, turn)
        if not state.active:
            self._retire(self.agent.dialogues(state.id))

    def _take(
        self, state: QuestionState, phase: Phase, events: list[str]
    ) -> Generator[Need, Any, Turn]:
        """Take one turn and write it down; events: gets those of engine and verifiers as they come."""
        observation: Observation = yield Draw(partial(self.views.observe, state))
        began, messages = time.perf_counter(), self._messages(state, observation)
        request = self._request(state, observation, messages)
        context = TurnContext(state, observation, self.log.pictures.get)
        decision = yield from self._decide(context, request, events)
        decision = yield from self._measured(state, observation, decision)
        spent = decision.seconds(observation.seconds, time.perf_counter() - began)
        turn = decision.as_turn(request.turn, phase, observation, messages, spent)
        turn = structs.replace(turn, sha256=self.log.pictures.written(turn.drawn))
        if self.probe is not None and self.probe.keys:
            turn = structs.replace(turn, probe=(yield from self._probe(state, request, turn)))
        self.log.append(state.id, turn)
        state.take(turn)
        return turn

    def _measured(
        self, state: QuestionState, observation: Observation, decision: Decision
    ) -> Generator[Need, Any, Decision]:
        """Return the decision with the measurements that its reply asks for added to the feedback; none where it ends the dialogue."""
        action = decision.action
        if not isinstance(action, Action) or not action.measure or action.done:
            return decision
        measurement = yield Draw(partial(self.views.measure, state, observation, action.measure))
        result = decision.result
        return replace(
            decision, result=replace(result, feedback=f"{result.feedback} {measurement}")
        )

    def _messages(self, state: QuestionState, observation: Observation) -> tuple[Message, ...]:
        if not state.turns:
            shown = observation.views, observation.camera, observation.told
            return tuple(self.prompt.opening(state.question, *shown))
        last = state.turns[-1]
        messages = self.prompt.following(
            len(state.turns), last.feedback, observation.views, observation.camera
        )
        return tuple(messages)

    def _request(
        self, state: QuestionState, observation: Observation, messages: Sequence[Message]
    ) -> Request:
        turn = len(state.turns)
        return Request(
            question_id=state.id,
            turn=turn,
            messages=[*state.dialogue, *messages],
            picture=self.log.pictures.get,
            views=(*state.views, *observation.views),
            last=turn + 1 == state.max_turns,
            temperature=self.sampling.temperature,
            seed=turn_seed(self.sampling.seed, state.question.chance_id, turn),
            max_new_tokens=self.sampling.max_new_tokens,
            thinking_budget=self.sampling.thinking_budget,
            schema=self.schema,
        )

    def _probe(
        self, state: QuestionState, request: Request, turn: Turn
    ) -> Generator[Need, Any, Probe]:
        """Ask the model for its beliefs after a turn, before the turn is logged; the answer never changes the turn.

        request: of the turn; what it reads is the beginning of what is read here.
        """
        assert self.probe is not None, "it is due"
        named = named_categories(state.question)
        message = self.probe.request(turn.feedback, named)
        name = probe_id(state.id, turn.number)
        known = next((past.probe for past in state.turns if past.probe), None)
        scene = (yield Draw(lambda: state.scene)) if known is None else known
        request = replace(
            request,
            question_id=name,
            about=state.id,
            messages=[*request.messages, assistant(turn.reply), message],
            last=False,
            samples=1,
            temperature=0.0,
            seed=turn_seed(self.sampling.seed, name, turn.number),
            max_new_tokens=MAX_TOKENS,
            schema=self.probe.schema if self.sampling.guided else None,
            probe=ProbeRequest(tuple(self.probe.keys), named, turn.camera),
        )
        (reply,) = yield Ask((request,))
        self._retire([name])
        reply = within_bounds(reply, request)
        reply_text = reply.samples[0] if reply.error is None else ""
        return Probe(
            message["content"][0]["text"],
            reply_text,
            None if reply.error is not None else read_belief(reply_text, self.probe.keys.keys()),
            reply.error,
            reply.finish,
            reply.tokens,
            round(reply.seconds, 4),
            reply.batch_size,
            reply.events,
            scene.origin,
            scene.mirrored_at,
        )

    def _decide(
        self, context: TurnContext, request: Request, events: list[str]
    ) -> Generator[Need, Any, Decision]:
        """Have the agent decide; it is sent no reply that failed, and dialogues that it leaves are retired.

        events: gets those of engine and verifiers as they come. RenderAgentError where a reply failed.
        """
        kept = self.agent.dialogues(request.question_id)
        steps = self.agent.decide(self.tools, context, request)
        served: Any = None
        while True:
            try:
                need = steps.send(served)
            except StopIteration as end:
                decision: Decision = end.value
                return decision
            served = yield need
            if isinstance(need, Draw):
                continue
            events += (event for part in served for event in part.events)
            if isinstance(need, Ask):
                served = [*map(within_bounds, served, need.requests)]
                names = [request.question_id for request in need.requests]
                self._retire([name for name in names if name not in kept])
                if faults := [reply.error for reply in served if reply.error is not None]:
                    raise RenderAgentError(faults[0])

    def _fail(
        self, state: QuestionState, phase: Phase, error: RenderAgentError, events: Sequence[str]
    ) -> None:
        """Write down the error that stopped one question; the others go on."""
        sentence = without_keys(str(error))
        logger.error("question %s failed: %s", state.id, sentence, exc_info=error)
        of_scene = isinstance(error, SceneError | RenderError)
        state.fail(sentence, events)
        self.log.append_error(
            Failed(state.id, len(state.turns), phase, sentence, tuple(events), of_scene=of_scene)
        )
        self.observer.failed(state)
        self.failures.failed(state.question, sentence, of_scene=of_scene)

    def _retire(self, dialogues: Iterable[str]) -> None:
        for dialogue in dialogues:
            with engine_faults(self.engine):
                self.engine.retire(dialogue)

    @contextmanager
    def _scheduler(self, states: Sequence[QuestionState]) -> Iterator[TurnScheduler]:
        """Give the scheduler of a run; its thread first draws what is gone of retired questions.

        That thread closes what it used at the end. Where the run is stopped, it begins nothing more.
        """
        asking = [verifier for verifier in self.tools.verifiers if verifier.asks_model]
        scheduler = TurnScheduler(self.engine, asking, settle=self.log.sync)
        retired = [state for state in states if not state.active]
        restored = [scheduler.draw(partial(self._restore, state)) for state in retired]
        try:
            yield scheduler
        except BaseException:  # a time limit gives seconds: no view is waited for
            for future in restored:
                future.cancel()
            self.views.stop()
            raise
        finally:
            for verifier in self.tools.verifiers:
                scheduler.draw(verifier.close)
            scheduler.draw(self.views.close)
            scheduler.close()

    def _restore(self, state: QuestionState) -> None:
        """Draw again what is gone of a question that is done; its report needs it, the run does not."""
        try:
            self.views.restore(state)
        except RenderAgentError as error:
            logger.warning("question %s lacks a picture: %s", state.id, error)


class TurnLog(Protocol):
    """Where the controller writes turns down: a run folder, or the way to the process that has one."""

    pictures: Pictures

    def append(self, question_id: str, turn: Turn) -> None:
        """Append one turn; it exists from now on."""
        ...

    def append_error(self, failed: Failed) -> None:
        """Append the error that stopped a question."""
        ...

    def sync(self) -> None:
        """Wait until what was appended also survives the machine's death."""
        ...
