"""Baselines without pictures: the answers by chance and by frequency, and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question, split_counterparts
from render_agent.score.means import Scored
from render_agent.score.official import (
    DIRECTION_TYPES,
    is_number,
    mean_relative_accuracy,
)
from render_agent.score.summary import means

NOTHING_KNOWN = {"letter": "A", "number": "2", "text": "unknown"}
"""The answer where no question of the type has a known truth."""


def frequent_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Return, for every question id, the commonest answer to its type among these questions.

    As VSI-Bench's "Frequency" row has it: for numbers the constant that maximises mean relative
    accuracy over the type's own truths, for directions the most frequent option text, else the
    most frequent letter. It is fitted on the truths, so it is no blind guess but its upper bound.
    """
    # A counterpart may ask in other units.
    own = split_counterparts(questions)[0] or questions
    types = {question.type for question in questions}
    best = {name: commonest([q for q in own if q.type == name]) for name in types}
    return {question.id: as_answer(question, best[question.type]) for question in questions}


def chance_levels(questions: Sequence[Question]) -> dict[str, dict[str, float | None]]:
    """Return what `random` and `frequency` would score on these questions, in percent, by type and task.

    random: the expectation of a uniform choice among the options, which no single run of it meets;
    there is none for numbers. frequency: `frequent_answers`.
    """
    known = [question for question in questions if question.scorable]
    answers = frequent_answers(questions)
    scores = {
        "random": [
            _scored(question, 1 / len(letters(question.options)))
            for question in known
            if question.wanted == "letter"
        ],
        "frequency": [
            _scored(question, question.score(answers[question.id])) for question in known
        ],
    }
    return {name: means(scored) for name, scored in scores.items()}


def _scored(question: Question, score: float) -> Scored:
    return Scored(question.type, question.dataset, question.scene, score, question.pruned)


def commonest(questions: Sequence[Question]) -> str | None:
    """Return the constant answer that scores most on questions of one type, as `as_answer` takes it; None without truths."""
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


def as_answer(question: Question, commonest: str | None) -> str:
    """Return the commonest answer to its type as an answer to a question."""
    if commonest is None:
        return NOTHING_KNOWN[question.wanted]
    if question.type in DIRECTION_TYPES:
        by_text = {option.lower(): letter for letter, option in letters(question.options).items()}
        return by_text.get(commonest.lower(), "A")
    return commonest
