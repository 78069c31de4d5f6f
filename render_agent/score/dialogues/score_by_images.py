"""The score as a function of the number of images seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.score.intervals import macro_estimate
from render_agent.score.means import tally_scores
from render_agent.score.questions import score_answer, scored_question
from render_agent.score.summary import percent

AnswerScores = Sequence[tuple[int, float]]  # images seen before each answer, and its score


def score_by_images(states: Sequence[QuestionState]) -> list[dict[str, Any]]:
    """Return the score for every number of images at which an answer changed or a dialogue ended.

    A question counts with the latest answer of the turns that had shown at most this many images, and as wrong if there
    was none. The last point is the score of the questions.
    """
    histories = [_answer_scores(state) for state in states]
    totals = [sum(len(turn.views) for turn in state.turns) for state in states]
    numbers = sorted({images for history in histories for images, _ in history} | set(totals))
    points = []
    for number in numbers:
        scores = [_score_at(history, number) for history in histories]
        estimate = macro_estimate(
            tally_scores(
                scored_question(s.question, x or 0.0) for s, x in zip(states, scores, strict=True)
            )
        )
        has_answer = any(score is not None for score in scores)
        points.append(
            {
                "images": number,
                "ended": sum(total <= number for total in totals),
                "score": percent(float(estimate.mean)),
                "interval": estimate.interval(share=True) if has_answer else None,
            }
        )
    return points


def _answer_scores(state: QuestionState) -> AnswerScores:
    seen = accumulate(len(turn.views) for turn in state.turns)
    scores: list[tuple[int, float]] = []
    is_readable = False  # a readable answer is not replaced by an unreadable one
    for images, turn in zip(seen, state.turns, strict=True):
        is_readable |= turn.answer is not None
        if turn.answer_text is not None and (turn.answer is not None or not is_readable):
            scores.append((images, score_answer(state.question, turn.answer_text)))
    return scores


def _score_at(history: AnswerScores, images: int) -> float | None:
    """Return the score of the latest answer after at most this many images, None if there was none."""
    position = bisect_right(history, images, key=lambda entry: entry[0])
    return history[position - 1][1] if position else None
