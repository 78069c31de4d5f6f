"""Figures over decisions with their intervals over scenes, as decisions of one hang together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from render_agent.score.intervals import ratio


def estimate(
    values: ArrayLike, groups: Sequence[str], over: ArrayLike | None = None
) -> dict[str, Any] | None:
    """Return the mean of values, (n,), its 95 % interval over groups, and how many they are; JSON.

    The interval is as `score.intervals` has it, None where there are too few groups.
    over: the figure is the sum of the values over the sum of these instead. Values that are NaN are left
    out. None where nothing is left.
    """
    top = np.asarray(values, np.float64)
    bottom = np.ones(len(top)) if over is None else np.asarray(over, np.float64)
    known = np.isfinite(top) & np.isfinite(bottom)
    estimated = ratio(top[known], np.asarray(groups, object)[known].tolist(), bottom[known])
    if estimated is None:
        return None
    interval, _ = estimated.interval_and_p(1)
    return {"mean": float(estimated.mean), "interval": interval, "n": int(known.sum())}
