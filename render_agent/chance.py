"""Answers that look at nothing: what chance and the commonest answer would score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from render_agent.answer import letters
from render_agent.score import DIRECTION_TYPES, is_number, mean_relative_accuracy
from render_agent.state import Question

NOTHING_KNOWN = {"letter": "A", "number": "2", "text": "unknown"}
"""The answer where no question of the type has a known truth."""


def frequent_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Return, for every question id, the commonest answer to its type among these questions.

    As VSI-Bench's "Frequency" row has it: for numbers the constant that maximises mean relative
    accuracy over the type's own truths, for directions the most frequent option text, else the
    most frequent letter. It is fitted on the truths, so it is no blind guess but its upper bound.
    """
    types = {question.type for question in questions}
    best = {name: _commonest([q for q in questions if q.type == name]) for name in types}
    return {question.id: _for_question(question, best[question.type]) for question in questions}


def _commonest(questions: Sequence[Question]) -> str | None:
    known = [question for question in questions if question.truth is not None]
    if not known:
        return None
    if known[0].wanted == "number":
        return _best_constant([str(question.truth) for question in known])
    if known[0].type in DIRECTION_TYPES:
        return _mode([letters(q.options).get(str(q.truth).upper(), "") for q in known])
    return _mode([str(question.truth) for question in known])


def _best_constant(truths: Sequence[str]) -> str | None:
    counts = Counter(float(truth) for truth in truths if is_number(truth))
    if not counts:
        return None

    def gained(guess: float) -> float:
        return sum(n * mean_relative_accuracy(guess, truth) for truth, n in counts.items())

    return f"{max(sorted(counts), key=gained):g}"


def _mode(values: Sequence[str]) -> str:
    counts = Counter(values)
    return max(sorted(counts), key=lambda value: counts[value])


def _for_question(question: Question, commonest: str | None) -> str:
    if commonest is None:
        return NOTHING_KNOWN[question.wanted]
    if question.type in DIRECTION_TYPES:
        by_text = {option.lower(): letter for letter, option in letters(question.options).items()}
        return by_text.get(commonest.lower(), "A")
    return commonest
