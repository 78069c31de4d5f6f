"""Baselines without images: random and most frequent answers, and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import split_counterparts
from render_agent.score.intervals import add_holm, make_estimates
from render_agent.score.means import MACRO, tally_scores
from render_agent.score.questions import is_scorable, metric_of, score_answer, scored_question
from render_agent.score.summary import means
from render_agent.tasks.question_types import PART_TYPES

FALLBACK_ANSWERS = {"letter": "A", "number": "2", "text": "unknown"}  # if no ground truth is known


def frequent_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Return the most frequent answer for each question's type, by question id.

    This is VSI-Bench's "Frequency" baseline: the constant with the highest score by the metric of the type. It is
    fitted to the ground truth, so it is an upper bound for constant guesses.
    """
    # Counterparts may use other units.
    originals = split_counterparts(questions)[0] or questions
    types = {question.type for question in questions}
    answer_by_type = {
        name: most_frequent_answer([q for q in originals if q.type == name]) for name in types
    }
    return {
        question.id: format_answer(question, answer_by_type[question.type])
        for question in questions
    }


def chance_levels(questions: Sequence[Question]) -> dict[str, dict[str, float | None]]:
    """Return the scores of the `random` and `frequency` baselines in percent, by type and task.

    `random` is the expected score of a uniform choice among the options, for multiple choice only; `frequency` is the
    score of `frequent_answers`.
    """
    scorable = [question for question in questions if is_scorable(question)]
    answers = frequent_answers(questions)
    scores = {
        "random": [
            scored_question(question, score)
            for question in scorable
            if (score := metric_of(question).chance(len(options_by_letter(question.options))))
            is not None
        ],
        "frequency": [
            scored_question(question, score_answer(question, answers[question.id]))
            for question in scorable
        ],
    }
    return {name: means(entries) for name, entries in scores.items()}


def baseline_gains(scores: Sequence[tuple[Question, float]]) -> dict[str, dict[str, Any]]:
    """Return the gains of scores over the `frequency` baseline, paired by question.

    Args:
        scores: Questions with a ground truth or a judged answer, and their scores, 0 to 1.

    Returns:
        For the mean over tasks (`macro`) and every task: the `difference` in points, its two-sided `p` over scenes
        (None with too few scenes), `p_holm`, corrected over the tasks, and `n`, the number of questions.
    """
    scores = [(question, score) for question, score in scores if is_scorable(question)]
    answers = frequent_answers([question for question, _ in scores])
    tally = tally_scores(
        scored_question(q, score - score_answer(q, answers[q.id])) for q, score in scores
    )
    numbers = Counter({MACRO: len(scores)})
    for name, number in zip(tally.types, tally.counts.sum(axis=0).astype(int), strict=True):
        numbers[PART_TYPES.get(name, name)] += int(number)
    estimates = make_estimates(tally)
    gains = {
        name: {
            "difference": 100 * float(estimates[name].mean),
            "p": estimates[name].interval_and_p()[1],
            "n": number,
        }
        for name, number in numbers.items()
        if name in estimates
    }
    add_holm([gain for name, gain in gains.items() if name == MACRO])
    add_holm([gain for name, gain in gains.items() if name != MACRO])
    return gains


def most_frequent_answer(questions: Sequence[Question]) -> str | None:
    """Return the constant answer with the highest score on questions of one type; None without ground truth."""
    references = [
        (q.ground_truth, options_by_letter(q.options))
        for q in questions
        if q.ground_truth is not None
    ]
    return metric_of(questions[0]).most_frequent(references) if references else None


def format_answer(question: Question, guess: str | None) -> str:
    """Convert the most frequent answer of a type to an answer to this question."""
    if guess is None:
        return FALLBACK_ANSWERS[question.answer_form]
    return metric_of(question).as_answer(guess, options_by_letter(question.options))
