"""Scores of questions: the metric of a question, and the score of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.score.intervals import ratio
from render_agent.score.means import AnswerScore
from render_agent.score.metrics import Metric
from render_agent.score.parsers import PARSERS
from render_agent.score.summary import OFFICIAL
from render_agent.tasks.question_types import metric_name


def metric_of(question: Question) -> Metric:
    """Return the metric that scores the answers to a question. Raises SetupError if no package provides it."""
    metric: Metric = registry.load("metric", metric_name(question))()
    return metric


def is_scorable(question: Question) -> bool:
    """Return True if answers can be scored without a judge and the ground truth is known."""
    return question.ground_truth is not None and not metric_of(question).needs_judge


def score_answer(question: Question, answer: str | None, parser: str = OFFICIAL) -> float:
    """Return the score of an answer, from 0 to 1; 0 if there is no answer. Raises ValueError."""
    metric, truth = metric_of(question), question.ground_truth
    if truth is None or metric.needs_judge:
        raise ValueError(f"no answer to question {question.id} can be scored")
    if question.metric is None:
        answer = PARSERS[parser].read(answer, metric.form)
    return 0.0 if answer is None else metric.score(answer, (truth, *question.answers))


def scored_question(question: Question, score: float) -> AnswerScore:
    """Return a score with the type, data set and scene of its question."""
    return AnswerScore(question.type, question.dataset, question.scene, score, question.pruned)


def metric_means(
    questions: Sequence[Question], answers: Mapping[str, str | None]
) -> dict[str, Any]:
    """Return `metrics` of results: `score`, `interval` and `n` of each metric over the questions that name it or a
    related one.
    """
    by_metric: dict[str, list[Question]] = {}
    for question in questions:
        if question.metric is not None and not metric_of(question).needs_judge:
            for name in (question.metric, *metric_of(question).additional_metrics):
                by_metric.setdefault(name, []).append(replace(question, metric=name))
    metrics = {}
    for name in filter(by_metric.__contains__, registry.names("metric")):
        questions_of_metric = by_metric[name]
        scores = [
            score_answer(question, answers.get(question.id)) for question in questions_of_metric
        ]
        mean = ratio(scores, [(q.dataset, q.scene) for q in questions_of_metric])
        if mean is not None:
            metrics[name] = {
                "score": 100 * float(mean.mean),
                "interval": mean.interval(share=True),
                "n": len(questions_of_metric),
            }
    return {"metrics": metrics} if metrics else {}
