"""The phase controller: batched turns over all questions, then each question independently."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from render_agent.agents.agent import Barrier
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, Phase, Turn
from render_agent.engines.engine import Engine, Request
from render_agent.errors import (
    EngineError,
    RenderAgentError,
    RenderError,
    RunLogError,
    RunStoppedError,
    SceneError,
)
from render_agent.options import AUTO
from render_agent.runs.cost.budget import Budget, OverBudgetError
from render_agent.runs.cost.turn_cost import TurnCost
from render_agent.runs.scheduler import TurnCoroutine, TurnScheduler, step_fault
from render_agent.runs.turn import TurnTaker
from render_agent.util.sanitize import redact_keys

logger = logging.getLogger(__name__)


class Observer(Protocol):
    """Receives the events of a run; subclasses override the methods they need."""

    def on_phase_start(self, phase: Phase, states: Sequence[QuestionState]) -> None:
        """Called at the start of a phase, and of each batched turn, with the questions concerned."""
        return

    def on_turn(self, state: QuestionState, turn: Turn) -> None:
        """Called after a question completes a turn."""
        return

    def on_failure(self, state: QuestionState) -> None:
        """Called after a question fails."""
        return


class NullObserver(Observer):
    """Observer that ignores all events; errors still reach the log."""


# Consecutive failures that stop a run, because an error in every question has a common cause.
MAX_CONSECUTIVE = 5


class Failures:
    """Counts failed questions and stops the run after `--max-failures`; auto stops after MAX_CONSECUTIVE without a turn
    between.
    """

    def __init__(self, limit: str, questions: Sequence[Question]) -> None:
        self._limit = None if limit == AUTO else allowed_failures(limit, len(questions))
        self._scenes = len({question.scene for question in questions})
        self._failed = 0
        self._consecutive: list[Question] = []

    def add(
        self,
        question: Question,
        reason: str,
        *,
        of_scene: bool = False,
        cause: Exception | None = None,
    ) -> None:
        """Count a failure. Raises RunStoppedError."""
        self._failed += 1
        self._consecutive.append(question)
        if self._limit is not None:
            stops, count = self._failed > self._limit, f"stopped after {self._failed} failures"
        else:
            scenes = len({name.scene for name in self._consecutive})
            stops = len(self._consecutive) >= MAX_CONSECUTIVE
            stops = stops and not (of_scene and scenes < min(MAX_CONSECUTIVE, self._scenes))
            count = f"stopped after {len(self._consecutive)} consecutive failures"
        if stops:
            raise RunStoppedError(
                f"{count}. Last error: {reason}. Fix the cause and resume with --continue, or allow more failures with"
                " --max-failures."
            ) from cause

    def reset(self) -> None:
        """Record that a question completed a turn."""
        self._consecutive.clear()


def allowed_failures(limit: str, questions: int) -> int:
    """Return the allowed number of failures; `limit` is a number, or a percentage of `questions` such as 10%."""
    if limit.endswith("%"):
        return int(float(limit[:-1]) / 100 * questions)
    return int(limit)


@dataclass(eq=False)
class PhaseController:
    """Runs questions to completion: decides which question takes its next turn, and handles failures."""

    turns: TurnTaker
    observer: Observer
    failures: Failures  # stops the run if too many questions fail
    max_batched_turns: int  # number of turns that all questions take together
    finish_together: int | None
    """Number of questions in progress at once afterwards; 1 is sequential, None uses the engine's preferred
    batch size. Neither number affects transcripts.
    """
    budget: Budget = field(default_factory=Budget)  # stops the run before it costs too much
    batched_engine: Engine | None = None
    """Answers the batched turns instead of the engine of `turns`."""

    def run(self, states: Iterable[QuestionState]) -> None:
        """Run all active questions to completion. In a resumed run, questions already have the turns read from the log."""
        states = sorted(
            states, key=lambda state: state.question.scene
        )  # so that each scan is read once
        with self._scheduler(states) as scheduler:
            scheduler.engine = self.batched_engine or self.turns.engine
            coroutines = {state.id: self.take_all(state) for state in states}
            while early := [
                s for s in self._pending(states) if len(s.turns) < self.max_batched_turns
            ]:
                self.observer.on_phase_start("batched", early)
                scheduler.run([coroutines[s.id] for s in early], max_concurrent=len(early))
            scheduler.engine = self.turns.engine
            if late := self._pending(states):
                self.observer.on_phase_start("finishing", late)
                scheduler.run([coroutines[s.id] for s in late], self.finish_together)
            self.turns.log.sync()
        self.budget.check(states)

    def _pending(self, states: Sequence[QuestionState]) -> list[QuestionState]:
        """Return the questions that take further turns; none if the run has reached its cost limit."""
        return [] if self.budget.exhausted else [state for state in states if state.active]

    def take_all(self, state: QuestionState) -> TurnCoroutine:
        """Take all remaining turns of a question, with a barrier after each batched turn."""
        while self._pending([state]):
            if len(state.turns) >= self.max_batched_turns:
                yield from self.turn(state, "finishing")
            else:
                yield from self.turn(state, "batched")
                if self._pending([state]):
                    yield Barrier()

    def turn(self, state: QuestionState, phase: Phase) -> TurnCoroutine:
        """Take one turn. An error in this question stops only this question."""
        if self.budget.exhausted:
            return
        cost, turn = TurnCost(), None
        try:
            turn = yield from self.turns.take(state, phase, cost, self._admit)
        except (EngineError, RunLogError):
            raise
        except OverBudgetError:
            return
        except RenderAgentError as error:
            self._fail(state, phase, error, cost)
        # Any exception from an agent or a verifier, and a lack of memory, fails only this question.
        except Exception as error:  # noqa: BLE001
            self._fail(state, phase, step_fault(error), cost)
        else:
            self.failures.reset()
            self.observer.on_turn(state, turn)
        finally:
            self.budget.settle(state.id, turn, cost)
        if not state.active:
            self.turns.retire(self.turns.agent.dialogues(state.id))

    def _admit(self, request: Request) -> TurnCoroutine:
        """Wait for the other questions, then admit the first request of a turn. Raises OverBudgetError."""
        yield Barrier(request)
        self.budget.admit(request.question_id)

    def _fail(
        self, state: QuestionState, phase: Phase, error: RenderAgentError, cost: TurnCost
    ) -> None:
        """Log the error that stopped a question; other questions continue."""
        sentence = redact_keys(str(error))
        logger.error("question %s failed: %s", state.id, sentence, exc_info=error)
        of_scene = isinstance(error, SceneError | RenderError)
        state.fail(sentence, cost.events, cost.tokens)
        turn = len(state.turns)
        self.turns.log.append(
            Failure(state.id, turn, phase, sentence, cost.events, cost.tokens, of_scene)
        )
        self.observer.on_failure(state)
        self.failures.add(state.question, sentence, of_scene=of_scene, cause=error)

    @contextmanager
    def _scheduler(self, states: Sequence[QuestionState]) -> Iterator[TurnScheduler]:
        """Yield the scheduler of a run. Its rendering thread first restores images of finished questions.

        On exit, that thread closes verifiers and views. If the run is stopped, pending restorations are cancelled.
        """
        asking = [verifier for verifier in self.turns.tools.verifiers if verifier.uses_model]
        scheduler = TurnScheduler(self.turns.engine, asking, settle=self.turns.log.sync)
        finished = [state for state in states if not state.active]
        restorations = [scheduler.draw(partial(self._restore, state)) for state in finished]
        try:
            yield scheduler
        except BaseException:  # a job time limit leaves only seconds, so do not wait for rendering
            for future in restorations:
                future.cancel()
            scheduler.cancel()
            self.turns.tools.views.stop()
            raise
        finally:
            for verifier in self.turns.tools.verifiers:
                scheduler.draw(verifier.close)
            scheduler.draw(self.turns.tools.views.close)
            scheduler.close()

    def _restore(self, state: QuestionState) -> None:
        """Re-render missing images of a finished question. Only its report needs them."""
        try:
            self.turns.tools.views.restore(state)
        except RenderAgentError as error:
            logger.warning("cannot restore images of question %s: %s", state.id, error)
