"""Votes on an answer: the commonest text wins, or the number with the highest expected score."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from render_agent.dialogue.state import Ballot, Question
from render_agent.score.official import THRESHOLDS, mean_relative_accuracy, score_answer
from render_agent.text.numbers import only_number

COUNTING = "object_counting"

MOST_DECIMALS = 17
"""Decimals after which a number is written as it is."""

Interval = tuple[float, float]
"""From the first float to the last, both in it."""


def ballot(question: Question, votes: Sequence[str | None]) -> Ballot | None:
    """Return the outcome of a vote, None where nobody gave an answer.

    votes: canonical answers, by sample. Of letters and texts the commonest wins, of several the one that
    came first. Of numbers that one wins whose mean relative accuracy is the highest on the average, were
    the votes the truth in turn; nobody need have said it. Of a count only whole numbers are tried: no
    other is an answer.
    """
    answers = [vote for vote in votes if vote is not None]
    if not answers:
        return None
    numbers = [float(vote) for vote in answers] if question.wanted == "number" else []
    if numbers:
        winner = only_number(repr(least_loss(numbers, whole=question.type == COUNTING)))
        assert winner is not None, "it is a number"
        scores = [mean_relative_accuracy(float(winner), number) for number in numbers]
    else:
        commonest = Counter(vote.lower() for vote in answers).most_common(1)[0][0]
        winner = next(vote for vote in answers if vote.lower() == commonest)
        scores = [score_answer(question.type, winner, vote) for vote in answers]
    return Ballot(
        votes=tuple(votes),
        winner=winner,
        agreement=sum(vote.lower() == winner.lower() for vote in answers) / len(answers),
        expected=statistics.fmean(scores),
        spread=statistics.pstdev(numbers) if numbers else None,
    )


def least_loss(numbers: Sequence[float], *, whole: bool = False) -> float:
    """Return the number with the highest mean relative accuracy, were these the truth in turn.

    whole: only whole numbers are tried, unless all of them score 0. Of all that have it: the nearest to the
    median (the lower one of two), the smaller of two as near; and where the median itself is none of
    them, that with the fewest decimals on the way.
    """
    middle = statistics.median_low(numbers)
    if whole and (best := optima(numbers, whole=True)):
        return _nearest([_nearest_integer(span, middle) for span in best], middle)
    best = optima(numbers)
    chosen = min(best, key=lambda span: (abs(_clamped(span, middle) - middle), span))
    nearest = _clamped(chosen, middle)
    return nearest if nearest == middle else _short(chosen, nearest)


def optima(numbers: Sequence[float], *, whole: bool = False) -> list[Interval]:
    """Return all floats whose mean relative accuracy is the highest, were these numbers the truth in turn.

    Exact to the last digit, because every threshold of every number gives one interval of floats in which
    the official comparison holds: the optima lie in the most of them. whole: of whole numbers alone the
    best, and these are the whole ones in the intervals; none where all of them score 0.
    """
    spans = [span for number in numbers for span in _accepted(number)]
    if whole:
        inner = [(float(math.ceil(begin)), float(math.floor(end))) for begin, end in spans]
        spans = [(begin, end) for begin, end in inner if begin <= end]
    begins, ends = sorted(begin for begin, _ in spans), sorted(end for _, end in spans)

    def height(value: float) -> int:
        return bisect_right(begins, value) - bisect_left(ends, value)

    highest = max(map(height, begins), default=0)
    # Between such a beginning and the next end no other begins: it would lie higher.
    return [
        (begin, ends[bisect_left(ends, begin)])
        for begin in sorted(set(begins))
        if height(begin) == highest
    ]


def _accepted(truth: float) -> Iterable[Interval]:
    """Give, for every threshold, the predictions that the official scorer takes for a truth."""
    if truth == 0:
        yield from [(0.0, 0.0)] * len(THRESHOLDS)
        return
    for threshold in THRESHOLDS:

        def takes(value: float, most: float = 1 - threshold) -> bool:
            return abs(value - truth) / abs(truth) <= most

        reach = (1 - threshold) * abs(truth)
        yield _edge(takes, truth - reach, -math.inf), _edge(takes, truth + reach, math.inf)


def _edge(takes: Callable[[float], bool], guess: float, outwards: float) -> float:
    """Return the last float on the way outwards that is taken; `guess` is some steps away from it."""
    inwards = -outwards
    while not (math.isfinite(guess) and takes(guess)):
        guess = math.nextafter(guess, inwards)
    while math.isfinite(further := math.nextafter(guess, outwards)) and takes(further):
        guess = further
    return guess


def _clamped(span: Interval, value: float) -> float:
    return min(max(value, span[0]), span[1])


def _nearest(values: Iterable[float], middle: float) -> float:
    return min(values, key=lambda value: (abs(value - middle), value))


def _nearest_integer(span: Interval, middle: float) -> float:
    """Return the whole number of an interval between two of them that is nearest to the middle."""
    inside = _clamped(span, middle)
    return _nearest([float(math.floor(inside)), float(math.ceil(inside))], middle)


def _short(span: Interval, value: float) -> float:
    """Return the number of an interval with the fewest decimals that is next to a value at its edge."""
    exact, context = Decimal(value), Context(prec=1100)
    for decimals in range(MOST_DECIMALS + 1):
        unit = Decimal(1).scaleb(-decimals)
        rounded = [
            float(exact.quantize(unit, way, context)) for way in (ROUND_FLOOR, ROUND_CEILING)
        ]
        if inside := [number for number in rounded if _holds(span, number)]:
            return _nearest(inside, value)
    return value


def _holds(span: Interval, value: float) -> bool:
    return span[0] <= value <= span[1]
