"""How many scenes a difference between two runs needs to be seen, from how much scenes differ in a run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

from render_agent.errors import UsageError
from render_agent.score.intervals import CONFIDENCE, LEAST_SCENES
from render_agent.score.summary import OFFICIAL

CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 0.9)
"""How far two runs may rise and fall together from scene to scene, where it was not measured."""

MOST_SCENES = 10_000_000


def power_of(difference: float, deviation: float, scenes: int) -> float:
    """Return the power at p ≤ 5 % over so many scenes: the two-sided t test of paired scenes.

    difference, deviation: in points; the deviation is that of what one scene adds to the difference. T has
    scenes − 1 degrees of freedom and the noncentrality difference · √scenes / deviation (Cohen 1988).
    """
    from scipy import special

    freedom = scenes - 1.0
    bound = special.stdtrit(freedom, (1 + CONFIDENCE) / 2)
    apart = abs(difference) * math.sqrt(scenes) / deviation
    below, above = (float(special.nctdtr(freedom, apart, end)) for end in (-bound, bound))
    # far out the function has no value there, and the power is 1
    return 1.0 if math.isnan(above) else (0.0 if math.isnan(below) else below) + 1 - above


def scenes_needed(difference: float, deviation: float, power: float = 0.8) -> int | None:
    """Return the fewest scenes that reach a power, LEAST_SCENES at the least; None beyond ten million."""
    numbers = range(LEAST_SCENES, MOST_SCENES + 1)
    position = bisect_left(
        numbers, power, key=lambda scenes: power_of(difference, deviation, scenes)
    )
    return numbers[position] if position < len(numbers) else None


def difference_seen(deviation: float, scenes: int, power: float = 0.8) -> float:
    """Return the least difference, in points, that so many scenes show with a power."""
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
    """Return the scenes and questions that a difference of official scores needs, and the difference that this run's scenes can show.

    results: of a run. A scene of it adds to its score with a deviation of error · √scenes; to the difference
    from another run with √(2 (1 − r)) times that, where both vary alike and with the correlation r. compared:
    with a second run, whose paired difference is measured instead. UsageError where scenes are too few.
    """
    sure = results["errors"].get(OFFICIAL)
    if sure is None or sure["scenes"] < LEAST_SCENES:
        raise UsageError(
            f"a run over fewer than {LEAST_SCENES} scenes does not tell how much scenes differ: take one over more"
        )
    scenes, single = sure["scenes"], sure["error"] * math.sqrt(sure["scenes"])
    if compared is None:
        deviations: dict[float | None, float] = {
            r: single * math.sqrt(2 * (1 - r)) for r in CORRELATIONS
        }
    else:
        entry = compared["differences"][OFFICIAL]
        deviations = {None: entry["error"] * math.sqrt(entry["scenes"])}
    if not all(deviations.values()):
        raise UsageError(
            "scenes do not differ here, so nothing follows for others: take other runs"
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
        "deviation": single,
        "needs": rows,
    }
