"""The agent that asks a question in several wordings and follows the wording with the best moves.

Replies depend on the wording of the question. The candidates of one wording form a group. The group with the highest
mean score wins, and its best move is made. The dialogues of all wordings receive the same feedback, so they differ
only in the question text.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from render_agent.agents.agent import SEPARATOR, Ask, Need, Tools, TurnRequests, turn_seed
from render_agent.agents.lookahead import Lookahead
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.chat import message, text
from render_agent.dialogue.events import FEWER_WORDINGS
from render_agent.dialogue.parsing.replies import strip_fence
from render_agent.dialogue.reply import object_schema
from render_agent.dialogue.turn import Candidate
from render_agent.engines.engine import Request
from render_agent.util.safe_parse import parse_json

logger = logging.getLogger(__name__)

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")


@dataclass(frozen=True)
class Rephrase(Lookahead):
    """Asks the question in several wordings, and makes the best move of the best-scoring wording.

    The model is asked for the wordings only once. Unreadable wordings are dropped.
    """

    form = "rephrase:RxK"

    def ask(
        self, tools: Tools, context: TurnContext, request: Request
    ) -> Generator[Need, Any, TurnRequests]:
        """Return one request per wording: the same dialogue with a different question text."""
        state, question = context.state, context.state.question.text
        evidence = state.turns[0].evidence if state.turns else None
        if state.turns or self.wordings == 1:
            wordings = (evidence and evidence.wordings) or (question,)
            return TurnRequests(self._wording_requests(tools, context, request, wordings))
        (reply,) = yield Ask((self._rephrase_request(tools, request, state.id, question),))
        wordings = (question, *read_wordings(reply.text, question, self.wordings - 1))
        has_fewer = len(wordings) < self.wordings
        if has_fewer:
            logger.warning(
                "question %s: %d wordings instead of %d",
                *(state.id, len(wordings), self.wordings),
            )
        requests = self._wording_requests(tools, context, request, wordings)
        return TurnRequests(requests, wordings, (FEWER_WORDINGS,) if has_fewer else ())

    def pick_best(self, candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
        """Return the candidate with the highest score in the wording with the highest mean; values: (K,)."""
        return best_of_best_group(candidates, values)

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the dialogue id of each wording; the first is that of the question itself."""
        return tuple(_wording_id(question_id, group) for group in range(self.wordings))

    def _rephrase_request(
        self, tools: Tools, request: Request, question_id: str, question: str
    ) -> Request:
        """Return the request for the additional wordings, in a side dialogue."""
        name, count = f"{question_id}{SEPARATOR}wordings", self.wordings - 1
        instruction = tools.prompt.wording("rephrase.request", count=count, question=question)
        return replace(
            request,
            dialogue_id=name,
            question_id=question_id,
            messages=[message("user", text(instruction))],
            views=(),
            is_last_turn=False,
            temperature=0.0,
            seed=turn_seed(tools.seed, name, request.turn),
            schema=None if request.schema is None else wordings_schema(count),
        )

    def _wording_requests(
        self, tools: Tools, context: TurnContext, request: Request, wordings: Sequence[str]
    ) -> tuple[Request, ...]:
        """Return one request per wording; the dialogues differ only in the question text."""
        state, observation = context.state, context.observation
        first_turn = state.turns[0] if state.turns else None
        views, camera = (
            (first_turn.views, first_turn.camera_before)
            if first_turn
            else (observation.views, observation.camera)
        )
        requests = [replace(request, num_samples=self.samples)]
        for group, wording in enumerate(wordings[1:], start=1):
            name = _wording_id(state.id, group)
            opening = tools.prompt.opening(replace(state.question, text=wording), views, camera)
            requests.append(
                replace(
                    requests[0],
                    dialogue_id=name,
                    question_id=state.id,
                    messages=[*opening, *request.messages[len(opening) :]],
                    seed=turn_seed(tools.seed, name, request.turn),
                )
            )
        return tuple(requests)


def best_of_best_group(
    candidates: Sequence[Candidate],
    values: FloatArray,  # their scores, (K,)
) -> Candidate:
    """Return the best candidate of the group with the highest mean score; the first group wins a tie."""
    groups: dict[int, list[int]] = {}
    for index, candidate in enumerate(candidates):
        groups.setdefault(candidate.group, []).append(index)
    winner = max(groups, key=lambda group: (float(values[groups[group]].mean()), -group))
    return candidates[max(groups[winner], key=lambda index: (float(values[index]), -index))]


def wordings_schema(count: int) -> Mapping[str, Any]:
    """Return the JSON schema of a reply with `count` wordings."""
    texts = {"type": "array", "items": {"type": "string"}, "minItems": count, "maxItems": count}
    return object_schema({"wordings": texts})


def read_wordings(reply: str, question: str, count: int) -> tuple[str, ...]:
    """Parse at most `count` wordings from a reply; return an empty tuple if the reply is unreadable.

    Duplicates and wordings whose numbers differ from those in the question are dropped.
    """
    try:
        wordings = parse_json(strip_fence(reply))["wordings"]
    except (ValueError, TypeError, KeyError):
        return ()
    wordings_by_key = {_normalise(question): question}
    for wording in wordings if isinstance(wordings, list) else ():
        if (
            isinstance(wording, str)
            and _normalise(wording)
            and _numbers(wording) == _numbers(question)
        ):
            wordings_by_key.setdefault(_normalise(wording), wording.strip())
    return tuple(wordings_by_key.values())[1 : count + 1]


def _wording_id(question_id: str, group: int) -> str:
    """Return the dialogue id of a wording; wording 0 uses the id of the question."""
    return f"{question_id}{SEPARATOR}wording {group}" if group else question_id


def _normalise(wording: str) -> str:
    return " ".join(wording.lower().split())


def _numbers(wording: str) -> Counter[str]:
    return Counter(_NUMBER.findall(wording))
