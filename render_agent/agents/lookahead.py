"""The agents that choose among moves: by verifiers, or by showing the model where all of them lead.

Whether a question is answered now is said by its first reply that can be read, as it would be alone;
verifiers score where a move leads, not answers. So an agent whose verifier is random explores as `single`
does, and a difference between two verifiers is one of moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from msgspec import structs

from render_agent.agents.agent import Agent, Ask, Decision, Steps
from render_agent.agents.candidates import (
    AgentTools,
    decision,
    default_candidate,
    read_candidates,
    with_candidates,
)
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.engines.engine import Reply, Request
from render_agent.views.free_views import unmade_views


@dataclass(frozen=True)
class Best(Agent):
    """Of several moves the one that verifiers score best, unseen."""

    form = "best:K"
    verifiers: ClassVar[Sequence[str] | None] = ()

    def decide(self, tools: AgentTools, context: TurnContext, request: Request) -> Steps:
        """Ask for the candidates, draw and score them where the agent does, and take one."""
        replies: list[Reply] = yield Ask((replace(request, samples=self.samples),))
        candidates = read_candidates(context, replies, tools.prompt)
        alone = default_candidate(context, candidates)
        evidence = Evidence(self.text, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if context.last or not alone.goes_on or len(moving) < 2:
            return decision(alone, replies, evidence)
        if self.draws:
            moving = yield tools.preview(context, moving)
        if self.shows_all:
            return _all_shown(tools, context, replies, with_candidates(evidence, moving))
        return (yield from tools.choose(context, replies, evidence, moving, _best))


@dataclass(frozen=True)
class Lookahead(Best):
    """Of several moves that are made and drawn first the one that verifiers score best."""

    form = "lookahead:K"
    verifiers: ClassVar[Sequence[str] | None] = ("geometry",)
    draws = True


@dataclass(frozen=True)
class Show(Best):
    """Several moves, of which the first is made, and the model is shown where all of them lead."""

    form = "show:K"
    verifiers: ClassVar[Sequence[str] | None] = None
    draws = True
    shows_all = True


def _best(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the candidate with the highest score, the first of several."""
    return candidates[int(values.argmax())]


def _all_shown(
    tools: AgentTools, context: TurnContext, replies: Sequence[Reply], evidence: Evidence
) -> Decision:
    """Return the decision for the chosen move; where the views of the other moves come next, its feedback says so."""
    chosen = evidence.candidates[evidence.chosen]
    if unmade_views(evidence, context.views):
        note = tools.prompt.wording("turn.other_moves")
        chosen = structs.replace(chosen, feedback=f"{chosen.feedback} {note}")
    return decision(chosen, replies, evidence)
