"""The limit on the cost of a run (`--max-cost`)."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.engines.prices import Price, find_price
from render_agent.errors import RenderAgentError, RunStoppedError, UsageError
from render_agent.options import RunConfig
from render_agent.runs.cost.billing import UNPRICED, Billing
from render_agent.runs.cost.turn_cost import TurnCost
from render_agent.util.display import count_noun


class OverBudgetError(RenderAgentError):
    """A turn was not taken because the run has reached its limit; its question stays active."""


class Budget:
    """Adds up the cost of turns, and refuses further ones before the total exceeds a limit.

    A turn is refused if the cost so far, and the mean cost of a turn for it and for those in flight, exceed the limit.
    The first turns in flight are admitted without a mean. Turns without reported tokens count as mean ones.
    """

    def __init__(
        self,
        billing: Billing = UNPRICED,
        limit: float | None = None,  # in USD, over all parts of the run; None for no limit
        states: Sequence[QuestionState] = (),
    ) -> None:
        turns = [turn for state in states for turn in state.turns]
        self._num_turns = len(turns)
        self._num_reported = sum(turn.tokens.are_reported for turn in turns)
        self._known = billing.total(states) or 0.0
        self._billing, self._limit = billing, limit
        self._in_flight: set[str] = set()
        self.exhausted = False

    @property
    def _mean(self) -> float:
        return self._known / max(1, self._num_reported)

    @property
    def spent(self) -> float:
        return self._mean * self._num_turns

    @property
    def _is_blind(self) -> bool:
        """True if no limit can be kept, because the server reports no tokens."""
        return self._num_turns > 0 and not self._num_reported

    def admit(self, question_id: str) -> None:
        """Admit the first request of a turn. Once the limit is reached, every call raises OverBudgetError."""
        if self._limit is None:
            return
        expected = self._mean * (self._num_turns + len(self._in_flight) + 1)
        if self.spent >= self._limit or expected > self._limit or self._is_blind:
            self.exhausted = True
        if self.exhausted:
            raise OverBudgetError("the run has reached --max-cost")
        self._in_flight.add(question_id)

    def settle(
        self,
        question_id: str,
        turn: Turn | None,  # the turn; None if it failed
        cost: TurnCost,
    ) -> None:
        """Add the cost of a turn that was admitted."""
        if question_id not in self._in_flight:
            return
        self._in_flight.remove(question_id)
        is_reported = cost.tokens.are_reported
        self._num_turns += is_reported or turn is not None
        self._num_reported += is_reported
        billing = self._billing
        self._known += billing.cost_of_turn(turn) if turn else billing.cost_of_tokens(cost.tokens)

    def check(self, states: Sequence[QuestionState]) -> None:
        """Raise RunStoppedError if questions are unfinished because of the limit."""
        active = sum(state.active for state in states)
        if not (self.exhausted and active):
            return
        outcome = (
            "the server reports no tokens, so its cost cannot be limited. Start a new run without --max-cost."
            if self._is_blind
            else f"the run has cost ${self.spent:.2f}. To continue, resume with --continue and a higher --max-cost."
        )
        raise RunStoppedError(
            f"stopped at --max-cost {self._limit:g} with {active} of {count_noun(len(states), 'question')} unfinished:"
            f" {outcome}"
        )


def price_of(config: RunConfig, model: str | None) -> Price | None:
    """Return the price of a model; None if it is unknown. Raises the same errors as `find_price` and `check_max_cost`."""
    price = find_price(str(model), config.prices)
    check_max_cost(config, price, model)
    return price


def check_max_cost(config: RunConfig, price: Price | None, model: str | None) -> None:
    """Raise UsageError if `--max-cost` is set but the price of the model is unknown."""
    if config.max_cost is not None and price is None:
        raise UsageError(
            f"--max-cost needs the price of {model}, which is not in the table of prices. Pass --prices FILE."
        )
