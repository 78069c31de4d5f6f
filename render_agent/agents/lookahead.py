"""The agents that choose among moves: by verifiers, or by showing the model where all of them lead.

Whether a question is answered now is said by its first reply that can be read, as it would be alone;
verifiers score where a move leads, not answers. So an agent whose verifier is random explores as `single`
does, and a difference between two verifiers is one of moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from msgspec import structs

from render_agent.agents.base import Agent, Ask, Decision, Steps, dialogue_id, turn_seed
from render_agent.agents.candidates import (
    Reranker,
    decision,
    default_candidate,
    read_candidates,
    with_candidates,
)
from render_agent.agents.verifiers.base import FloatArray, TurnContext
from render_agent.config import RunConfig
from render_agent.config.agent_plan import AgentPlan, count
from render_agent.dialogue.chat import assistant
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.state import Candidate, Evidence
from render_agent.engines.base import Reply, Request
from render_agent.observation.free_views import unmade_views

SHOWN_ALL = "You are shown, too, where your other moves would have led; your camera is not there."


class ChoosingPlan(AgentPlan):
    """Several replies, of whose moves one is made."""

    def build(self, config: RunConfig, prompt: Prompt, reranker: Reranker) -> Lookahead:
        """Return the agent that chooses among moves."""
        return Lookahead(config.agent, self, reranker, prompt, config.seed)


class BestPlan(ChoosingPlan):
    """Of several moves the one that verifiers score best, unseen."""

    kind = "best"
    form = "best:K"
    verified = True


class LookaheadPlan(ChoosingPlan):
    """Of several moves that are made and drawn first the one that verifiers score best."""

    kind = "lookahead"
    form = "lookahead:K, lookahead:K:2"
    verified = True
    renders = True

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many moves, one or two ahead."""
        samples, colon, depth = (argument or "").partition(":")
        if colon and depth not in ("1", "2"):
            raise ValueError(argument)
        return cls(count(samples), depth=int(depth or 1))


class ShowPlan(ChoosingPlan):
    """Several moves, of which the first is made, and the model is shown where all of them lead."""

    kind = "show"
    form = "show:K"
    renders = True
    shows_all = True


@dataclass(frozen=True)
class Lookahead(Agent):
    """Chooses the move of every turn among those of several replies.

    name: as `--agent` has it. seed: of the run.
    """

    name: str
    plan: AgentPlan
    reranker: Reranker
    prompt: Prompt
    seed: int

    def decide(self, context: TurnContext, request: Request) -> Steps:
        """Ask for the candidates, draw and score them as the plan has it, and take one."""
        replies: list[Reply] = yield Ask((replace(request, samples=self.plan.samples),))
        candidates = read_candidates(context, replies, self.prompt.on_request)
        alone = default_candidate(context, candidates)
        evidence = Evidence(self.name, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if context.last or not alone.goes_on or len(moving) < 2:
            return decision(alone, replies, evidence)
        if self.plan.renders:
            moving = yield self.reranker.preview(context, moving)
        if self.plan.shows_all:
            return _all_shown(context, replies, with_candidates(evidence, moving))
        if self.plan.depth > 1 and context.turn + 2 < context.state.max_turns:
            further: list[Reply] = yield Ask(self._further(context, request, moving))
            second = self._second(context, further, moving, len(candidates))
            moving = yield self.reranker.preview(context, [*moving, *second])
            replies = [*replies, *further]
        return (yield from self.reranker.choose(context, replies, evidence, moving, _best))

    def _further(
        self, context: TurnContext, request: Request, candidates: Sequence[Candidate]
    ) -> tuple[Request, ...]:
        """Return the requests for second moves: one for each candidate that was carried out, in a dialogue of its own."""
        turn = context.turn + 1
        requests = []
        for candidate in candidates:
            assert candidate.view is not None, "it was drawn"
            name = dialogue_id(request.question_id, turn, candidate.number)
            views = (candidate.view,)
            messages = self.prompt.following(turn, candidate.feedback, views, candidate.camera)
            requests.append(
                replace(
                    request,
                    question_id=name,
                    about=context.state.id,
                    turn=turn,
                    messages=[*request.messages, assistant(candidate.reply), *messages],
                    views=(*request.views, *views),
                    seed=turn_seed(self.seed, name, turn),
                    samples=1,
                )
            )
        return tuple(requests)

    def _second(
        self,
        context: TurnContext,
        replies: Sequence[Reply],
        parents: Sequence[Candidate],
        first: int,
    ) -> list[Candidate]:
        """Return the second moves, numbered from `first`; those that end or cannot be read lead nowhere."""
        moves: list[Candidate] = []
        for parent, reply in zip(parents, replies, strict=True):
            assert parent.view is not None, "it was drawn"
            now = context.observation
            now = replace(now, camera=parent.camera, views=(*now.views, parent.view))
            there = replace(context, observation=now)
            (move,) = read_candidates(there, [reply], self.prompt.on_request)
            number = first + len(moves)
            if move.goes_on:
                group = parent.group
                moves.append(
                    structs.replace(move, number=number, group=group, follows=parent.number)
                )
        return moves


def _best(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the move of this turn that leads to the highest score, at once or with the move after it."""
    leads = {candidate.number: candidate for candidate in candidates if candidate.follows is None}
    highest = dict.fromkeys(leads, -float("inf"))
    for candidate, value in zip(candidates, values, strict=True):
        first = candidate.number if candidate.follows is None else candidate.follows
        highest[first] = max(highest[first], float(value))
    return leads[max(highest, key=lambda number: (highest[number], -number))]


def _all_shown(context: TurnContext, replies: Sequence[Reply], evidence: Evidence) -> Decision:
    """Return the decision for the chosen move; where the views of the other moves come next, its feedback says so."""
    chosen = next(c for c in evidence.candidates if c.number == evidence.chosen)
    if unmade_views(evidence, context.views):
        chosen = structs.replace(chosen, feedback=f"{chosen.feedback} {SHOWN_ALL}")
    return decision(chosen, replies, evidence)
