"""The baselines that answer at once: what the commonest answers and the truth itself would score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from render_agent.dialogue.state import Question
from render_agent.engines.base import Request
from render_agent.engines.scripted.engine import NamedPolicy
from render_agent.questions.exact_solver import true_answer
from render_agent.questions.ground_truth import known_facts
from render_agent.score.chance import frequent_answers

FITTED = "fitted on the truths of the very questions it answers, as the paper's row is"


class Known:
    """Gives every question its one answer, in its first turn."""

    def __init__(self, answers: Mapping[str, str]) -> None:
        self.answers = answers

    def reply(self, request: Request) -> str:
        """Return the answer."""
        return json.dumps({"answer": self.answers[request.question_id], "done": True})


def frequency(questions: Sequence[Question], seed: int = 0) -> Known:
    """Return the policy that gives the commonest answer to each type."""
    return Known(frequent_answers(questions))


def oracle(questions: Sequence[Question], seed: int = 0, annotations: str | None = None) -> Known:
    """Return the policy that answers from what is known of the scenes, else as `frequency` does.

    annotations: the official ones; without them, what the scenes are built from or what lies beside
    them. Errors: QuestionsError where a file of truths is in no known format.
    """
    facts = known_facts(questions, annotations)
    told = {q.id: true_answer(q, facts[q.scene]) for q in questions if q.scene in facts}
    known = {question_id: answer for question_id, answer in told.items() if answer is not None}
    return Known(frequent_answers(questions) | known)


FREQUENCY = NamedPolicy(
    lambda questions, seed, config: frequency(questions, seed),
    f"answers by rule: the commonest answer to each type, {FITTED}",
)

ORACLE = NamedPolicy(
    lambda questions, seed, config: oracle(questions, seed, config.annotations if config else None),
    "answers from the truth: the scenes' annotations; where they do not tell, the commonest answer,"
    f" {FITTED}",
    knows_boxes=True,
)
