"""The noisy expert: it sometimes gives an unreadable answer, so that a learner sees the feedback and the repair."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence

from render_agent.dialogue.answer import canonical, letters
from render_agent.dialogue.question import Question
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.util.safe_parse import parse_json
from render_agent_lab.expert.policy import Asked, Expert, expert

OFTEN = 0.6
"""How often an answer is none of the options, after one that was not."""


class Stumbler:
    """Replies as the expert does, but some answers are the words of another question's option.

    Only questions with options have such answers, never the last turn of a dialogue, and never two turns
    in a row. The question is still open after one, and the next reply is the expert's again.
    """

    def __init__(self, known: Expert, seed: int) -> None:
        self.expert = known
        self.seed = seed
        self._words = _words_by_type(known.questions.values())

    def reply(self, request: Asked) -> str:
        """Return the expert's reply, its answer perhaps replaced. Errors as the expert has them."""
        text = self.expert.reply(request)
        question = self.expert.questions[request.question_id]
        fields = parse_json(text)
        if not fields["done"] or request.last or not stumbles(question.id, self.seed, request.turn):
            return text
        right, reasoning = fields["answer"], fields["reasoning"]
        other = self._unreadable(question, right, request.turn)
        if other is None:
            return text
        if reasoning.endswith(right):  # what it derives is what it answers
            reasoning = reasoning.removesuffix(right) + other
        return json.dumps({**fields, "reasoning": reasoning, "answer": other})

    def close(self) -> None:
        """Give back what the expert looks with."""
        self.expert.close()

    def _unreadable(self, question: Question, right: str, turn: int) -> str | None:
        """Return an option's words from a like question that name no option here, None without any.

        Of as many parts as the right words have, where there are such: a route of as many turns.
        """
        if question.wanted != "letter":
            return None
        words = [
            word
            for word in self._words[question.type]
            if canonical(word, question.wanted, question.options) is None
        ]
        alike = [word for word in words if word.count(",") == right.count(",")]
        return _chance(question.id, self.seed, turn).choice(alike or words) if words else None


def stumbles(question_id: str, seed: int, turn: int) -> bool:
    """Whether an answer in a turn is none of the options; never twice in a row."""
    if turn < 0 or _chance(question_id, seed, turn).random() >= OFTEN:
        return False
    return not stumbles(question_id, seed, turn - 1)


def stumbler(
    questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
) -> Stumbler:
    """Return the expert that stumbles; config and errors as `expert` has them."""
    return Stumbler(expert(questions, seed, config), seed)


def _words_by_type(questions: Iterable[Question]) -> Mapping[str, list[str]]:
    """Return by type of question the words of all options, each once, in order."""
    words: dict[str, set[str]] = {}
    for question in questions:
        words.setdefault(question.type, set()).update(letters(question.options).values())
    return {type_: sorted(some) for type_, some in words.items()}


def _chance(question_id: str, seed: int, turn: int) -> random.Random:
    return random.Random(f"{question_id} {seed} {turn} stumble")


STUMBLER = NamedPolicy(
    stumbler,
    "answers as expert does, but now and then what is no option: to learn from, no result",
    knows_boxes=True,
)
