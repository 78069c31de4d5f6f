"""The noisy expert: sometimes answers with an unreadable option, so that a learner sees the feedback and the repair."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence

from render_agent.dialogue.answer import canonical_answer, options_by_letter
from render_agent.dialogue.question import Question
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.util.safe_parse import parse_json
from render_agent_lab.expert.policy import Expert, ExpertRequest, expert

# Probability of an unreadable answer, unless the previous one was unreadable.
STUMBLE_PROBABILITY = 0.6


class NoisyExpert:
    """Replies like the expert, but sometimes answers with the words of another question's option.

    This affects only multiple-choice questions, never the last turn, and never two turns in a row. After an unreadable
    answer the question stays open, and the next reply is the expert's again.
    """

    def __init__(self, base: Expert, seed: int) -> None:
        self.expert = base
        self.seed = seed
        self._words = _words_by_type(base.questions.values())

    def reply(self, request: ExpertRequest) -> str:
        """Return the expert's reply, possibly with an unreadable answer. Raises the same errors as the expert."""
        text = self.expert.reply(request)
        question = self.expert.questions[request.question_id]
        fields = parse_json(text)
        if (
            not fields["done"]
            or request.is_last_turn
            or not is_stumble(question.id, self.seed, request.turn)
        ):
            return text
        correct_answer, reasoning = fields["answer"], fields["reasoning"]
        wrong_words = self._unreadable_answer(question, correct_answer, request.turn)
        if wrong_words is None:
            return text
        if reasoning.endswith(correct_answer):  # the derivation ends with the answer
            reasoning = reasoning.removesuffix(correct_answer) + wrong_words
        return json.dumps({**fields, "reasoning": reasoning, "answer": wrong_words})

    def close(self) -> None:
        """Release the expert's renderer."""
        self.expert.close()

    def _unreadable_answer(self, question: Question, correct_answer: str, turn: int) -> str | None:
        """Return words from a question of the same type that match no option here; None if there are none.

        Prefers words with the same number of comma-separated parts, e.g. a route with as many turns.
        """
        if question.answer_form != "letter":
            return None
        words = [
            word
            for word in self._words[question.type]
            if canonical_answer(word, question.answer_form, question.options) is None
        ]
        similar = [word for word in words if word.count(",") == correct_answer.count(",")]
        return _random(question.id, self.seed, turn).choice(similar or words) if words else None


def is_stumble(question_id: str, seed: int, turn: int) -> bool:
    """Return True if the answer of a turn is made unreadable; never twice in a row."""
    if turn < 0 or _random(question_id, seed, turn).random() >= STUMBLE_PROBABILITY:
        return False
    return not is_stumble(question_id, seed, turn - 1)


def noisy_expert(
    questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
) -> NoisyExpert:
    """Return the noisy expert; arguments and errors as for `expert`."""
    return NoisyExpert(expert(questions, seed, config), seed)


def _words_by_type(questions: Iterable[Question]) -> Mapping[str, list[str]]:
    """Return the sorted, distinct option texts by question type."""
    words: dict[str, set[str]] = {}
    for question in questions:
        words.setdefault(question.type, set()).update(options_by_letter(question.options).values())
    return {question_type: sorted(words_of_type) for question_type, words_of_type in words.items()}


def _random(question_id: str, seed: int, turn: int) -> random.Random:
    return random.Random(f"{question_id} {seed} {turn} stumble")


STUMBLER = NamedPolicy(
    noisy_expert,
    "like expert, but sometimes answers with an invalid option; for training only, scores are meaningless",
    knows_boxes=True,
)
