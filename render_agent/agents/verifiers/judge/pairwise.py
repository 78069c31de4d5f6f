"""Pictures of one state compared two by two, and what share of its comparisons each wins.

Every two are compared in both orders, since judges prefer a place, often the first, whatever stands
there. Where the engine gives probabilities, a comparison's log-odds are the mean over both orders:
a liking for a place that adds to the log-odds cancels exactly. Where replies are written, an order is
won or lost, and a pair whose orders contradict each other is a tie. A picture's value is its win
share, the mean of its wins over the others (Copeland's rule, with shares of a win): unlike a
strength by Bradley and Terry, which orders complete comparisons the same way, it needs no fit, and
stays finite where a picture wins all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import exp


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one order of a comparison says: above 0 that the first picture is better.

    log_odds: of the first against the second; plus or minus 1 where a reply only names one.
    """

    log_odds: float
    named: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """How one picture stands: its win share, None where none of its comparisons could be read.

    compared: with how many others. consistent: the share of them in which both orders say the same.
    """

    share: float | None
    compared: int
    consistent: float | None


def orders(count: int) -> list[tuple[int, int]]:
    """Return every ordered pair of so many pictures; the two orders of a pair are both there."""
    return list(permutations(range(count), 2))


def standings(count: int, outcomes: Mapping[tuple[int, int], Outcome]) -> list[Standing]:
    """Return how each of so many pictures stands.

    outcomes: by ordered pair. A pair of which one order is missing is left out, for both: half of it
    would be the liking for a place.
    """
    return [_standing(count, number, outcomes) for number in range(count)]


def _standing(count: int, number: int, outcomes: Mapping[tuple[int, int], Outcome]) -> Standing:
    both = [
        (outcomes[number, other], outcomes[other, number])
        for other in range(count)
        if (number, other) in outcomes and (other, number) in outcomes
    ]
    if not both:
        return Standing(None, 0, None)
    return Standing(
        _mean([_win(first, second) for first, second in both]),
        len(both),
        _mean([float(first.log_odds * second.log_odds < 0) for first, second in both]),
    )


def _win(first: Outcome, second: Outcome) -> float:
    """Return the share of a win, 0 to 1; first: the order in which the picture comes first."""
    if first.named or second.named:
        return ((first.log_odds > 0) + (second.log_odds < 0)) / 2
    return probability((first.log_odds - second.log_odds) / 2)


def probability(log_odds: float) -> float:
    """Return the probability of log-odds, exact at both ends."""
    if log_odds < 0:
        small = exp(log_odds)
        return small / (1 + small)
    return 1 / (1 + exp(-log_odds))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
