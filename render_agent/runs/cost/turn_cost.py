"""The cost of a turn: events, tokens and seconds of its replies and verdicts."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from render_agent.agents.verifiers.verifier import Verdict
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import Evidence, Seconds
from render_agent.engines.engine import Reply


@dataclass
class TurnCost:
    """The replies and verdicts of one turn, in order of arrival."""

    parts: list[Reply | Verdict] = field(default_factory=list)

    def add(self, results: Iterable[object]) -> None:
        """Add replies and verdicts. Other objects cost nothing and are ignored."""
        self.parts += (part for part in results if isinstance(part, Reply | Verdict))

    @property
    def events(self) -> tuple[str, ...]:
        """Engine faults that the turn recovered from, by kind."""
        return tuple(event for part in self.parts for event in part.events)

    @property
    def tokens(self) -> Tokens:
        return Tokens.total(part.tokens for part in self.parts)

    def seconds(self, rendering: float, elapsed: float, first_reply: Reply) -> Seconds:
        """Return the time of a turn by activity, rounded so that a run read from disk has the same totals."""
        share = sum(p.seconds / (p.batch_size if isinstance(p, Reply) else 1) for p in self.parts)
        return Seconds(
            round(rendering, 4),
            round(max(0.0, elapsed - first_reply.seconds), 4),
            round(share * first_reply.batch_size, 4),
            ended_at=round(time.time(), 3),
        )

    def added_to(self, evidence: Evidence, first_reply: Reply) -> Evidence:
        """Return evidence with the tokens of the verifiers, and the model calls in addition to that of `first_reply`."""
        verdicts = [part for part in self.parts if isinstance(part, Verdict)]
        calls = sum(1 / part.batch_size for part in self.parts if isinstance(part, Reply))
        calls += sum(verdict.calls for verdict in verdicts) - 1 / first_reply.batch_size
        tokens = Tokens.total(verdict.tokens for verdict in verdicts)
        return replace(evidence, tokens=tokens, calls=calls)
