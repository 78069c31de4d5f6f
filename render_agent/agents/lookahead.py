"""The agents that choose among moves: by verifiers, or by showing the model where all of them lead.

Whether a question is answered now is said by its first reply that can be read, as it would be alone;
verifiers score where a move leads, not answers. So an agent whose verifier is random explores as `single`
does, and a difference between two verifiers is one of moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from render_agent.agents.base import Ask, Decision, Steps
from render_agent.agents.candidates import default_candidate, read_candidates
from render_agent.agents.rerank import Reranker, decision, with_candidates
from render_agent.agents.seeds import dialogue_id, turn_seed
from render_agent.agents.verifiers.base import FloatArray, Situation
from render_agent.config.agent_plan import AgentPlan
from render_agent.dialogue.chat import assistant
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.state import Candidate, Evidence
from render_agent.engines.base import Reply, Request
from render_agent.observation.preview import unmade

SHOWN_ALL = "You are shown, too, where your other moves would have led; your camera is not there."


@dataclass(frozen=True)
class Lookahead:
    """Chooses the move of every turn among those of several replies.

    name: as `--agent` has it. seed: of the run.
    """

    name: str
    plan: AgentPlan
    reranker: Reranker
    prompt: Prompt
    seed: int

    def decide(self, situation: Situation, request: Request) -> Steps:
        """Ask for the candidates, draw and score them as the plan has it, and take one."""
        replies: list[Reply] = yield Ask((replace(request, samples=self.plan.samples),))
        candidates = read_candidates(situation, replies, self.prompt.on_request)
        alone = default_candidate(situation, candidates)
        evidence = Evidence(self.name, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if situation.last or not alone.goes_on or len(moving) < 2:
            return decision(alone, replies, evidence)
        if self.plan.renders:
            moving = yield self.reranker.preview(situation, moving)
        if self.plan.shows_all:
            return _all_shown(situation, replies, with_candidates(evidence, moving))
        if self.plan.depth > 1 and situation.turn + 2 < situation.state.max_turns:
            further: list[Reply] = yield Ask(self._further(situation, request, moving))
            second = self._second(situation, further, moving, len(candidates))
            moving = yield self.reranker.preview(situation, [*moving, *second])
            replies = [*replies, *further]
        return (yield from self.reranker.choose(situation, replies, evidence, moving, _best))

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the one dialogue."""
        return (question_id,)

    def _further(
        self, situation: Situation, request: Request, candidates: Sequence[Candidate]
    ) -> tuple[Request, ...]:
        """Return what is asked once each candidate was carried out, in a dialogue of its own."""
        turn = situation.turn + 1
        asked = []
        for candidate in candidates:
            assert candidate.view is not None, "it was drawn"
            name = dialogue_id(request.question_id, turn, candidate.number)
            views = (candidate.view,)
            messages = self.prompt.following(turn, candidate.happened, views, candidate.camera)
            asked.append(
                replace(
                    request,
                    question_id=name,
                    about=situation.state.id,
                    turn=turn,
                    messages=[*request.messages, assistant(candidate.reply), *messages],
                    views=(*request.views, *views),
                    seed=turn_seed(self.seed, name, turn),
                    samples=1,
                )
            )
        return tuple(asked)

    def _second(
        self,
        situation: Situation,
        replies: Sequence[Reply],
        parents: Sequence[Candidate],
        first: int,
    ) -> list[Candidate]:
        """Return the second moves, numbered from `first`; those that end or cannot be read lead nowhere."""
        found: list[Candidate] = []
        for parent, reply in zip(parents, replies, strict=True):
            assert parent.view is not None, "it was drawn"
            now = situation.look
            now = replace(now, camera=parent.camera, views=(*now.views, parent.view))
            there = replace(situation, look=now)
            (move,) = read_candidates(there, [reply], self.prompt.on_request)
            number = first + len(found)
            if move.goes_on:
                group = parent.group
                found.append(replace(move, number=number, group=group, follows=parent.number))
        return found


def _best(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the move of this turn that leads to the highest score, at once or with the move after it."""
    leads = {candidate.number: candidate for candidate in candidates if candidate.follows is None}
    highest = dict.fromkeys(leads, -float("inf"))
    for candidate, value in zip(candidates, values, strict=True):
        first = candidate.number if candidate.follows is None else candidate.follows
        highest[first] = max(highest[first], float(value))
    return leads[max(highest, key=lambda number: (highest[number], -number))]


def _all_shown(situation: Situation, replies: Sequence[Reply], evidence: Evidence) -> Decision:
    """Return a turn whose first move is made, and after which the model sees where all of them lead."""
    chosen = next(c for c in evidence.candidates if c.number == evidence.chosen)
    if unmade(evidence, situation.views):
        chosen = replace(chosen, happened=f"{chosen.happened} {SHOWN_ALL}")
    return decision(chosen, replies, evidence)
