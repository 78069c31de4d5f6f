"""Baselines without images: random and most frequent answers, and their scores.

`frequency` gives the most frequent answer of a question's type: the constant with the highest score by its metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.question import Question
from render_agent.score.intervals import MIN_SCENES, add_holm, make_estimates
from render_agent.score.means import MACRO, AnswerScore, tally_scores
from render_agent.score.questions import is_scorable, metric_of, score_answer, scored_question
from render_agent.score.summary import means
from render_agent.tasks.question_types import answer_form_of, task_of
from render_agent.util.numbers import is_number

# Answers if no ground truth is known. A pose is not guessed: the camera stays.
FALLBACK_ANSWERS = {"letter": "A", "number": "2", "text": "unknown", "pose": ""}

RANDOM_NOTE = (
    "uniform among the options; numbers from the quantiles of VSI-Bench's published answers"
)


class Fit(StrEnum):
    """The questions on whose ground truth the `frequency` baseline is fitted."""

    SAME_QUESTIONS = "the same questions, like the row of VSI-Bench's paper"
    OTHER_SCENES = "the other scenes of the selection"
    PUBLISHED = "VSI-Bench's published answers"


class PublishedAnswers(msgspec.Struct, frozen=True):
    """The answers to VSI-Bench's questions of one type."""

    n: int  # number of questions
    frequent: str
    quantiles: tuple[str, ...] = ()  # of numbers


@cache
def published_answers() -> dict[str, PublishedAnswers]:
    """Return VSI-Bench's published answers by type, as summarised by `render_agent_lab/bench/published_answers.py`."""
    data = Path(__file__).with_name("published_answers.json").read_bytes()
    return msgspec.json.decode(data, type=dict[str, PublishedAnswers])


def _published(question: Question) -> PublishedAnswers | None:
    """Return the published answers to questions of the same type or task and answer form."""
    for name in (question.type, task_of(question.type)):
        if answer_form_of(name) == question.answer_form and name in published_answers():
            return published_answers()[name]
    return None


def _default_guess(question: Question) -> str:
    """Return the published most frequent answer to questions of this type, else the fallback of their answer form."""
    published = _published(question)
    return FALLBACK_ANSWERS[question.answer_form] if published is None else published.frequent


def frequency_fit(selection: Sequence[Question]) -> Fit:
    """Return what the `frequency` baseline of a selection of questions is fitted on."""
    whole = {name: published.n for name, published in published_answers().items()}
    if Counter(question.type for question in selection) == whole:
        return Fit.SAME_QUESTIONS
    scenes = {_scene(q) for q in selection if q.ground_truth is not None}
    return Fit.OTHER_SCENES if len(scenes) >= MIN_SCENES else Fit.PUBLISHED


def baseline_notes(selection: Sequence[Question]) -> dict[str, str]:
    """Return what the baselines answer, by name; every table and page that shows them says so."""
    if all(question.answer_form == "pose" for question in selection):
        return {}
    frequency = f"most frequent answer per question type, fitted on {frequency_fit(selection)}"
    return {"random": RANDOM_NOTE, "frequency": frequency}


def _scene(question: Question) -> tuple[str, str]:
    return question.dataset, question.unchanged.scene


def random_answers(question: Question) -> list[str]:
    """Return the answers among which the `random` baseline draws; none if the question does not suggest any."""
    if question.options:
        return sorted(options_by_letter(question.options))
    published = _published(question)
    return [] if published is None else list(published.quantiles)


def random_score(question: Question) -> float | None:
    """Return the expected score of the `random` baseline, 0 to 1; None if it has no answers."""
    answers = random_answers(question)
    if not answers:
        return None
    return sum(score_answer(question, answer) for answer in answers) / len(answers)


def frequent_answers(
    questions: Sequence[Question], selection: Sequence[Question] | None = None
) -> dict[str, str]:
    """Return the answers of the `frequency` baseline by question id."""
    selection = [q for q in selection or questions if not q.is_counterpart]
    fit = frequency_fit(selection)
    by_type: dict[str, list[Question]] = {}
    for question in selection:
        if question.ground_truth is not None:
            by_type.setdefault(question.type, []).append(question)
    guesses: dict[tuple[str, tuple[str, str]], str | None] = {}
    if fit is not Fit.PUBLISHED:
        for name, group in by_type.items():
            scenes = sorted({_scene(question) for question in group})
            if fit is Fit.SAME_QUESTIONS:
                found = [most_frequent_answer(group)] * len(scenes)
            else:
                is_in = [[_scene(q) != scene for scene in scenes] for q in group]
                found = _best_guesses(group, is_in, default=_default_guess(group[0]))
            guesses |= {(name, scene): guess for scene, guess in zip(scenes, found, strict=True)}
    return {
        question.id: format_answer(
            question,
            guesses.get((question.type, _scene(question))) or _default_guess(question),
        )
        for question in questions
    }


def chance_levels(
    questions: Sequence[Question], selection: Sequence[Question] | None = None
) -> dict[str, dict[str, float | None]]:
    """Return the scores of the `random` and `frequency` baselines in percent, by type and task."""
    scorable = [q for q in questions if is_scorable(q) and q.answer_form != "pose"]
    answers = frequent_answers(scorable, questions if selection is None else selection)
    scores: dict[str, list[AnswerScore]] = {
        "random": [
            scored_question(question, score)
            for question in scorable
            if (score := random_score(question)) is not None
        ],
        "frequency": [
            scored_question(question, score_answer(question, answers[question.id]))
            for question in scorable
        ],
    }
    return {name: means(entries) for name, entries in scores.items()}


def baseline_gains(
    scores: Sequence[tuple[Question, float]], selection: Sequence[Question] | None = None
) -> dict[str, dict[str, Any]]:
    """Return the `difference`, `p`, `p_holm` and `n` of scores over the `frequency` baseline, paired, for `macro` and
    each task.
    """
    questions = [question for question, _ in scores]
    answers = frequent_answers(questions, selection)
    scores = [(q, score) for q, score in scores if is_scorable(q) and q.answer_form != "pose"]
    tally = tally_scores(
        scored_question(q, score - score_answer(q, answers[q.id])) for q, score in scores
    )
    numbers = Counter({MACRO: len(scores)})
    for name, number in zip(tally.types, tally.counts.sum(axis=0).astype(int), strict=True):
        numbers[task_of(name)] += int(number)
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
    known = [question for question in questions if question.ground_truth is not None]
    return _best_guesses(known, [[True]] * len(known))[0] if known else None


def _best_guesses(
    questions: Sequence[Question], is_in: Sequence[Sequence[bool]], default: str | None = None
) -> list[str | None]:
    """Return the best constant guess for each of several sets of questions of one type with ground truth.

    `is_in` tells which questions each set contains, (questions, sets). Only answers in a set are its guesses; ties go
    to the first in sort order. With a `default`, another guess must score better by two standard errors: if answers are
    balanced, the most frequent answer of the other scenes is the rarest one of the scene that was left out.
    """
    metric = metric_of(questions[0])
    own = [metric.guess(str(q.ground_truth), options_by_letter(q.options)) for q in questions]
    guesses = sorted(
        {guess for guess in (*own, default) if guess is not None},
        key=lambda guess: (float(guess) if is_number(guess) else 0.0, guess),
    )
    if not guesses:
        return [None] * len(is_in[0])
    row_of = {guess: row for row, guess in enumerate(guesses)}
    counts: NDArray[np.float64] = np.zeros((len(guesses), len(is_in[0])))
    for guess, sets in zip(own, is_in, strict=True):
        if guess is not None:
            counts[row_of[guess]] += sets
    scores = metric.guess_scores(guesses)
    best = np.where(counts > 0, scores @ counts, -1.0).argmax(axis=0)
    if default is not None:
        gains, at = scores - scores[row_of[default]], np.arange(counts.shape[1])
        is_better = (gains @ counts)[best, at] > 2 * np.sqrt(gains**2 @ counts)[best, at]
        best = np.where(is_better, best, row_of[default])
    return [guesses[row] for row in best]


def format_answer(question: Question, guess: str | None) -> str:
    """Convert the most frequent answer of a type to an answer to this question."""
    if guess is None:
        return FALLBACK_ANSWERS[question.answer_form]
    return metric_of(question).as_answer(guess, options_by_letter(question.options))
