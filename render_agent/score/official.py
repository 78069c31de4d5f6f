"""Reads and scores answers like VSI-Bench's official code (thinking-in-space).

Scores are fractions between 0 and 1; tables and `results.json` show percentages.
"""

from __future__ import annotations

import math
from bisect import bisect_left

# Thresholds of mean relative accuracy, as returned by `numpy.linspace(0.5, 0.95, 10)`.
THRESHOLDS = (*(0.5 + step * ((0.95 - 0.5) / 9) for step in range(9)), 0.95)

LARGEST_ERRORS = tuple(1 - threshold for threshold in reversed(THRESHOLDS))  # strictest first


def first_word(prediction: str) -> str:
    """Return the first word of a prediction without a trailing full stop, as the official scorer does."""
    return prediction.split(" ")[0].rstrip(".").strip()


def mean_relative_accuracy(prediction: float, truth: float) -> float:
    """Return the share of thresholds t for which |prediction - truth| / |truth| <= 1 - t.

    The official code uses `<=` although the paper has `<`, so ties count here too.
    """
    if truth == 0:  # does not occur in VSI-Bench but may in custom question files
        return float(prediction == 0)
    error = abs(prediction - truth) / abs(truth)
    if math.isnan(error):
        return 0.0
    return (len(LARGEST_ERRORS) - bisect_left(LARGEST_ERRORS, error)) / len(LARGEST_ERRORS)
