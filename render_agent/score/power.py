"""Power analysis: the number of scenes needed to detect a difference between two runs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from render_agent.errors import UsageError
from render_agent.score.intervals import CONFIDENCE, LEAST_SCENES
from render_agent.score.summary import OFFICIAL

CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 0.9)  # assumed correlations between two runs over scenes

MOST_SCENES = 10_000_000  # search limit of `scenes_needed`


def power_of(difference: float, deviation: float, scenes: int) -> float:
    """Return the power of a two-sided paired t test over scenes at p ≤ 5 %.

    T has scenes − 1 degrees of freedom and noncentrality difference · √scenes / deviation (Cohen 1988).

    Args:
        difference: True difference of scores, in points.
        deviation: Standard deviation of the per-scene contribution to the difference, in points.
        scenes: Number of scenes.
    """
    from scipy import special

    freedom = scenes - 1.0
    bound = special.stdtrit(freedom, (1 + CONFIDENCE) / 2)
    noncentrality = abs(difference) * math.sqrt(scenes) / deviation
    below, above = (float(special.nctdtr(freedom, noncentrality, end)) for end in (-bound, bound))
    # nctdtr is NaN far from the noncentrality, where the power is 1
    return 1.0 if math.isnan(above) else (0.0 if math.isnan(below) else below) + 1 - above


def scenes_needed(difference: float, deviation: float, power: float = 0.8) -> int | None:
    """Return the smallest number of scenes with this power, at least LEAST_SCENES; None above MOST_SCENES."""
    numbers = range(LEAST_SCENES, MOST_SCENES + 1)
    position = bisect_left(
        numbers, power, key=lambda scenes: power_of(difference, deviation, scenes)
    )
    return numbers[position] if position < len(numbers) else None


def difference_seen(deviation: float, scenes: int, power: float = 0.8) -> float:
    """Return the minimum detectable difference in points for a number of scenes and a power."""
    low, high = 0.0, 100 * deviation + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power_of(middle, deviation, scenes) < power else (low, middle)
    return high


def plan(
    results: Mapping[str, Any],
    difference: float,
    power: float,
    compared: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sample size needed to detect a difference of official scores, and the run's minimum detectable difference.

    The per-scene deviation of the run's score is error · √scenes. That of its difference from another run is
    √(2 (1 − r)) times larger, if both vary equally and with correlation r.

    Args:
        results: Results of a run.
        difference: The difference to detect, in points.
        power: The power to reach, from 0 to 1.
        compared: Comparison with a second run; its measured deviation replaces the assumed correlations.

    Raises:
        UsageError: There are too few scenes, or they do not differ.
    """
    error = results["errors"].get(OFFICIAL)
    if error is None or error["scenes"] < LEAST_SCENES:
        raise UsageError(
            f"cannot estimate the variance between scenes from fewer than {LEAST_SCENES} scenes. Choose a larger run."
        )
    scenes, run_deviation = error["scenes"], error["error"] * math.sqrt(error["scenes"])
    if compared is None:
        deviations: dict[float | None, float] = {
            r: run_deviation * math.sqrt(2 * (1 - r)) for r in CORRELATIONS
        }
    else:
        entry = compared["differences"][OFFICIAL]
        deviations = {None: entry["error"] * math.sqrt(entry["scenes"])}
    if not all(deviations.values()):
        raise UsageError(
            "cannot estimate the variance between scenes: all have the same score. Choose other runs."
        )
    rows = []
    for correlation, deviation in deviations.items():
        needed = scenes_needed(difference, deviation, power)
        rows.append(
            {
                "correlation": correlation,
                "deviation": deviation,
                "scenes": needed,
                "questions": None if needed is None else math.ceil(needed * results["n"] / scenes),
                "seen": difference_seen(deviation, scenes, power),
            }
        )
    return {
        "difference": difference,
        "power": power,
        "official": results["official_over_scored"]["score"],
        "scenes": scenes,
        "questions": results["n"],
        "deviation": run_deviation,
        "needs": rows,
    }
