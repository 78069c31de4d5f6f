"""The time that is left of a run: what its dialogues may still be, in simulated futures, times what turns have cost."""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

KNOWN_SHARE, KNOWN_SECONDS = 0.03, 5.0
"""Nothing is told before a run has taken this share of its time and these seconds."""

KNOWN_TURNS = 0.25
"""While no dialogue has ended, nothing is told before one has taken this share of its turns: it may end in the next one or never."""

LIKELY = 1.28
"""What is told reaches so many standard deviations to both sides, in which the truth lies four times of five."""

SHARP_RANGE, WIDEST_RANGE = 2.25, 4.5
"""The longest time that is likely is at most so many times the shortest where one number is told, or a range at all."""

FUTURES, FEWEST_FUTURES, SIMULATED = 64, 16, 16384
"""So many futures are simulated, and fewer where all would have more dialogues than this, as chance evens out over many."""

USUAL_ENDS, USUAL_TURNS = 1, 4
"""How often questions usually end in a turn: what is known of it before a run is as if so many of so many had."""

ALIKE = 4
"""Turns, kinds and runs are as alike as if each told of any other what so many questions in it would."""

DRIFT, STEEPEST = 0.3, 1.0
"""The standard deviation of what is added to the log odds of an end from a turn to the next, and the most of it that is learnt from one turn."""

ALONE = 1.5
"""A reply that is generated alone takes so many times what else its turn does, as far as a run has not shown it."""

BATCHES = 256
"""Batches to come are as large as the largest of so many turns of late, as long as enough questions wait."""

ODD_SHARE = 0.1
"""Batches are taken as a whole where at most this share of the turns is waited for within a batch."""

FEWEST_TURNS, LONG_SHARE = 12, 0.05
"""Turns are timed in blocks of so many and of a whole batch, or, where they end one by one, of this share of the time.

What is guessed of their cost counts as one block.
"""

GUESS_ERROR = 0.3
"""The standard deviation of what is guessed of the cost of turns, as a share."""

REMEMBERED = 0.25, 100
"""A block counts half as much after this share of the turns, and these turns at the least."""

PACE_ERROR = 0.15
"""The standard deviation of the pace to come, as a logarithm."""

Array = np.ndarray[Any, np.dtype[np.float64]]
Places = np.ndarray[Any, np.dtype[np.intp]]


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
    finish_together: how many then go on side by side, None where as many as the engine takes. longest: tokens of a reply
    at the most.

    Dialogues are continued many times by chance. A question ends in its turn of each number as often as those of its
    kind did that came to it (a life table, as of Kaplan and Meier 1958); where few did, as often as those of all kinds,
    else as in the earlier run, else about as often as in the turn before. Its replies stay as long as its last one, or,
    where it has none, of one rank among those in turns of each number. A reply that is not there yet is longer than
    what the engine has written since it began, and one that reaches its limit ends no dialogue. A turn costs some time
    as it begins, and so does a step of the engine, which adds a token to each reply of a batch: the steps are those of
    the longest dialogue where few are left.
    """

    def __init__(
        self,
        max_turns: int,
        dialogues: Sequence[Dialogue],
        earlier: Sequence[Dialogue] = (),
        batched_turns: int = 0,
        finish_together: int | None = None,
        longest: float = math.inf,
    ) -> None:
        self.max_turns = max_turns
        self.batched_turns = batched_turns
        self.finish_together = finish_together
        self.longest = longest
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
        self._cost = Cost()
        self._taken = np.zeros(2)
        """First turns of questions, and later ones."""
        self._steps = 0.0
        """Of the engine, as far as the replies that are there tell."""
        self._since = np.full(len(dialogues), np.inf)
        """By question, after how many steps the reply that is not there yet began; infinite where it may not have begun."""
        self._alike, self._odd = 0, 0.0
        """How many turns in a row were of batches of one size; how many more were waited for within a batch than ODD_SHARE."""
        self._batches: deque[int] = deque([1], maxlen=BATCHES)

    def began_phase(self) -> None:
        """From now on each question is taken to its end."""
        self.batched_turns = 0

    def failed(self, place: int) -> None:
        """The question at a place goes on no more; it says nothing of others."""
        self._active[place] = False
        self._alike += 1
        self._forget()

    def took(self, place: int, batch: int, seconds: float, tokens: float, *, ended: bool) -> None:
        """The question at a place took a turn in such a batch, so many seconds after the clock began.

        tokens: of its reply, 0 where the engine does not tell them.
        """
        tokens, number = max(1.0, tokens), self._turns[place]
        self._now.add(self._kinds[place], number, tokens, ended=ended)
        self._turns[place] += 1
        self._last[place] = tokens
        self._active[place] = not ended
        same = self._batches[-1] == batch
        # a batch that is taken as a whole has its waits behind its last turn, other ones anywhere
        waits = not same or (self._cost.warm and self._cost.waits(seconds))
        self._odd += bool(waits and self._alike % self._batches[-1]) - ODD_SHARE
        self._alike *= same
        self._alike += 1
        self._batches.append(batch)
        self._taken[min(number, 1)] += 1
        self._steps += tokens / batch
        # those before it in the line began no later
        waited = self._active[:place] & (self._turns[:place] <= number)
        since = self._since[:place]
        since[waited & np.isinf(since)] = self._steps - tokens
        self._since[place] = self._steps if number >= self.batched_turns else np.inf
        done = np.array([*self._taken + self._by_class(self._in_flight()), self._steps])
        self._cost.add(batch, tokens, done, seconds, one_by_one=self._one_by_one)
        self._forget()

    @property
    def _one_by_one(self) -> bool:
        """Whether another turn begins as soon as one ends, while others go on."""
        return self._odd > 0

    def _in_flight(self) -> Places:
        """Return the places of questions whose turns were begun and did not end, where they do one by one."""
        asked = np.flatnonzero(self._active)
        side_by_side = max(self._batches) if self._one_by_one else 0
        turns = self._turns[asked]
        if turns.min(initial=self.max_turns) < self.batched_turns:
            asked = asked[turns == turns.min()]
        elif self.finish_together:
            side_by_side = min(side_by_side, self.finish_together)
        return asked[:side_by_side]

    def _by_class(self, places: Places) -> Array:
        """Return of how many questions the next turn is their first one, and of how many a later one."""
        firsts = np.count_nonzero(self._turns[places] == 0)
        return np.array([firsts, len(places) - firsts], float)

    @cached_property
    def range(self) -> tuple[float, float] | None:
        """The shortest and the longest time left that are likely, in seconds; None where too little is known."""
        if not self._active.any() or (rates := self._cost.rates(len(self.futures))) is None:
            return None
        left = np.log(np.maximum((self.futures * rates).sum(1), 1e-3))
        middle = math.exp(left.mean())
        spread = math.exp(LIKELY * math.hypot(left.std(), PACE_ERROR))
        least = max(KNOWN_SECONDS, KNOWN_SHARE * (self._cost.clock + middle))
        ends = self._now.ended.any() or self._before.ended.any()
        known = ends or self._turns.max() >= KNOWN_TURNS * self.max_turns
        known = known and self._cost.clock >= least and spread**2 <= WIDEST_RANGE
        return (middle / spread, middle * spread) if known else None

    @cached_property
    def futures(self) -> Array:
        """The first turns of questions that begin, the later ones, and the steps of the engine, in each future."""
        rng = np.random.default_rng(0)
        places = np.flatnonzero(self._active)
        futures = min(FUTURES, max(FEWEST_FUTURES, SIMULATED // max(1, len(places))))
        turns, several = self._turns[places], (futures, len(places))
        hazards, pools = self._hazards(rng, futures)[:, self._kinds[places]], self._pools()
        ranks = rng.random(several)
        batch = max(self._batches)
        flying = self._in_flight()
        written = np.maximum(self._steps - self._since[places], 0.0) * np.isin(places, flying)
        lengths = self._lengths(pools, ranks, places, written)
        alive, tokens = np.ones(several, bool), np.zeros(several)
        coming = np.zeros((futures, 3))
        for number in range(turns.min(initial=self.max_turns), self.max_turns):
            taking = alive & (turns <= number)
            pool = pools[number]
            drawn = pool[(ranks * len(pool)).astype(int)]
            replies = np.where(lengths > 0, lengths, drawn) * taking
            ends = (rng.random(several) < hazards[:, :, number]) & (replies != self.longest)
            alive &= ~(taking & ends)
            coming[:, min(number, 1)] += taking.sum(1)
            replies -= np.minimum(replies, np.where(turns == number, written, 0.0))
            if number < self.batched_turns:
                coming[:, 2] += np.maximum(replies.sum(1) / batch, replies.max(1))
            else:
                tokens += replies
        # each begins when those before it left a place, and the last that ends is not always the last that began
        batch = min(batch, self.finish_together or batch)
        until = tokens.cumsum(1) / batch
        begin = (until - tokens / batch) * (np.arange(len(places)) >= batch)
        coming[:, 2] += np.maximum(until[:, -1:], begin + tokens).max(1)
        coming[:, :2] -= self._by_class(flying)
        return coming

    def _lengths(
        self, pools: Sequence[Array], ranks: Array, places: Places, written: Array
    ) -> Array:
        """Return the tokens of each reply to come of questions at places, by future; 0 where a question tells nothing of its own.

        written: tokens of the replies that are not there yet.
        """
        last = self._last[places]
        lengths = np.tile(last, (len(ranks), 1))
        for n in np.flatnonzero(written > last):
            pool = pools[self._turns[places[n]]]
            longer = pool[np.searchsorted(pool, written[n], "right") :]
            rank = ranks[:, n] * (len(longer) + 1)
            # one more than have been seen is the longest: as likely as not twice as long as the one before it
            longest = longer.max(initial=written[n]) / np.maximum(len(longer) + 1 - rank, 1e-3)
            drawn = np.append(longer, 0.0)[rank.astype(int)]
            lengths[:, n] = np.where(rank < len(longer), drawn, longest.clip(max=self.longest))
        return lengths

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
    """What a first turn takes beside the engine's steps, a later turn, and a step: fitted to how long blocks of turns took."""

    def __init__(self) -> None:
        self.clock = 0.0
        self._turns, self._tokens = 0, 0.0
        self._done, self._one_by_one = np.zeros(3), False
        self._begun, self._before, self._block = 0.0, np.zeros(3), 0
        """When the block began that is not full, what was done before it, and its turns."""
        self.warm = False
        """Whether the first block is full, which reads scans and compiles, and says little of others."""
        self._work, self._seconds = np.zeros(3), 0.0
        self._squares, self._products = np.zeros((3, 3)), np.zeros(3)

    def add(
        self, batch: int, tokens: float, done: Array, seconds: float, *, one_by_one: bool
    ) -> None:
        """Count a turn.

        done: first turns that were begun, later ones, and steps, until then. one_by_one: whether another turn begins as
        soon as one ends.
        """
        full = self._block >= max(FEWEST_TURNS * self.warm, batch)
        if one_by_one:
            long = self.clock - self._begun >= LONG_SHARE * self.clock
            full = self._block >= FEWEST_TURNS or (self.warm and long)
        if full and self.waits(seconds):
            self._close()
        if not self._turns or one_by_one != self._one_by_one:
            self._begun, self._before, self._block = seconds, done, 0
        self.clock, self._done, self._one_by_one = seconds, done, one_by_one
        self._turns += 1
        self._tokens += tokens
        self._block += 1

    def waits(self, seconds: float) -> bool:
        """Whether a turn at this time is waited for longer than those of its block before it."""
        waited = seconds - self.clock
        return waited > 0 and waited * self._block >= self.clock - self._begun

    def _close(self) -> None:
        """Take in a block, which ends where the next turn is waited for longer than those in it: they come in batches."""
        share, least = REMEMBERED
        turns, took = self._block, self.clock - self._begun
        work = (self._done - self._before).clip(min=0.0)
        if self.warm:
            kept = 0.5 ** (turns / max(least, share * self._turns))
            self._work = kept * self._work + work
            self._seconds = kept * self._seconds + took
            self._squares = kept * self._squares + np.outer(work, work) / turns
            self._products = kept * self._products + work * took / turns
        self.warm = True
        self._begun, self._before, self._block = self.clock, self._done, 0

    def rates(self, futures: int) -> Array | None:
        """Draw the seconds of a first turn, a later one, and a step, by future; None where too few turns were taken."""
        if not self._seconds > 0:
            return None
        guess = np.array([1.0, 1.0, ALONE * self._turns / max(self._tokens, 1e-9)])
        guess *= self._seconds / (self._work @ guess)
        # least squares of factors of the guess, of which none is below 0
        trust = FEWEST_TURNS * guess[0] ** 2
        squares = self._squares * np.outer(guess, guess) + trust * np.eye(3)
        products = self._products * guess + trust
        free = np.ones(3, bool)
        for _ in guess:
            factors = np.zeros(3)
            factors[free] = np.linalg.solve(squares[np.ix_(free, free)], products[free])
            free = factors > 0
        error = GUESS_ERROR**2 * trust * np.linalg.inv(squares)
        # by another seed than futures are, with the mean and the deviation that were fitted
        drawn = np.random.default_rng(1).standard_normal((futures, len(guess)))
        drawn = (drawn - drawn.mean(0)) / drawn.std(0)
        drawn = factors + drawn @ np.linalg.cholesky(error).T
        return np.asarray(guess * np.maximum(drawn, 0.0))


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
