"""The time that is left of a run: what its dialogues may still be, in simulated futures, times what turns have cost."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

KNOWN_SHARE, KNOWN_SECONDS = 0.03, 20.0
"""Nothing is told before a run has taken this share of its time and these seconds."""

LIKELY = 1.28
"""What is told reaches so many standard deviations to both sides, in which the truth lies four times of five."""

SHARP_RANGE, WIDEST_RANGE = 2.25, 6.0
"""The longest time that is likely is at most so many times the shortest where one number is told, or a range at all."""

FUTURES, FEWEST_FUTURES, SIMULATED = 64, 16, 16384
"""So many futures are simulated, and fewer where all would have more dialogues than this, as chance evens out over many."""

USUAL_ENDS, USUAL_TURNS = 1, 4
"""How often questions usually end in a turn: what is known of it before a run is as if so many of so many had."""

ALIKE = 4
"""Turns, kinds and runs are as alike as if each told of any other what so many questions in it would."""

DRIFT, STEEPEST = 0.3, 1.0
"""The standard deviation of what is added to the log odds of an end from a turn to the next, and the most of it that is learnt from one turn."""

ALONE = 2.0
"""A reply that is generated alone takes so many times what else its turn does, as far as a run has not shown it."""

BATCHES = 8
"""Batches to come are as large as the largest of so many turns of late, as long as enough questions wait."""

FEWEST_TURNS = 12
"""Turns are timed in blocks of so many, and of a whole batch at the least; what is guessed of their cost counts as one block."""

REMEMBERED = 0.25, 100
"""A block counts half as much after this share of the turns, and these turns at the least."""

PACE_ERROR = 0.15
"""The standard deviation of the pace to come, as a logarithm."""

Array = np.ndarray[Any, np.dtype[np.float64]]


class Dialogue(NamedTuple):
    """A question's dialogue so far: its type, the tokens of each reply, and whether it goes on."""

    kind: str
    replies: Sequence[float] = ()
    active: bool = False


class Counts:
    """How many questions of each kind took their turn of each number, and ended in it; and the tokens of those turns, sorted."""

    def __init__(self, kinds: int, max_turns: int) -> None:
        self.passed = np.zeros((kinds, max_turns))
        self.ended = np.zeros((kinds, max_turns))
        self.tokens: list[list[float]] = [[] for _ in range(max_turns)]

    def add(self, kind: int, number: int, tokens: float, *, ended: bool) -> None:
        """Count a turn."""
        self.passed[kind, number] += 1
        self.ended[kind, number] += ended
        insort(self.tokens[number], tokens)


class Forecast:
    """Predicts from the turns that were taken how long those to come will take.

    max_turns: of a question. dialogues: of the run, in the order in which they are played. earlier: those of an earlier
    run of the same model. batched_turns: that all questions take together, each turn begun when all had the one before.
    finish_together: how many then go on side by side, None where as many as the engine takes.

    Dialogues are continued many times by chance. A question ends in its turn of each number as often as those of its
    kind did that came to it (a life table, as of Kaplan and Meier 1958); where few did, as often as those of all kinds,
    else as in the earlier run, else about as often as in the turn before. Its replies stay as long as its last one, or,
    where it has none, of one rank among those in turns of each number. A turn costs some time, and so does a step of
    the engine, which adds a token to each reply of a batch: the steps are those of the longest dialogue where few are
    left.
    """

    def __init__(
        self,
        max_turns: int,
        dialogues: Sequence[Dialogue],
        earlier: Sequence[Dialogue] = (),
        batched_turns: int = 0,
        finish_together: int | None = None,
    ) -> None:
        self.max_turns = max_turns
        self.batched_turns = batched_turns
        self.finish_together = finish_together
        kinds = {kind: n for n, kind in enumerate(sorted({d.kind for d in [*dialogues, *earlier]}))}
        self._kinds = np.array([kinds[d.kind] for d in dialogues], int)
        self._turns = np.array([len(d.replies) for d in dialogues], int)
        self._last = np.array([d.replies[-1] if d.replies else 0.0 for d in dialogues])
        self._active = np.array([d.active for d in dialogues], bool)
        self._now, self._before = Counts(len(kinds), max_turns), Counts(len(kinds), max_turns)
        for counts, several in (self._now, dialogues), (self._before, earlier):
            for kind, replies, active in several:
                for number, tokens in enumerate(replies):
                    ended = not active and number + 1 == len(replies)
                    counts.add(kinds[kind], number, tokens, ended=ended)
        self._cost = Cost(len(dialogues))
        self._unlike = 0
        """How many turns were in another batch than the turn before, less those in one as large."""
        self._batches: deque[int] = deque([1], maxlen=BATCHES)

    def began_phase(self) -> None:
        """From now on each question is taken to its end."""
        self.batched_turns = 0

    def failed(self, place: int) -> None:
        """The question at a place goes on no more; it says nothing of others."""
        self._active[place] = False
        self._forget()

    def took(self, place: int, batch: int, seconds: float, tokens: float, *, ended: bool) -> None:
        """The question at a place took a turn in such a batch, so many seconds after the clock began.

        tokens: of its reply, 0 where the engine does not tell them.
        """
        tokens = max(1.0, tokens)
        self._now.add(self._kinds[place], self._turns[place], tokens, ended=ended)
        self._turns[place] += 1
        self._last[place] = tokens
        self._active[place] = not ended
        self._unlike += 1 if batch != self._batches[-1] else -1
        self._batches.append(batch)
        self._cost.add(batch, tokens, seconds)
        self._forget()

    @cached_property
    def range(self) -> tuple[float, float] | None:
        """The shortest and the longest time left that are likely, in seconds; None where too little is known."""
        if (rates := self._cost.rates()) is None or not self._active.any():
            return None
        left = np.log(np.maximum(self.futures @ rates, 1e-3))
        middle = math.exp(left.mean())
        spread = math.exp(LIKELY * math.hypot(left.std(), PACE_ERROR))
        least = max(KNOWN_SECONDS, KNOWN_SHARE * (self._cost.clock + middle))
        known = self._cost.clock >= least and spread**2 <= WIDEST_RANGE
        return (middle / spread, middle * spread) if known else None

    @cached_property
    def futures(self) -> Array:
        """The turns to come, and the steps of the engine, in each future."""
        rng = np.random.default_rng(0)
        places = np.flatnonzero(self._active)
        futures = min(FUTURES, max(FEWEST_FUTURES, SIMULATED // max(1, len(places))))
        turns, several = self._turns[places], (futures, len(places))
        hazards, pools = self._hazards(rng, futures)[:, self._kinds[places]], self._pools()
        ranks = rng.random(several)
        batch = max(self._batches)
        alive, tokens = np.ones(several, bool), np.zeros(several)
        coming = np.zeros((futures, 2))
        for number in range(turns.min(initial=self.max_turns), self.max_turns):
            taking = alive & (turns <= number)
            pool = pools[number]
            drawn = pool[(ranks * len(pool)).astype(int)]
            replies = taking * np.where(turns > 0, self._last[places], drawn)
            coming[:, 0] += taking.sum(1)
            if number < self.batched_turns:
                coming[:, 1] += np.maximum(replies.sum(1) / batch, replies.max(1))
            else:
                tokens += replies
            alive &= ~taking | (rng.random(several) >= hazards[:, :, number])
        # each begins when those before it left a place, and the last that ends is not always the last that began
        batch = min(batch, self.finish_together or batch)
        until = tokens.cumsum(1) / batch
        begin = (until - tokens / batch) * (np.arange(len(places)) >= batch)
        coming[:, 1] += np.maximum(until[:, -1:], begin + tokens).max(1)
        # where replies come one by one, the prompts of those to come next were read
        if self._unlike > 0:
            asked = turns == turns.min() if turns.min() < self.batched_turns else turns >= 0
            coming[:, 0] -= min(batch, asked.sum())
        return coming

    def _forget(self) -> None:
        """Whatever was predicted is predicted anew."""
        self.__dict__.pop("range", None)
        self.__dict__.pop("futures", None)

    def _pools(self) -> list[Array]:
        """Return the tokens of replies in a turn of each number, sorted; those of the turn before where none was taken."""
        pools, pool = [], [1.0]
        for now, before in zip(self._now.tokens, self._before.tokens, strict=True):
            pool = sorted(now + before) or pool
            pools.append(np.array(pool, float))
        return pools

    def _hazards(self, rng: np.random.Generator, futures: int) -> Array:
        """Draw how often a question ends in a turn: by future, kind and number."""
        now, before = self._now, self._before
        drawn = np.ones((futures, len(now.passed), self.max_turns))
        drift = rng.normal(self._drift(), DRIFT, futures)
        usual = rng.beta(USUAL_ENDS, USUAL_TURNS - USUAL_ENDS, futures)
        seen = int((now.passed.sum(0) >= ALIKE).sum())
        # by the rule of succession, all that was seen of so many turns is so likely to be no guide to the next
        other = np.arange(futures) < futures / (seen + 2)
        anew = rng.beta(USUAL_ENDS, USUAL_TURNS - USUAL_ENDS, futures)
        for number in range(self.max_turns - 1):
            passed, ended = now.passed[:, number], now.ended[:, number]
            known, knew = before.ended[:, number], before.passed[:, number]
            if number == seen:
                usual = np.where(other, anew, usual)
            # an earlier run says more than the turn before does; who ends in the first turn says little of who goes on
            weight = 1 if knew.any() or number <= 1 else ALIKE
            pooled = _draw(rng, usual, weight, known.sum(), knew.sum(), ended.sum(), passed.sum())
            kinds = pooled[:, None], ALIKE, known, knew, ended, passed
            drawn[:, :, number] = _draw(rng, *kinds)
            usual = 1 / (1 + (1 / pooled.clip(1e-4, 1 - 1e-4) - 1) * np.exp(-drift))
        return drawn

    def _drift(self) -> float:
        """Return by how much the log odds of an end have grown from turn to turn, as far as that is known."""
        passed, ended = self._now.passed.sum(0), self._now.ended.sum(0)
        hazards = (ended + USUAL_ENDS) / (passed + USUAL_TURNS)
        odds = np.log(hazards / (1 - hazards))[1:][passed[1:] >= ALIKE]
        steps = np.diff(odds).clip(-STEEPEST, STEEPEST)
        return float(steps.sum() / (len(steps) + ALIKE / 2))


class Cost:
    """What a turn takes beside the engine's steps, and what a step takes: both are fitted to how long blocks of turns took."""

    def __init__(self, questions: int) -> None:
        self.clock = 0.0
        self._questions = questions
        self._turns, self._tokens, self._first_batch = 0, 0.0, 0
        self._begun, self._block = 0.0, np.zeros(2)
        """When the block began that is not full, and its turns and steps."""
        self._work, self._seconds = np.zeros(2), 0.0
        self._squares, self._products = np.zeros((2, 2)), np.zeros(2)

    def add(self, batch: int, tokens: float, seconds: float) -> None:
        """Count a turn. The first batch, which reads scans and compiles, says little of others."""
        turns = self._block[0]
        if turns >= max(FEWEST_TURNS, batch) and (
            (seconds - self.clock) * turns >= self.clock - self._begun
        ):
            self._close()
        self.clock = seconds
        if self._turns <= self._first_batch:
            self._first_batch = max(self._first_batch, batch)
        self._turns += 1
        self._tokens += tokens
        # nor do those after it whose prompts were read meanwhile, where there are fewer than a second batch
        if self._turns <= min(2 * self._first_batch, max(self._questions, self._first_batch)):
            self._begun = seconds
        else:
            self._block += 1.0, tokens / batch

    def _close(self) -> None:
        """Take in a block, which ends where the next turn is waited for longer than those in it: they come in batches."""
        share, least = REMEMBERED
        turns, took = self._block[0], self.clock - self._begun
        kept = 0.5 ** (turns / max(least, share * self._turns))
        self._work = kept * self._work + self._block
        self._seconds = kept * self._seconds + took
        self._squares = kept * self._squares + np.outer(self._block, self._block) / turns
        self._products = kept * self._products + self._block * took / turns
        self._begun, self._block = self.clock, np.zeros(2)

    def rates(self) -> Array | None:
        """Return the seconds that a turn takes, and a step; None where too few turns were taken."""
        if not self._seconds > 0:
            return None
        guess = np.array([1.0, ALONE / max(self._tokens / self._turns, 1e-9)])
        guess *= self._seconds / (self._work @ guess)
        # least squares of factors of the guess, of which neither is below 0
        trust = FEWEST_TURNS * guess[0] ** 2
        squares = self._squares * np.outer(guess, guess) + trust * np.eye(2)
        products = self._products * guess + trust
        factors = np.linalg.solve(squares, products)
        if (factors < 0).any():
            factors = (factors > 0) * products / squares.diagonal()
        return np.asarray(guess * factors)


def _draw(
    rng: np.random.Generator,
    usual: Array,
    weight: float,
    known: Any,
    knew: Any,
    ended: Any,
    passed: Any,
) -> Array:
    """Draw a share of ends: `ended` of `passed` now, as ALIKE at the most `known` of `knew` before, and a usual share of a weight."""
    scale = np.minimum(1.0, ALIKE / np.maximum(knew, 1e-9))
    ends = ended + scale * known + weight * usual
    goes_on = passed + scale * knew + weight - ends
    drawn: Array = rng.beta(np.maximum(ends, 1e-3), np.maximum(goes_on, 1e-3))
    return drawn
