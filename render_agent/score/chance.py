"""Baselines without pictures: the answers by chance and by frequency, and their scores."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.answer import letters
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import split_counterparts
from render_agent.score.questions import is_scorable, metric_of, score_answer, scored_question
from render_agent.score.summary import means

NOTHING_KNOWN = {"letter": "A", "number": "2", "text": "unknown"}
"""The answer where no question of the type has a known truth."""


def frequent_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Return, for every question id, the commonest answer to its type among these questions.

    As VSI-Bench's "Frequency" row has it: the constant that scores most by the metric of the type. It is fitted on
    the truths, so it is no blind guess but its upper bound.
    """
    # A counterpart may ask in other units.
    own = split_counterparts(questions)[0] or questions
    types = {question.type for question in questions}
    best = {name: commonest([q for q in own if q.type == name]) for name in types}
    return {question.id: as_answer(question, best[question.type]) for question in questions}


def chance_levels(questions: Sequence[Question]) -> dict[str, dict[str, float | None]]:
    """Return what `random` and `frequency` would score on these questions, in percent, by type and task.

    random: the expectation of a uniform choice among the options, which no single run of it meets;
    only of choices. frequency: `frequent_answers`.
    """
    known = [question for question in questions if is_scorable(question)]
    answers = frequent_answers(questions)
    scores = {
        "random": [
            scored_question(question, score)
            for question in known
            if (score := metric_of(question).chance(len(letters(question.options)))) is not None
        ],
        "frequency": [
            scored_question(question, score_answer(question, answers[question.id]))
            for question in known
        ],
    }
    return {name: means(entries) for name, entries in scores.items()}


def commonest(questions: Sequence[Question]) -> str | None:
    """Return the constant answer that scores most on questions of one type, as `as_answer` takes it; None without truths."""
    known = [(q.truth, letters(q.options)) for q in questions if q.truth is not None]
    return metric_of(questions[0]).most_frequent(known) if known else None


def as_answer(question: Question, commonest: str | None) -> str:
    """Return the commonest answer to its type as an answer to a question."""
    if commonest is None:
        return NOTHING_KNOWN[question.wanted]
    return metric_of(question).as_answer(commonest, letters(question.options))
