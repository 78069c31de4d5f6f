"""The score as a function of the number of images seen."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from render_agent.dialogue.state import QuestionState
from render_agent.runs.read import RunData
from render_agent.score.questions import score_answer, scored_question
from render_agent.score.summary import OFFICIAL, summary


class ImagePoint(NamedTuple):
    """The score if every dialogue had ended after at most `images` images."""

    images: int
    ended: int
    """Number of questions that had ended."""
    score: float
    """Mean over tasks in percent, as `official_over_scored`."""
    interval: list[float] | None
    """95 % confidence interval over scenes; None for too few scenes."""


def score_by_images(run: RunData) -> list[ImagePoint]:
    """Return the score for every number of images at which an answer changed or a dialogue ended.

    A question counts with the latest answer of the turns that had shown at most this many images, and as wrong if there
    was none. The last point is the score of the run.
    """
    states = [state for state in run.states if run.rows[state.id].score is not None]
    histories = [_scores_by_images(state) for state in states]
    totals = [sum(len(turn.views) for turn in state.turns) for state in states]
    numbers = sorted({images for history in histories for images, _ in history} | set(totals))
    points = []
    for number in numbers:
        scores = [_score_at(history, number) for history in histories]
        figures = summary(
            [scored_question(s.question, x) for s, x in zip(states, scores, strict=True)]
        )
        ended = sum(total <= number for total in totals)
        points.append(ImagePoint(number, ended, figures[OFFICIAL], figures["intervals"][OFFICIAL]))
    return points


def _scores_by_images(state: QuestionState) -> list[tuple[int, float]]:
    """Return the score of each answer of a dialogue with the number of images seen before it."""
    seen = accumulate(len(turn.views) for turn in state.turns)
    return [
        (images, score_answer(state.question, turn.action.answer))
        for images, turn in zip(seen, state.turns, strict=True)
        if turn.action.answer is not None
    ]


def _score_at(history: Sequence[tuple[int, float]], images: int) -> float:
    position = bisect_right(history, images, key=lambda entry: entry[0])
    return history[position - 1][1] if position else 0.0
