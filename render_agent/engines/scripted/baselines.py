"""The baselines that answer at once: what the commonest answers and the truth itself would score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from render_agent.dialogue.state import Question
from render_agent.engines.base import Request
from render_agent.questions.chance import frequent_answers
from render_agent.questions.exact_solver import true_answer
from render_agent.questions.ground_truth import known_facts

FITTED = "fitted on the truths of the very questions it answers, as the paper's row is"

NOTES = {
    "explorer": f"answers by rule: the commonest answer to each type, {FITTED}",
    "random": "answers by chance: uniform among the options, numbers drawn from the truths of the"
    " type's questions",
    "frequency": f"answers by rule: the commonest answer to each type, {FITTED}",
    "oracle": "answers from the truth: the scenes' annotations; where they do not tell, the commonest"
    f" answer, {FITTED}",
    "witness": "answers from the truth once its views have shown well what the question names, else by"
    " chance: a test of views, no model",
    "seeker": "wanders, and answers as witness does: from the truth once its views have shown it",
    "expert": "answers from the truth always, shown or not: a policy to learn from, no result",
    "stumbler": "answers as expert does, but now and then what is no option: to learn from, no result",
}
"""What must be said beside the figures of a policy that has a name."""


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
