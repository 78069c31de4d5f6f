"""Figures over decisions with their intervals over scenes, as decisions of one hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from render_agent.score.intervals import ratio


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval, None where there are too few groups; n: decisions."""

    mean: float
    interval: list[float] | None
    n: int

    def to_json(self) -> dict[str, object]:
        """Return it by name."""
        return {"mean": self.mean, "interval": self.interval, "n": self.n}


def estimate(
    values: ArrayLike, groups: Sequence[str], over: ArrayLike | None = None
) -> Estimate | None:
    """Return the mean of values, (n,), with its interval over groups, as `score.intervals` has it.

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
    return Estimate(float(estimated.mean), interval, int(known.sum()))
