"""Power analysis: the number of scenes needed to detect a difference between two runs."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from render_agent.errors import UsageError
from render_agent.score.intervals import CONFIDENCE, MIN_SCENES
from render_agent.score.summary import OFFICIAL_RAW
from render_agent.util.display import count_noun

CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 0.9)  # assumed correlations between two runs over scenes

# With fewer scenes in the pilot run, the required number of scenes is uncertain by more than a factor of five.
MIN_PILOT_SCENES = 16

MAX_SCENES = 10_000_000  # search limit of `scenes_needed`


def power_of(
    difference: float,
    # standard deviation of the per-scene contribution to the difference, in points
    deviation: float,
    scenes: int,
) -> float:
    """Return the power of a two-sided paired t test over scenes at p ≤ 5 %.

    T has scenes − 1 degrees of freedom and noncentrality difference · √scenes / deviation (Cohen 1988).
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
    numbers = range(MIN_SCENES, MAX_SCENES + 1)
    position = bisect_left(
        numbers, power, key=lambda scenes: power_of(difference, deviation, scenes)
    )
    return numbers[position] if position < len(numbers) else None


def detectable_difference(deviation: float, scenes: int, power: float = 0.8) -> float:
    """Return the minimum detectable difference in points for a number of scenes and a power."""
    low, high = 0.0, 100 * deviation + 1e-9
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if power_of(middle, deviation, scenes) < power else (low, middle)
    return high


def deviation_interval(deviation: float, kurtosis: float, scenes: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a standard deviation (Bonett 2006), with a quantile of Student's t.

    The kurtosis accounts for tails that are heavier or lighter than those of a normal distribution.
    """
    from scipy import special

    normal = special.ndtri((1 + CONFIDENCE) / 2)
    t = special.stdtrit(scenes - 1.0, (1 + CONFIDENCE) / 2)
    correction = scenes / (scenes - normal)
    variance_term = max(kurtosis - (scenes - 3) / scenes, 0.0) / (scenes - 1)
    reach = t * correction * math.sqrt(variance_term)
    low, high = (deviation * math.sqrt(correction * math.exp(end)) for end in (-reach, reach))
    return low, high


def plan(
    results: Mapping[str, Any],
    difference: float,
    power: float,
    comparison: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the sample size needed to detect a difference of scores, and the run's minimum detectable difference.

    The per-scene deviation of the run's score is error · √scenes. The deviation of a difference between runs is √(2
    (1 − r)) times larger if both vary equally with correlation r. Both are estimated from the scenes of the run, so
    every number has a 95 % interval (null above MOST_SCENES).
    """
    entry = (
        results["errors"].get(OFFICIAL_RAW)
        if comparison is None
        else comparison["differences"].get(OFFICIAL_RAW)
    )
    scenes = 0 if entry is None else entry["scenes"]
    if entry is None or scenes < MIN_PILOT_SCENES:
        raise UsageError(
            f"cannot plan from {count_noun(scenes, 'scene')}: their variance is too uncertain. Use runs of at least"
            f" {MIN_PILOT_SCENES} scenes."
        )
    pilot_deviation = entry.get("error", 0.0) * math.sqrt(scenes)
    factors: dict[float | None, float] = (
        {r: math.sqrt(2 * (1 - r)) for r in CORRELATIONS} if comparison is None else {None: 1.0}
    )
    if not pilot_deviation or entry.get("kurtosis") is None:
        raise UsageError(
            "cannot estimate the variance between scenes: all have the same score, or the method of the intervals has no"
            " standard error. Choose other runs."
        )
    bounds = deviation_interval(pilot_deviation, entry["kurtosis"], scenes)
    rows = []
    for correlation, factor in factors.items():
        num_scenes, *interval = (
            scenes_needed(difference, factor * deviation, power)
            for deviation in (pilot_deviation, *bounds)
        )
        rows.append(
            {
                "correlation": correlation,
                "deviation": factor * pilot_deviation,
                "scenes": num_scenes,
                "scenes_interval": interval,
                "questions": None
                if num_scenes is None
                else math.ceil(num_scenes * results["n"] / scenes),
                "seen": detectable_difference(factor * pilot_deviation, scenes, power),
                "seen_interval": [
                    detectable_difference(factor * end, scenes, power) for end in bounds
                ],
            }
        )
    run_error = results["errors"][OFFICIAL_RAW]
    return {
        "difference": difference,
        "power": power,
        "official": results["official_over_scored"]["score"],
        "official_raw": results[OFFICIAL_RAW],
        "scenes": scenes,
        "questions": results["n"],
        "deviation": run_error["error"] * math.sqrt(run_error["scenes"]),
        "needs": rows,
    }
