"""The limit on the cost of a run (`--max-cost`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.engines.prices import Price, find_price
from render_agent.errors import RenderAgentError, RunStoppedError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.log.cost import UNPRICED, Billing
from render_agent.runs.turn_cost import TurnCost
from render_agent.util.display import count_noun


class OverBudgetError(RenderAgentError):
    """A turn was not taken because the run has reached its limit; its question stays active."""


class Budget:
    """Adds up the cost of turns, and refuses further ones before the total exceeds a limit.

    A turn is refused if the cost so far, and the mean cost of a turn for it and for those in flight, exceed the limit.
    The first turns in flight are admitted without a mean. Turns without reported tokens count as mean ones.

    Args:
        billing: Gives the cost of turns.
        limit: In USD, over all parts of the run; None for no limit.
        states: The questions with the turns that were taken before.
    """

    def __init__(
        self,
        billing: Billing = UNPRICED,
        limit: float | None = None,
        states: Sequence[QuestionState] = (),
    ) -> None:
        self._billing = billing
        self._limit = inf if limit is None else limit
        turns = [turn for state in states for turn in state.turns]
        self._reported = sum(turn.tokens.are_reported for turn in turns)
        self._unreported = len(turns) - self._reported
        self._known = billing.total(states) or 0.0
        self._in_flight: set[str] = set()
        self.exhausted = False

    @property
    def _mean(self) -> float:
        return self._known / self._reported if self._reported else 0.0

    @property
    def spent(self) -> float:
        """The cost so far in USD."""
        return self._known + self._unreported * self._mean

    def admit(self, question_id: str) -> None:
        """Admit the first request of a turn. Raises OverBudgetError if the limit is reached, from then on always."""
        expected = self.spent + (len(self._in_flight) + 1) * self._mean
        if self.spent >= self._limit or expected > self._limit or self._is_blind:
            self.exhausted = True
        if self.exhausted:
            raise OverBudgetError("the run has reached --max-cost")
        self._in_flight.add(question_id)

    def settle(self, question_id: str, turn: Turn | None, cost: TurnCost) -> None:
        """Add the cost of a turn that was admitted.

        Args:
            question_id: Its question.
            turn: The turn; None if it failed.
            cost: Its replies and verdicts.
        """
        if question_id not in self._in_flight:
            return
        self._in_flight.remove(question_id)
        billing = self._billing
        is_reported = cost.tokens.are_reported
        self._reported += is_reported
        self._unreported += turn is not None and not is_reported
        self._known += billing.cost_of_turn(turn) if turn else billing.cost_of_tokens(cost.tokens)

    @property
    def _is_blind(self) -> bool:
        """True if no limit can be kept, because the server reports no tokens."""
        return self._limit < inf and self._unreported > 0 and not self._reported

    def check(self, states: Sequence[QuestionState]) -> None:
        """Raise RunStoppedError if questions are unfinished because of the limit."""
        active = sum(state.active for state in states)
        if not (self.exhausted and active):
            return
        unfinished = f"{active} of {count_noun(len(states), 'question')} unfinished"
        if self._is_blind:
            raise RunStoppedError(
                f"stopped with {unfinished}: the server reports no tokens, so its cost cannot be limited. Start a new run"
                " without --max-cost."
            )
        raise RunStoppedError(
            f"stopped at --max-cost {self._limit:g} with {unfinished}: the run has cost ${self.spent:.2f}. To continue,"
            " resume with --continue and a higher --max-cost."
        )


def price_of(config: RunConfig, engine: Mapping[str, Any]) -> Price | None:
    """Return the price of a run's model, or None if it is unknown.

    Args:
        config: The options of the run.
        engine: Metadata of the engine.

    Raises:
        UsageError: The table of prices is invalid, or there is no price for `--max-cost`.
    """
    price = find_price(str(engine.get("model")), config.prices)
    check_max_cost(config, price, engine.get("model"))
    return price


def check_max_cost(config: RunConfig, price: Price | None, model: str | None) -> None:
    """Raise UsageError if `--max-cost` is set but the price of the model is unknown."""
    if config.max_cost is not None and price is None:
        raise UsageError(
            f"--max-cost needs the price of {model}, which is not in the table of prices. Pass --prices FILE."
        )
