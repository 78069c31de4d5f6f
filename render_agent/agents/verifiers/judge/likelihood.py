"""Probabilities of words from the log-probabilities of the ways to write them."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log


def log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of a sum of probabilities, of their logarithms; -inf where all are 0."""
    most = max(logs)
    return most if most == -inf else most + log(sum(exp(value - most) for value in logs))


def log_odds(logs: Sequence[float], first: int) -> tuple[float, float] | None:
    """Return the log-odds of one word against another, and the probability of either.

    logs: of every way to write them, of the first word the `first` ones. None where both have no
    probability at all, or where a figure is none.
    """
    one, other = log_sum(logs[:first]), log_sum(logs[first:])
    if one == other == -inf or one != one or other != other:
        return None
    return one - other, min(1.0, exp(log_sum([one, other])))
