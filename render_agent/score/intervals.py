"""Intervals and p values over scenes: the delete-one-scene jackknife, with few-scene degrees of freedom.

Questions about one scene share its scan and its views, so scenes are what is independent. The error of a
mean is the jackknife's (Efron and Stein 1981; for clusters "CV3", MacKinnon, Nielsen and Webb 2023): each
scene is left out in turn. Its degrees of freedom are those of Bell and McCaffrey (2002), fewer than scenes
less one where a type hangs on few of them. `benchmarks/interval_coverage.py` measures how often that holds.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from render_agent.score.means import MICRO, Tally, named_means

CONFIDENCE = 0.95

LEAST_SCENES = 6
"""With fewer no interval and no p is given: none was found that holds."""

FEW_SCENES = f"no interval: the questions come from fewer than {LEAST_SCENES} scenes"

ROUNDING = 1e-12
"""An error below it is that of floating point: all scenes agree."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """A mean over scenes and how sure it is; arrays of one shape (…), one entry a sample.

    mean: of scores or of differences between them. error: its standard error. freedom: degrees of
    freedom of the error. scenes: how many hold questions that it is about.
    """

    mean: FloatArray
    error: FloatArray
    freedom: FloatArray
    scenes: NDArray[np.int64]

    @property
    def reach(self) -> FloatArray:
        """How far the interval of a difference reaches to either side; NaN with too few scenes."""
        return self._quantile * self.error

    @property
    def score_interval(self) -> tuple[FloatArray, FloatArray]:
        """The 95 % interval of a score of 0 … 1, which it does not leave; NaN with too few scenes.

        Wilson's (1927), of as many independent questions as would have this error: n = m (1 − m) / error²
        (Korn and Graubard 1998), with the quantile of Student's t. Where all scenes agree, nothing is
        known of their spread, and each counts as one question.
        """
        spread = np.maximum(self.mean * (1 - self.mean), 0)
        agree = (self.error < ROUNDING) | (spread < ROUNDING)
        questions = np.where(agree, self.scenes, spread / np.where(agree, 1, self.error**2))
        weight = self._quantile**2 / np.maximum(questions, ROUNDING)
        middle = (self.mean + weight / 2) / (1 + weight)
        half = np.sqrt(weight * spread + weight**2 / 4) / (1 + weight)
        return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)

    def interval(self, scale: float = 100, *, share: bool = False) -> list[float] | None:
        """Return the interval of a single difference times `scale`, None with too few scenes; share: of a score."""
        difference = self.mean - self.reach, self.mean + self.reach
        low, high = map(float, self.score_interval if share else difference)
        return None if math.isnan(low) else [scale * low, scale * high]

    def interval_and_p(self, scale: float = 100) -> tuple[list[float] | None, float | None]:
        """Return the interval of a single difference times `scale`, and its p; both None with too few scenes."""
        interval = self.interval(scale)
        return interval, None if interval is None else float(self.p)

    @property
    def p(self) -> FloatArray:
        """The two-sided p of a difference that is 0, by Student's t; NaN with too few scenes.

        At least 2^(1 − scenes), the chance that all scenes differ to one side.
        """
        from scipy import special

        same = self.error < ROUNDING
        t = np.abs(self.mean) / np.where(same, 1, self.error)
        tail = np.where(same, np.abs(self.mean) < ROUNDING, 2 * special.stdtr(self.freedom, -t))
        enough = np.where(self.scenes < LEAST_SCENES, np.nan, 1.0)
        p: FloatArray = enough * np.maximum(tail, 0.5 ** (self.scenes - 1.0))
        return p

    @property
    def _quantile(self) -> FloatArray:
        from scipy import special

        t = special.stdtrit(self.freedom, (1 + CONFIDENCE) / 2)
        quantile: FloatArray = np.where(self.scenes < LEAST_SCENES, np.nan, t)
        return quantile

    def to_json(self) -> dict[str, float | int]:
        """Return the error in percent, its degrees of freedom, and the scenes, of a single sample."""
        return {
            "error": 100 * float(self.error),
            "freedom": float(self.freedom),
            "scenes": int(self.scenes),
        }


def estimates(types: Sequence[str], sums: FloatArray, counts: FloatArray) -> dict[str, Estimate]:
    """Return every named mean, task and type with its error.

    sums, counts: scores by scene and type, (…, scenes, types); each estimate is (…). A scene that has no
    question of a mean does not count as one of its scenes.
    """
    total, number = sums.sum(axis=-2), counts.sum(axis=-2)
    means = named_means(types, total, number)
    every = np.eye(len(types)) * number[..., None, :]
    weights = named_means(types, every, np.broadcast_to(number[..., None, :], every.shape))
    left = named_means(types, total[..., None, :] - sums, number[..., None, :] - counts)
    by_name = {}
    for name, mean in means.items():
        weight = np.nan_to_num(weights[name])
        held = counts * (weight > 0)[..., None, :]
        holds = held.sum(axis=-1) > 0
        scenes = holds.sum(axis=-1)
        if name == MICRO:  # one column: a scene weighs as many questions as it has
            held, weight = held.sum(axis=-1, keepdims=True), np.ones((*np.shape(mean), 1))
        variance = _jackknife(np.nan_to_num(left[name]), holds)
        by_name[name] = Estimate(
            np.asarray(mean), np.sqrt(variance), _freedom(held, weight), np.asarray(scenes)
        )
    return by_name


def estimates_of(counted: Tally) -> dict[str, Estimate]:
    """Return every named mean, task and type of a tally with its error; none without scenes."""
    return estimates(counted.types, counted.sums, counted.counts) if len(counted.sums) else {}


def ratio(
    values: ArrayLike, scenes: Sequence[Any], over: ArrayLike | None = None
) -> Estimate | None:
    """Return the mean of values, (n,), with its error over scenes; None where there are none.

    scenes: that of every value. over: the figure is the sum of the values over the sum of these.
    """
    top = np.asarray(values, np.float64)
    bottom = np.ones(len(top)) if over is None else np.asarray(over, np.float64)
    numbers: dict[Any, int] = {}
    places = np.array([numbers.setdefault(scene, len(numbers)) for scene in scenes], np.int64)
    sums, counts = (
        np.bincount(places, part, minlength=len(numbers)).astype(np.float64)[:, None]
        for part in (top, bottom)
    )
    if not counts.sum():
        return None
    return estimates(("one",), sums, counts)[MICRO]


def jackknifed(whole: float, left: ArrayLike) -> Estimate:
    """Return a figure of all scenes with its error, from what it is without each scene, NaN where nothing is left.

    For figures that are no mean, such as a calibration error; degrees of freedom are the scenes less one.
    """
    without = np.asarray(left, np.float64)
    without = without[~np.isnan(without)]
    variance = _jackknife(without, np.ones(len(without), np.bool_))
    freedom = np.asarray(max(len(without) - 1, 1), np.float64)
    return Estimate(np.asarray(whole), np.sqrt(variance), freedom, np.asarray(len(without)))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected for their number as Holm (1979) does; None stays, and does not count."""
    known = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * p))
        corrected[place] = largest
    return corrected


def add_holm(entries: Sequence[MutableMapping[str, Any]]) -> None:
    """Write into every entry that has a `p` its `p_holm`, corrected for all of these entries."""
    for entry, corrected in zip(entries, holm([entry["p"] for entry in entries]), strict=True):
        entry["p_holm"] = corrected


def _jackknife(left: FloatArray, holds: NDArray[np.bool_]) -> FloatArray:
    """Return the variance of a mean from what it is without each scene, (…, scenes), of those that count."""
    scenes = holds.sum(axis=-1)
    least = np.maximum(scenes, 1)
    middle = np.where(holds, left, 0).sum(axis=-1) / least
    apart = np.where(holds, left - middle[..., None], 0)
    variance: FloatArray = (scenes - 1) / least * (apart**2).sum(axis=-1)
    return variance


def _freedom(counts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return Bell and McCaffrey's degrees of freedom of the error of Σ weight · mean of type; at least 1.

    counts: (…, scenes, types). weights: (…, types). A mean of types is a regression of scores on types,
    whose residuals in a scene are divided by √(1 − its share of the type) ("CR2"). As if questions had
    independent errors of one variance, the squared error is a sum of chi-squares whose first two moments
    give (trace M)² / trace M², M = diag(d) − B Bᵀ, (scenes, scenes).
    """
    number = np.maximum(counts.sum(axis=-2, keepdims=True), ROUNDING)
    rest = 1 - counts / number
    factor = weights[..., None, :] / number / np.sqrt(np.where(rest > ROUNDING, rest, np.inf))
    own = (factor**2 * counts).sum(axis=-1)
    shared = factor * counts / np.sqrt(number)
    among = np.swapaxes(shared, -1, -2) @ shared
    trace = own.sum(axis=-1) - (shared**2).sum(axis=(-1, -2))
    squares = (
        (own**2).sum(axis=-1)
        - 2 * (own * (shared**2).sum(axis=-1)).sum(axis=-1)
        + (among**2).sum(axis=(-1, -2))
    )
    freedom: FloatArray = np.maximum(trace**2 / np.maximum(squares, ROUNDING**3), 1)
    return freedom
