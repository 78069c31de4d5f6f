"""Figures over decisions with their intervals: scenes are drawn anew, as decisions of one hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from render_agent.score.means import drawn_anew, percentiles


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval, None where there are no two groups to draw from; n: decisions."""

    mean: float
    interval: tuple[float, float] | None
    n: int

    @property
    def above_zero(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.interval is not None and self.interval[0] > 0

    def to_json(self) -> dict[str, object]:
        """Return it by name."""
        return {"mean": self.mean, "interval": self.interval, "n": self.n}


def estimate(
    values: ArrayLike, groups: Sequence[str], over: ArrayLike | None = None, seed: int = 0
) -> Estimate | None:
    """Return the mean of values, (n,), with its interval over groups drawn anew with replacement.

    over: the figure is the sum of the values over the sum of these instead. Values that are NaN are left
    out. None where nothing is left.
    """
    top = np.asarray(values, np.float64)
    bottom = np.ones(len(top)) if over is None else np.asarray(over, np.float64)
    known = np.isfinite(top) & np.isfinite(bottom)
    names, places = np.unique(np.asarray(groups, object)[known].astype(str), return_inverse=True)
    sums = np.stack(
        [np.bincount(places, part[known], minlength=len(names)) for part in (top, bottom)]
    )
    count = int(known.sum())
    if not count or not sums[1].sum():
        return None
    mean = float(sums[0].sum() / sums[1].sum())
    if len(names) < 2:
        return Estimate(mean, None, count)
    drawn = drawn_anew(len(names), seed)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (drawn @ sums[0]) / (drawn @ sums[1])
    return Estimate(mean, percentiles(means[np.isfinite(means)]), count)
