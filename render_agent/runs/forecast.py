"""The time that is left of a run: the turns still to come, by a life table, times the pace of those taken."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

KNOWN_SHARE, KNOWN_SECONDS = 0.03, 20.0
"""Nothing is told before a run has taken this share of its time and these seconds."""

LIKELY = 1.28
"""What is told reaches so many standard deviations to both sides, in which the truth lies four times of five."""

SHARP_RANGE, WIDEST_RANGE = 2.25, 6.0
"""The longest time that is likely is at most so many times the shortest where one number is told, or a range at all."""

USUAL_HAZARD, USUAL_WEIGHT = 0.2, 0.5
"""How often a question usually ends in a turn, and of how many turns' worth this is what is known at first."""

ALIKE = 4
"""Turns of one run are as alike as if each told of any other what so many questions in it would."""

BATCH_SAVING, BATCHES = 1 / 4, 8
"""A turn's cost falls with this power of its batch; batches to come are as large as the largest of so many turns of late."""

FEWEST_TURNS = 12
"""The pace is measured over so many turns and over a whole batch at the least."""

PACE_ERROR, FIRST_PACE_ERROR = 0.2, 0.6
"""The standard deviation of the pace to come, as a logarithm; and of the first batch's, in which scans are read and kernels compiled."""


class Mark(NamedTuple):
    """A moment of a run: the turns taken by then, when it was, and what they cost."""

    turns: int = 0
    seconds: float = 0.0
    cost: float = 0.0


class Forecast:
    """Predicts from the turns that were taken how long those to come will take.

    max_turns: of a question. questions: how many turns each has taken before, and whether it goes on.

    A question ends in its turn of each number as often as those did that came to it (a life table, as of Kaplan and
    Meier 1958); where few came yet, as often as in other turns. Who ends in the first turn says little of who goes on.
    """

    def __init__(self, max_turns: int, questions: Iterable[tuple[int, bool]] = ()) -> None:
        self.max_turns = max_turns
        self.reached: Counter[int] = Counter()
        """How many active questions have taken so many turns."""
        self.passed: Counter[int] = Counter()
        self.ended: Counter[int] = Counter()
        """How many questions took their turn of this number, and how many ended in it."""
        for turns, active in questions:
            self.passed.update(range(turns))
            if active:
                self.reached[turns] += 1
            elif turns:
                self.ended[turns - 1] += 1
        self._now = Mark()
        self._starts = [Mark()]
        """From where the pace may be measured: the end of the first batch, and the beginnings of phases after it."""
        self._first_batch = 0
        self._batches: deque[int] = deque(maxlen=BATCHES)
        self.range: tuple[float, float] | None = None
        """The shortest and the longest time left that are likely, in seconds; None where too little is known."""

    def began_phase(self) -> None:
        """From now on turns are taken in another way."""
        self._starts.append(self._now)

    def failed(self, turns: int) -> None:
        """A question goes on no more that took so many turns; it says nothing of others."""
        self.reached[turns] -= 1

    def took(self, number: int, batch: int, seconds: float, *, ended: bool) -> None:
        """A question took its turn of this number in such a batch, so many seconds after the clock began."""
        self.passed[number] += 1
        self.reached[number] -= 1
        self.ended[number] += ended
        self.reached[number + 1] += not ended
        turns, _, cost = self._now
        self._now = Mark(turns + 1, seconds, cost + _cost(batch))
        if turns <= self._first_batch:
            self._first_batch = max(self._first_batch, batch)
        if turns < self._first_batch:
            self._starts = [self._now]
        self._batches.append(batch)
        self.range = self._told()

    def _told(self) -> tuple[float, float] | None:
        turns, error = self.turns_to_come()
        if turns < 0.5:
            return None
        pace, pace_error = self._pace()
        middle = pace * self._cost_to_come()
        spread = math.exp(LIKELY * math.hypot(error / turns, pace_error))
        least = max(KNOWN_SECONDS, KNOWN_SHARE * (self._now.seconds + middle))
        known = self._now.seconds >= least and spread**2 <= WIDEST_RANGE
        # told once, told to the end
        return (middle / spread, middle * spread) if known or self.range else None

    def turns_to_come(self) -> tuple[float, float]:
        """Return how many turns are expected still, and the standard deviation of that.

        Its parts: what is not known of the hazard of a turn, what is not known of the hazard in turns that nobody
        took yet, and chance.
        """
        hazards, common_variance = self._hazards()
        # how many turns a question takes from one of a number on, from the last number down
        rest = [0.0]
        for hazard in reversed(hazards):
            rest.append(1 + (1 - hazard) * rest[-1])
        rest.reverse()
        coming = expected = variance = by_common = 0.0
        for number, hazard in enumerate(hazards):
            coming += self.reached[number]
            expected += self.reached[number] * rest[number]
            seen, after = self.passed[number] + _alike(number), rest[number + 1]
            chance = hazard * (1 - hazard) * coming * after**2
            variance += chance + chance * coming / (seen + 1)
            by_common += coming * after * _alike(number) / seen
            coming *= 1 - hazard
        return expected, math.sqrt(variance + by_common**2 * common_variance)

    def _hazards(self) -> tuple[list[float], float]:
        """Return how often a question ends in its turn of each number, and the variance of what is common to them."""
        sums, weights = USUAL_HAZARD * USUAL_WEIGHT, USUAL_WEIGHT
        for number in range(1, self.max_turns - 1):
            if passed := self.passed[number]:
                weight = passed / (passed + ALIKE)
                sums += weight * self.ended[number] / passed
                weights += weight
        common = sums / weights
        hazards = [
            (self.ended[number] + _alike(number) * common) / (self.passed[number] + _alike(number))
            for number in range(self.max_turns - 1)
        ]
        return [*hazards, 1.0], common * (1 - common) / (ALIKE + 1) / weights

    def _cost_to_come(self) -> float:
        """Return what the turns to come cost, of which all that wait take one side by side, and so on."""
        staying = 1 - np.array(self._hazards()[0])
        waiting = np.array([float(self.reached[number]) for number in range(self.max_turns)])
        largest, cost = max(self._batches), 0.0
        while (count := waiting.sum()) > 0.01:
            cost += count * _cost(min(largest, count))
            waiting[1:] = (waiting * staying)[:-1]
            waiting[0] = 0
        return cost

    def _pace(self) -> tuple[float, float]:
        """Return the seconds that a turn takes for its cost, and the error of that."""
        now = self._now
        fewest = max(FEWEST_TURNS, self._batches[-1])
        for start in reversed(self._starts):
            if now.turns - start.turns >= fewest and now.cost > start.cost:
                return (now.seconds - start.seconds) / (now.cost - start.cost), PACE_ERROR
        under_way = max(0, self._first_batch - now.turns)
        return now.seconds / (now.cost + under_way * _cost(self._first_batch)), FIRST_PACE_ERROR


def _alike(number: int) -> int:
    """Return how many questions in a turn of this number others stand for; the first is less like them."""
    return ALIKE if number else 1


def _cost(batch: float) -> float:
    """Return what a turn costs in a batch, against one that is alone."""
    return float(max(1.0, batch) ** -BATCH_SAVING)
