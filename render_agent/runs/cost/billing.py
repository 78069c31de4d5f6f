"""The cost of the tokens of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from render_agent.dialogue.events import BATCH_JOB
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Turn
from render_agent.engines.prices import Price

BATCH_RATE = 0.5  # fraction of the price that batch APIs charge
DECIMALS = 6  # of a stored cost in US dollars


@dataclass(frozen=True, slots=True)
class Billing:
    """The price of a run's model, and whether its verifiers ask the same model."""

    price: Price | None = None  # price of the model; None if it is unknown
    includes_verifiers: bool = False
    """True if verifiers use the same model. The tokens of a judge with its own model are free."""

    def cost_of_turn(self, turn: Turn) -> float:
        """Return the cost of a turn and its side replies in USD; 0 without a price."""
        judged = self.cost_of_tokens(turn.evidence.tokens) if turn.evidence else 0.0
        cost = (self.cost_of_tokens(turn.tokens) - judged) * _rate(turn.events)
        for reply in turn.side_replies:
            cost += self.cost_of_tokens(reply.tokens) * _rate(reply.events)
        return cost + judged * self.includes_verifiers

    def cost_of_tokens(self, tokens: Tokens) -> float:
        """Return the cost of tokens in USD; 0 without a price."""
        return 0.0 if self.price is None else self.price.cost(tokens)

    def total(self, states: Iterable[QuestionState]) -> float | None:
        """Return the cost of questions in USD, including turns that failed.

        None if the price is unknown, or if there are turns but the engine reports no tokens.
        """
        states = list(states)
        turns = [turn for state in states for turn in state.turns]
        is_unknown = bool(turns) and not any(turn.tokens.are_reported for turn in turns)
        if self.price is None or is_unknown:
            return None
        lost = sum(self.cost_of_tokens(state.lost_tokens) for state in states)
        return round(sum(map(self.cost_of_turn, turns)) + lost, DECIMALS)


def _rate(events: Sequence[str]) -> float:
    return BATCH_RATE if BATCH_JOB in events else 1.0


UNPRICED = Billing()
