"""The agent that asks a question in several wordings, and trusts the wording whose moves are better.

A reply depends on how it was asked for. Candidates that answer one wording are a group: the best group is
the one whose moves score higher on the average, and its highest move is made. What is made is told in the
dialogues of all wordings, so that they differ in the question's text alone.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from render_agent.agents.agent import SEPARATOR, Agent, Ask, Need, Tools, TurnRequests, turn_seed
from render_agent.agents.candidates import choose_best, default_candidate, preview
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.chat import message, text
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.json_object import unfenced
from render_agent.dialogue.reply import object_schema
from render_agent.engines.engine import Request
from render_agent.util.safe_parse import parse_json

logger = logging.getLogger(__name__)

FEWER_WORDINGS = "fewer_wordings"
"""The event of a question that is asked in fewer wordings than it should be."""

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Rephrase(Agent):
    """Several wordings of the question, and the best move of the wording whose moves are better.

    The model is asked for the wordings once; what cannot be read is a wording less.
    """

    form = "rephrase:RxK"
    verifiers = ("geometry",)
    draws = True

    def ask(
        self, tools: Tools, context: TurnContext, request: Request
    ) -> Generator[Need, Any, TurnRequests]:
        """Return a request for each wording: the same dialogue with another text of the question."""
        state, question = context.state, context.state.question.text
        first = state.turns[0].evidence if state.turns else None
        if state.turns or self.wordings == 1:
            wordings = (first and first.wordings) or (question,)
            return TurnRequests(self._groups(tools, context, request, wordings))
        (reply,) = yield Ask((self._request(tools, request, state.id, question),))
        wordings = (question, *read_wordings(reply.text, question, self.wordings - 1))
        fewer = len(wordings) < self.wordings
        if fewer:
            logger.warning(
                "question %s is asked in %d wordings, not in %d",
                *(state.id, len(wordings), self.wordings),
            )
        requests = self._groups(tools, context, request, wordings)
        return TurnRequests(requests, wordings, (FEWER_WORDINGS,) if fewer else ())

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence]:
        """Score the candidates of all wordings together, and take one."""
        alone = default_candidate(context, candidates)
        evidence = Evidence(self.text, tuple(candidates), alone.number)
        moving = [candidate for candidate in candidates if candidate.goes_on]
        if context.last or not alone.goes_on or len(moving) < 2:
            return evidence
        moving = yield preview(tools, context, moving)
        return (yield from choose_best(tools, context, evidence, moving, best_of_best_group))

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the dialogue of every wording; the first is the question's own."""
        return tuple(_wording_id(question_id, group) for group in range(self.wordings))

    def _request(self, tools: Tools, request: Request, question_id: str, question: str) -> Request:
        """Return the request for the other wordings, in a dialogue of its own."""
        name, count = f"{question_id}{SEPARATOR}wordings", self.wordings - 1
        words = tools.prompt.wording("rephrase.request", count=count, question=question)
        return replace(
            request,
            question_id=name,
            about=question_id,
            messages=[message("user", text(words))],
            views=(),
            last=False,
            temperature=0.0,
            seed=turn_seed(tools.seed, name, request.turn),
            schema=None if request.schema is None else wordings_schema(count),
        )

    def _groups(
        self, tools: Tools, context: TurnContext, request: Request, wordings: Sequence[str]
    ) -> tuple[Request, ...]:
        """Return a request for every wording: the same dialogue, but for the question's text."""
        state, look = context.state, context.observation
        began = state.turns[0] if state.turns else None
        views, stood = (began.views, began.stood) if began else (look.views, look.camera)
        requests = [replace(request, samples=self.samples)]
        for group, wording in enumerate(wordings[1:], start=1):
            name = _wording_id(state.id, group)
            opening = tools.prompt.opening(replace(state.question, text=wording), views, stood)
            requests.append(
                replace(
                    requests[0],
                    question_id=name,
                    about=state.id,
                    messages=[*opening, *request.messages[len(opening) :]],
                    seed=turn_seed(tools.seed, name, request.turn),
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


def wordings_schema(count: int) -> Mapping[str, Any]:
    """Return the JSON schema of a reply that gives so many wordings."""
    texts = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    return object_schema({"wordings": texts})


def read_wordings(reply: str, question: str, count: int) -> tuple[str, ...]:
    """Return the wordings that a reply gives, `count` at the most; none where it cannot be read.

    Those that are there already are left out, and those that hold other numbers than the question.
    """
    try:
        wordings = parse_json(unfenced(reply))["wordings"]
    except (ValueError, TypeError, KeyError):
        return ()
    distinct = {_normalised(question): question}
    for wording in wordings if isinstance(wordings, list) else ():
        if (
            isinstance(wording, str)
            and _normalised(wording)
            and _numbers(wording) == _numbers(question)
        ):
            distinct.setdefault(_normalised(wording), wording.strip())
    return tuple(distinct.values())[1 : count + 1]


def _wording_id(question_id: str, group: int) -> str:
    """Return the id of the dialogue of a wording, from 0; the first is the question's own."""
    return f"{question_id}{SEPARATOR}wording {group}" if group else question_id


def _normalised(words: str) -> str:
    return " ".join(words.lower().split())


def _numbers(words: str) -> Counter[str]:
    return Counter(_NUMBER.findall(words))
