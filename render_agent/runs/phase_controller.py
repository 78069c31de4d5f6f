"""The phase controller: the first turns batched over all questions, then each question at its own pace."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, Phase, Turn
from render_agent.errors import EngineError, RenderAgentError, RenderError, RunLogError, SceneError
from render_agent.runs.failures import Failures
from render_agent.runs.scheduler import TurnCoroutine, TurnScheduler, step_fault
from render_agent.runs.turn import TurnTaker
from render_agent.runs.turn_cost import TurnCost
from render_agent.util.redact import without_keys

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


@dataclass(eq=False)
class PhaseController:
    """Runs questions to their ends: which question takes its next turn when, and what happens if one fails.

    Attributes:
        turns: Takes a turn.
        observer: Is told of every turn and failure.
        failures: Stops the run if too many questions fail.
        max_batched_turns: Number of turns that all questions take together.
        finish_together: Number of questions that finish side by side afterwards; 1 is strictly one after the
            other, None as many as the engine handles best. Neither number changes any dialogue.
    """

    turns: TurnTaker
    observer: Observer
    failures: Failures
    max_batched_turns: int
    finish_together: int | None

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
            self.turns.log.sync()

    def finish(self, state: QuestionState) -> TurnCoroutine:
        """Take all the turns that a question still takes."""
        while state.active:
            yield from self.turn(state, "finishing")

    def turn(self, state: QuestionState, phase: Phase) -> TurnCoroutine:
        """Take one turn; an error of this question ends this question only."""
        cost = TurnCost()
        try:
            turn = yield from self.turns.take(state, phase, cost)
        except (EngineError, RunLogError):
            raise
        except RenderAgentError as error:
            self._fail(state, phase, error, cost)
        # Whatever an agent, a verifier or a shortage of memory raises in a step fails this question alone.
        except Exception as error:  # noqa: BLE001
            self._fail(state, phase, step_fault(error), cost)
        else:
            self.failures.went_on()
            self.observer.took(state, turn)
        if not state.active:
            self.turns.retire(self.turns.agent.dialogues(state.id))

    def _fail(
        self, state: QuestionState, phase: Phase, error: RenderAgentError, cost: TurnCost
    ) -> None:
        """Log the error that stopped one question; the others go on."""
        sentence = without_keys(str(error))
        logger.error("question %s failed: %s", state.id, sentence, exc_info=error)
        of_scene = isinstance(error, SceneError | RenderError)
        state.fail(sentence, cost.events)
        self.turns.log.append(
            Failure(state.id, len(state.turns), phase, sentence, cost.events, of_scene=of_scene)
        )
        self.observer.failed(state)
        self.failures.failed(state.question, sentence, of_scene=of_scene)

    @contextmanager
    def _scheduler(self, states: Sequence[QuestionState]) -> Iterator[TurnScheduler]:
        """Give the scheduler of a run; its thread first draws what is gone of retired questions.

        That thread closes what it used at the end. Where the run is stopped, it begins nothing more.
        """
        asking = [verifier for verifier in self.turns.tools.verifiers if verifier.asks_model]
        scheduler = TurnScheduler(self.turns.engine, asking, settle=self.turns.log.sync)
        retired = [state for state in states if not state.active]
        restored = [scheduler.draw(partial(self._restore, state)) for state in retired]
        try:
            yield scheduler
        except BaseException:  # a time limit gives seconds: no view is waited for
            for future in restored:
                future.cancel()
            self.turns.tools.views.stop()
            raise
        finally:
            for verifier in self.turns.tools.verifiers:
                scheduler.draw(verifier.close)
            scheduler.draw(self.turns.tools.views.close)
            scheduler.close()

    def _restore(self, state: QuestionState) -> None:
        """Draw again what is gone of a question that is done; its report needs it, the run does not."""
        try:
            self.turns.tools.views.restore(state)
        except RenderAgentError as error:
            logger.warning("question %s lacks a picture: %s", state.id, error)
