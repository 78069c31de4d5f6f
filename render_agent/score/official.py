"""How VSI-Bench's official code reads and scores an answer (thinking-in-space).

Scores are fractions between 0 and 1; tables and `results.json` show them times 100.
"""

from __future__ import annotations

import math
from bisect import bisect_left

THRESHOLDS = (*(0.5 + step * ((0.95 - 0.5) / 9) for step in range(9)), 0.95)
"""The ten thresholds of mean relative accuracy, as `numpy.linspace(0.5, 0.95, 10)` gives them."""

LARGEST_ERRORS = tuple(1 - threshold for threshold in reversed(THRESHOLDS))
"""How far off an answer may be to pass each of them, the strictest first."""


def first_word(prediction: str) -> str:
    """Return the first word of a prediction without its full stop, as the official scorer reads it."""
    return prediction.split(" ")[0].rstrip(".").strip()


def mean_relative_accuracy(prediction: float, truth: float) -> float:
    """Return the share of thresholds t for which |prediction - truth| / |truth| <= 1 - t.

    The official code says `<=` where the paper says `<`; ties count here too.
    """
    if truth == 0:  # not in VSI-Bench; a file of one's own may ask for it
        return float(prediction == 0)
    error = abs(prediction - truth) / abs(truth)
    if math.isnan(error):
        return 0.0
    return (len(LARGEST_ERRORS) - bisect_left(LARGEST_ERRORS, error)) / len(LARGEST_ERRORS)
