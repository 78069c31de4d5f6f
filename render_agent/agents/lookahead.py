"""Agents that choose among moves: by verifiers, or by showing the model where all of them lead.

The first readable reply decides whether the question is answered now, as it would without a choice; verifiers score
where moves lead, not answers. So with the random verifier an agent explores as `single` does, and a difference between
two verifiers is a difference of moves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from render_agent.agents.agent import Agent, Need, Tools
from render_agent.agents.candidates import choose_best, default_candidate, preview, with_candidates
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.evidence import Candidate, Evidence


@dataclass(frozen=True)
class Best(Agent):
    """Takes the move that verifiers score best, without drawing it."""

    form = "best:K"
    verifiers: ClassVar[Sequence[str] | None] = ()

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence]:
        """Draw the candidates if the agent does, have them scored, and take the best."""
        alone = default_candidate(context, candidates)
        evidence = Evidence(self.text, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if context.last or not alone.goes_on or len(moving) < 2:
            return evidence
        if self.draws:
            moving = yield preview(tools, context, moving)
        if self.shows_all:
            return with_candidates(evidence, moving)
        return (yield from choose_best(tools, context, evidence, moving, _best))


@dataclass(frozen=True)
class Lookahead(Best):
    """Takes the move that verifiers score best after all moves were made and drawn."""

    form = "lookahead:K"
    verifiers: ClassVar[Sequence[str] | None] = ("geometry",)
    draws = True


@dataclass(frozen=True)
class Show(Best):
    """Makes the first move, and shows the model where all moves lead."""

    form = "show:K"
    verifiers: ClassVar[Sequence[str] | None] = None
    draws = True
    shows_all = True


def _best(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the candidate with the highest score, the first of equals."""
    return candidates[int(values.argmax())]
