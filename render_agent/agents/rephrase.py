"""The agent that asks a question in several wordings, and trusts the wording whose moves are better.

A reply depends on how it was asked for. Candidates that answer one wording are a group: the best group is
the one whose moves score higher on the average, and its highest move is made. What is made is told in the
dialogues of all wordings, so that they differ in the question's text alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from render_agent.agents import rewording
from render_agent.agents.base import Agent, Ask, Steps, rewording_id, turn_seed, wording_id
from render_agent.agents.candidates import Reranker, decision, default_candidate, read_candidates
from render_agent.agents.verifiers.base import FloatArray, TurnContext
from render_agent.config import RunConfig
from render_agent.config.agent_plan import AgentPlan, VerifierPlan
from render_agent.dialogue.prompt import Prompt
from render_agent.dialogue.state import Candidate, Evidence
from render_agent.engines.base import Reply, Request

logger = logging.getLogger(__name__)

GROUPS_BY_SAMPLES = re.compile(r"([0-9]{1,4})[x×]([0-9]{1,4})")

FEWER_WORDINGS = "fewer_wordings"
"""The event of a question that is asked in fewer wordings than it should be."""


class RephrasePlan(AgentPlan):
    """Several wordings of the question, and the best move of the wording whose moves are better."""

    kind = "rephrase"
    form = "rephrase:RxK"
    verified = True
    renders = True

    @classmethod
    def parse(cls, argument: str | None) -> Self:
        """Return the plan of so many wordings and replies to each."""
        match = GROUPS_BY_SAMPLES.fullmatch(argument or "")
        if not match or not int(match[1]) or not int(match[2]):
            raise ValueError(argument)
        return cls(int(match[2]), int(match[1]))

    def draws(self, verifiers: Sequence[VerifierPlan]) -> bool:
        """Whether a verifier looks at what its candidates would show."""
        return any(verifier.looks for verifier in verifiers)

    def build(self, config: RunConfig, prompt: Prompt, reranker: Reranker) -> Rephrase:
        """Return the agent that asks in several wordings."""
        draws = self.draws(config.verifiers)
        return Rephrase(config.agent, self, reranker, prompt, config.seed, draws)


@dataclass(frozen=True)
class Rephrase(Agent):
    """Chooses the move of every turn among replies to several wordings of the question.

    VSI-Bench's questions are reworded by rule; for any other the engine is asked once, and what cannot be
    read is a wording less. name: as `--agent` has it. draws: whether a verifier looks at what moves lead
    to. seed: of the run.
    """

    name: str
    plan: AgentPlan
    reranker: Reranker
    prompt: Prompt
    seed: int
    draws: bool

    def decide(self, context: TurnContext, request: Request) -> Steps:
        """Ask for the candidates of every wording, score them together, and take one."""
        wordings, before = yield from self._wordings(context, request)
        groups = self._groups(context, request, wordings)
        replies: list[Reply] = yield Ask(groups)
        candidates = read_candidates(context, replies, self.prompt.on_request)
        alone = default_candidate(context, candidates)
        first = () if context.state.turns else wordings
        evidence = Evidence(self.name, tuple(candidates), alone.number, wordings=first)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        replies = [*replies, *before]
        if context.last or not alone.goes_on or len(moving) < 2:
            return decision(alone, replies, evidence)
        if self.draws:
            moving = yield self.reranker.preview(context, moving)
        choosing = self.reranker.choose(context, replies, evidence, moving, best_of_best_group)
        return (yield from choosing)

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the dialogue of every wording; the first is the question's own."""
        return tuple(wording_id(question_id, group) for group in range(self.plan.groups))

    def _wordings(
        self, context: TurnContext, request: Request
    ) -> Generator[Ask, Any, tuple[tuple[str, ...], list[Reply]]]:
        """Return the wordings, the question's own first, and the replies that they took."""
        state, groups = context.state, self.plan.groups
        if state.turns:
            known = state.turns[0].evidence
            return known.wordings if known and known.wordings else (state.question.text,), []
        question, replies = state.question.text, list[Reply]()
        wordings = rewording.reword_by_rule(question)
        if wordings is None and groups > 1:
            replies = yield Ask((self._request(request, state.id, groups - 1, question),))
            reworded = rewording.read_wordings(replies[0].text, question, groups - 1)
            wordings = (question, *reworded)
        wordings = (wordings or (question,))[:groups]
        if len(wordings) < groups:
            message = "question %s is asked in %d wordings, not in %d"
            logger.warning(message, state.id, len(wordings), groups)
            replies = [replace(reply, events=(*reply.events, FEWER_WORDINGS)) for reply in replies]
        return wordings, replies

    def _request(self, request: Request, question_id: str, count: int, question: str) -> Request:
        """Return the request for so many wordings, in a dialogue of its own."""
        name = rewording_id(question_id)
        return replace(
            request,
            question_id=name,
            about=question_id,
            messages=rewording.rewording_messages(question, count),
            views=(),
            last=False,
            temperature=0.0,
            seed=turn_seed(self.seed, name, request.turn),
            schema=None if request.schema is None else rewording.rewording_schema(count),
        )

    def _groups(
        self, context: TurnContext, request: Request, wordings: Sequence[str]
    ) -> tuple[Request, ...]:
        """Return a request for every wording: the same dialogue, but for the question's text."""
        state, look = context.state, context.observation
        began = state.turns[0] if state.turns else None
        views, stood = (began.views, began.stood) if began else (look.views, look.camera)
        requests = [replace(request, samples=self.plan.samples)]
        for group, wording in enumerate(wordings[1:], start=1):
            name = wording_id(state.id, group)
            opening = self.prompt.opening(replace(state.question, text=wording), views, stood)
            requests.append(
                replace(
                    requests[0],
                    question_id=name,
                    about=state.id,
                    messages=[*opening, *request.messages[len(opening) :]],
                    seed=turn_seed(self.seed, name, request.turn),
                )
            )
        return tuple(requests)


def best_of_best_group(candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
    """Return the highest candidate of the group with the highest mean; the first of those as high.

    values: a score a candidate, (K,). A group counts with those of its candidates that are here.
    """
    groups: dict[int, list[int]] = {}
    for index, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(index)
    best = max(groups, key=lambda group: (float(values[groups[group]].mean()), -group))
    return candidates[max(groups[best], key=lambda index: (float(values[index]), -index))]
