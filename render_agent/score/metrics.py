"""Metrics: scoring, guessing baselines and voting for one kind of answer. Scores are from 0 to 1.

`metric_of` in `score/questions.py` returns the metric of a question. Exact match of texts follows LEO's evaluation of
SQA3D and ScanQA (embodied-generalist, `clean_answer` and `answer_match`), the source of the published EM@1 and
refined EM@1.
"""

from __future__ import annotations

import re
import statistics
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import parse_pose, pose_error
from render_agent.score.official import first_word, mean_relative_accuracy
from render_agent.util.numbers import SMALL_NUMBERS, is_number

FloatArray = NDArray[np.float64]

# Values of a question's `metric` field. Packages add metrics as entry points of `render_agent.metrics`.
METRICS = {
    "accuracy": "render_agent.score.metrics:Accuracy",
    "direction-accuracy": "render_agent.score.metrics:DirectionAccuracy",
    "mean-relative-accuracy": "render_agent.score.metrics:RelativeAccuracy",
    "count-accuracy": "render_agent.score.metrics:CountAccuracy",
    "first-word": "render_agent.score.metrics:FirstWord",
    "exact-match": "render_agent.score.metrics:ExactMatch",
    "refined-match": "render_agent.score.metrics:RefinedMatch",
    "view-success": "render_agent.score.metrics:ViewSuccess",
    "view-success-strict": "render_agent.score.metrics:StrictViewSuccess",
    "llm-match": "render_agent.score.metrics:LLMMatch",
}

ROUNDING = (
    # Relative tolerance: ground truths whose largest allowed errors just meet are not exclusive.
    1e-9
)


class Metric(ABC):
    """Scores, guesses and votes on the answers to a question.

    Subclasses implement `score`. Metrics for numbers usually derive from `RelativeAccuracy`, whose baseline and vote
    maximise whatever `score` returns.

    Attributes:
        form: Required form of an answer: `letter`, `number` or `text`.
        min_correct_score: Lowest score of an answer that counts as correct.
        needs_judge: True if a judge marks the answers (`render-agent score RUN --judge`); `score` is then not called.
        additional_metrics: Names of additional metrics reported for the same questions.
    """

    form: ClassVar[AnswerForm] = "text"
    min_correct_score: float = 1.0
    needs_judge: ClassVar[bool] = False
    additional_metrics: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Return the score of an answer, from 0 to 1.

        Args:
            answer: The answer in canonical form, or the raw reply.
            truths: Accepted ground-truth answers, at least one.
        """

    def is_correct(self, answer: str | None, truth: str) -> bool:
        """Return True if an answer counts as correct."""
        return answer is not None and self.score(answer, (truth,)) >= self.min_correct_score

    def are_exclusive(self, truth: str, other_truth: str) -> bool:
        """Return True if no answer counts as correct for both ground truths.

        For 0 < a < b, the harmonic mean has the smallest relative error with respect to both, (b - a) / (a + b). If
        relative errors up to e are allowed, no answer is correct for both when (1 - e) b > (1 + e) a.
        """
        pairs = [
            (answer, truth, other_truth)
            for answer in (truth, other_truth, f"{truth} {other_truth}")
        ]
        if is_number(truth) and is_number(other_truth) and float(truth) * float(other_truth) > 0:
            a, b = sorted((float(truth), float(other_truth)))
            low, high = a + ROUNDING * abs(a), b - ROUNDING * abs(b)
            pairs.append((repr(2 * a * b / (a + b)), repr(low), repr(high)))
        return not any(self.is_correct(answer, t) and self.is_correct(answer, o) for answer, t, o in pairs)  # fmt: skip

    def guess(self, truth: str, options: Mapping[str, str]) -> str | None:
        """Return the constant guess that is right for a question, None if there is none; see `as_answer`.

        Args:
            truth: Ground truth.
            options: Option texts by letter.
        """
        return truth

    def guess_scores(self, guesses: Sequence[str]) -> FloatArray:
        """Return the score of each of n distinct guesses (row) on a question for which each is right (column), (n, n)."""
        return np.eye(len(guesses))

    def as_answer(self, guess: str, options: Mapping[str, str]) -> str:
        """Convert a constant guess to an answer to a question with these options."""
        return guess

    def vote(self, votes: Sequence[str]) -> tuple[str, float]:
        """Return the winning answer and its expected score, assuming that each vote is equally likely to be the
        ground truth.

        Args:
            votes: Answers in canonical form, at least one. The most frequent answer wins; ties go to the first.
        """
        most_frequent = Counter(map(str.lower, votes)).most_common(1)[0][0]
        winner = next(vote for vote in votes if vote.lower() == most_frequent)
        return winner, self._expected_score(winner, votes)

    def _expected_score(self, answer: str, votes: Sequence[str]) -> float:
        if self.needs_judge:
            return statistics.fmean(vote.lower() == answer.lower() for vote in votes)
        return statistics.fmean(self.score(answer, (vote,)) for vote in votes)


class Accuracy(Metric):
    """Multiple choice: 1 if the first word is the correct letter, as in VSI-Bench's scorer."""

    form = "letter"

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Compare the first word with the letters of the ground truths, ignoring case."""
        return float(first_word(answer).lower() in map(str.lower, truths))


class DirectionAccuracy(Accuracy):
    """Multiple choice whose most frequent guess is an option text, regardless of its letter."""

    def guess(self, truth: str, options: Mapping[str, str]) -> str | None:
        """Return the text of the correct option."""
        return options.get(truth.upper())

    def as_answer(self, guess: str, options: Mapping[str, str]) -> str:
        """Return the letter of the option with the guessed text."""
        letters = {text.lower(): letter for letter, text in options.items()}
        return letters.get(guess.lower(), "A")


class RelativeAccuracy(Metric):
    """Numbers: mean relative accuracy (MRA) of the first word. An answer is correct if it is off by at most 30 %."""

    min_correct_score = 0.5
    form = "number"

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Return the highest MRA over the ground truths; 0 if the first word is not a number."""
        word = first_word(answer)
        if not is_number(word):
            return 0.0
        numbers = [float(truth) for truth in truths if is_number(truth)]
        return max((mean_relative_accuracy(float(word), truth) for truth in numbers), default=0.0)

    def guess(self, truth: str, options: Mapping[str, str]) -> str | None:
        """Return the number; None if it is not one."""
        return f"{float(truth):g}" if is_number(truth) else None

    def guess_scores(self, guesses: Sequence[str]) -> FloatArray:
        """Return the scores of numbers, which also score on questions with similar ground truths, (n, n)."""
        return np.array([[self.score(guess, (truth,)) for truth in guesses] for guess in guesses])

    def vote(self, votes: Sequence[str]) -> tuple[str, float]:
        """Return the vote with the highest expected score; ties go to the vote nearest to the median."""
        middle = statistics.median_low(map(float, votes))

        def rank(vote: str) -> tuple[float, float]:
            return self._expected_score(vote, votes), -abs(float(vote) - middle)

        winner = max(votes, key=rank)
        return winner, self._expected_score(winner, votes)


class CountAccuracy(RelativeAccuracy):
    """Counts: mean relative accuracy; an answer is correct if it scores 1."""

    min_correct_score = 1.0


class FirstWord(Metric):
    """Texts without a metric: numbers by MRA, other texts by their first word, as in VSI-Bench's scorer."""

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Compare numerically with ground truths that are numbers, otherwise as words."""
        return max(
            (RelativeAccuracy() if is_number(truth) else Accuracy()).score(answer, (truth,))
            for truth in truths
        )


class ExactMatch(Metric):
    """Texts: EM@1."""

    additional_metrics = ("refined-match",)

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Return 1 if the cleaned answer equals a cleaned ground truth."""
        return float(clean(answer) in map(clean, truths))


class RefinedMatch(Metric):
    """Texts: refined EM@1."""

    additional_metrics = ("exact-match",)

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Return 1 if the answer contains a ground truth or vice versa, after cleaning and removal of spaces.

        An empty answer matches nothing; LEO's code does not define this case.
        """
        words = "".join(clean(answer).split())
        references = ["".join(clean(truth).split()) for truth in truths]
        return float(bool(words) and any(words in truth or truth in words for truth in references))


class ViewSuccess(Metric):
    """Poses: 1 if the camera is at most 0.5 m from the target, and heading and pitch differ by at most 30 degrees."""

    form = "pose"
    limits = (0.5, 30.0)  # metres and degrees
    additional_metrics = ("view-success-strict",)

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Compare an answer with the poses of targets; 0 if it is not a pose."""
        pose, targets = parse_pose(answer), [*filter(None, map(parse_pose, truths))]
        return float(
            pose is not None
            and any(pose_error(pose, target).is_within(*self.limits) for target in targets)
        )

    def guess(self, truth: str, options: Mapping[str, str]) -> str | None:
        """Return None, because targets are in different places."""
        return None


class StrictViewSuccess(ViewSuccess):
    """Poses: 1 if the errors are at most 0.25 m and 15 degrees."""

    limits = (0.25, 15.0)
    additional_metrics = ("view-success",)


class LLMMatch(Metric):
    """Texts scored by a judge: OpenEQA's LLM-Match (`runs/llm_match.py`)."""

    needs_judge = True

    def score(self, answer: str, truths: Sequence[str]) -> float:
        """Raise ValueError, because only a judge can score these answers."""
        raise ValueError("only a judge can score this answer")


# Replacements for words in answers: annotators' typos, and numbers in digits.
_SPELLINGS = {
    "letf": "left",
    "let": "left",
    "tehre": "there",
    "rigth": "right",
    "rght": "right",
    "behine": "behind",
    "chai": "chair",
    "wasing": "washing",
    "waslked": "walked",
    "oclock": "o'clock",
    "none": "zero",
    **{str(number): word for word, number in SMALL_NUMBERS.items()},
    "23": "twenty-three",
}

_CLEANING = (
    (r" {2,}", " "),
    (r"[^a-z0-9,'\s\-:]+", ""),
    (rf"\b({'|'.join(map(re.escape, _SPELLINGS))})\b", lambda match: _SPELLINGS[match[1]]),
    (r"\bo'[ ]+clock\b", "o'clock"),
    (r"\b([a-z]+)[0-9]\b", r"\1"),
    (r"\ba\b ([a-z]+)", r"\1"),
    (r"\ban\b ([a-z]+)", r"\1"),
    (r"\bthe\b ([a-z]+)", r"\1"),
    (r"\bbackwards\b", "backward"),
)


def clean(answer: str) -> str:
    """Normalise an answer for comparison: lower case, no punctuation or articles, numbers up to twenty as words."""
    text = answer.lower().strip(" ")
    for pattern, to in _CLEANING:
        text = re.sub(pattern, to, text)
    return text
