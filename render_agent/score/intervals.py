"""Confidence intervals and p values over scenes: delete-one-scene jackknife with few-cluster degrees of freedom.

Questions about one scene share its scan and views, so scenes are the independent units. Standard errors of means come
from the jackknife (Efron and Stein 1981; for clusters "CV3", MacKinnon, Nielsen and Webb 2023), which leaves out each
scene in turn. Degrees of freedom follow Bell and McCaffrey (2002); if a few scenes dominate a type, they are fewer
than scenes minus one. `render_agent_lab/bench/interval_coverage.py` measures the coverage.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from render_agent.score.means import MACRO, MICRO, Tally, named_means

CONFIDENCE = 0.95

SIGNIFICANT = 0.05  # largest corrected p value at which a difference is stated or marked

MIN_SCENES = 6  # with fewer scenes, none of the methods tried reached its nominal coverage

FEW_SCENES = f"no interval: the questions come from fewer than {MIN_SCENES} scenes"

ROUNDING = 1e-12  # standard errors below this are floating-point noise: all scenes agree

FloatArray = NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray]

# By named mean: the questions that contribute to it, (…, scenes, types), and the types' weights, (…, types).
Contributions = dict[str, tuple[FloatArray, FloatArray]]

# A statistic of a sample in which scenes count as often as the weights (…, scenes) say; returns (…).
Statistic = Callable[[FloatArray], FloatArray]


class Spread(Protocol):
    """The uncertainty of means, as a method computes it. Arrays have the shape (…) of the means."""

    def difference(self, mean: FloatArray, scenes: NDArray[np.int64]) -> Ends:
        """Return the 95 % interval of a difference."""
        ...

    def score(self, mean: FloatArray, scenes: NDArray[np.int64]) -> Ends:
        """Return the 95 % interval of a score, within 0 to 1."""
        ...

    def p(self, mean: FloatArray, scenes: NDArray[np.int64]) -> FloatArray:
        """Return the two-sided p value of the null hypothesis that the mean is 0."""
        ...

    def to_json(self) -> dict[str, float | None]:
        """Return the figures of a single sample that `results.json` keeps."""
        ...


class Method(Protocol):
    """A method for intervals and p values; `METHOD` is the one in use."""

    words: str  # completes "95 % CI: …"

    def spreads(
        self,
        types: Sequence[str],
        sums: FloatArray,  # sums of scores, (…, scenes, types)
        counts: FloatArray,  # numbers of questions, (…, scenes, types)
        contributions: Contributions,
    ) -> dict[str, Spread]:
        """Return the spread of every named mean, task and type."""
        ...

    def spread_of(self, statistic: Statistic, scenes: int) -> Spread:
        """Return the spread of a statistic that is not a mean, such as a calibration error."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """Means over scenes with their uncertainty. All arrays have the same shape (…), with one entry per sample."""

    mean: FloatArray
    """Mean of scores, or of differences between scores."""
    scenes: NDArray[np.int64]
    """Number of scenes with questions that contribute to the mean."""
    spread: Spread

    @property
    def score_interval(self) -> Ends:
        """95 % interval of a score, within 0 to 1; NaN with too few scenes."""
        low, high = self.spread.score(self.mean, self.scenes)
        return self._known * low, self._known * high

    @property
    def difference_interval(self) -> Ends:
        """95 % interval of a difference; NaN with too few scenes."""
        low, high = self.spread.difference(self.mean, self.scenes)
        return self._known * low, self._known * high

    @property
    def p(self) -> FloatArray:
        """Two-sided p value of the null hypothesis that the mean is 0; NaN with too few scenes."""
        p: FloatArray = self._known * self.spread.p(self.mean, self.scenes)
        return p

    @property
    def _known(self) -> FloatArray:
        known: FloatArray = np.where(self.scenes < MIN_SCENES, np.nan, 1.0)
        return known

    def interval(self, scale: float = 100, *, share: bool = False) -> list[float] | None:
        """Return the interval times `scale`, or None with too few scenes; `share` selects the interval of a score."""
        low, high = map(float, self.score_interval if share else self.difference_interval)
        return None if math.isnan(low) else [scale * low, scale * high]

    def interval_and_p(self, scale: float = 100) -> tuple[list[float] | None, float | None]:
        """Return the interval of a difference times `scale` and its p value; None with too few scenes."""
        interval = self.interval(scale)
        return interval, None if interval is None else float(self.p)

    def to_json(self) -> dict[str, float | int | None]:
        """Return the figures of the spread, and the number of scenes, of a single sample."""
        return {**self.spread.to_json(), "scenes": int(self.scenes)}


@dataclass(frozen=True, eq=False, slots=True)
class StandardError:
    """The spread of a mean whose error follows Student's t."""

    error: FloatArray  # standard error of the mean
    freedom: FloatArray  # degrees of freedom of the standard error
    without_scene: FloatArray | None = None
    """The mean without each scene, (…, scenes); NaN for scenes that do not contribute."""

    @property
    def kurtosis(self) -> FloatArray:
        """Kurtosis of the scenes' contributions about their median; NaN if unknown or if all are equal."""
        return np.asarray(np.nan) if self.without_scene is None else _kurtosis(self.without_scene)

    def difference(self, mean: FloatArray, scenes: NDArray[np.int64]) -> Ends:
        reach = self._quantile * self.error
        return mean - reach, mean + reach

    def score(self, mean: FloatArray, scenes: NDArray[np.int64]) -> Ends:
        """Return Wilson's interval (1927) with a quantile of Student's t.

        It is that of the effective number of independent questions with the same standard error, n = m (1 − m) / error²
        (Korn and Graubard 1998). If all scenes agree, their variance is unknown, and each scene counts as one question.
        """
        variance = np.maximum(mean * (1 - mean), 0)
        agree = (self.error < ROUNDING) | (variance < ROUNDING)
        questions = np.where(agree, scenes, variance / np.where(agree, 1, self.error**2))
        weight = self._quantile**2 / np.maximum(questions, ROUNDING)
        middle = (mean + weight / 2) / (1 + weight)
        half = np.sqrt(weight * variance + weight**2 / 4) / (1 + weight)
        return np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)

    def p(self, mean: FloatArray, scenes: NDArray[np.int64]) -> FloatArray:
        """Return p by Student's t: at least 2^(1 − scenes), the probability that all scenes differ in the same direction."""
        from scipy import special

        is_unanimous = self.error < ROUNDING
        t = np.abs(mean) / np.where(is_unanimous, 1, self.error)
        tail = np.where(is_unanimous, np.abs(mean) < ROUNDING, 2 * special.stdtr(self.freedom, -t))
        p: FloatArray = np.maximum(tail, 0.5 ** (scenes - 1.0))
        return p

    @property
    def _quantile(self) -> FloatArray:
        from scipy import special

        quantile: FloatArray = special.stdtrit(self.freedom, (1 + CONFIDENCE) / 2)
        return quantile

    def to_json(self) -> dict[str, float | None]:
        """Return the standard error in percent, degrees of freedom and kurtosis."""
        kurtosis = float(self.kurtosis)
        return {
            "error": 100 * float(self.error),
            "freedom": float(self.freedom),
            "kurtosis": None if math.isnan(kurtosis) else kurtosis,
        }


class Jackknife:
    """Delete-one-scene jackknife."""

    words = "jackknife over scenes"

    def spreads(
        self,
        types: Sequence[str],
        sums: FloatArray,
        counts: FloatArray,
        contributions: Contributions,
    ) -> dict[str, Spread]:
        total, number = sums.sum(axis=-2), counts.sum(axis=-2)
        without_scene = named_means(
            types, total[..., None, :] - sums, number[..., None, :] - counts
        )
        left_out = np.nan_to_num(np.stack([without_scene[name] for name in contributions]))
        has_questions = np.stack([part.sum(axis=-1) > 0 for part, _ in contributions.values()])
        errors = np.sqrt(_jackknife(left_out, has_questions))
        left_out = np.where(has_questions, left_out, np.nan)
        spreads: dict[str, Spread] = {}
        for index, (name, (type_counts, weight)) in enumerate(contributions.items()):
            if name == MICRO:  # one column: scenes are weighted by their number of questions
                type_counts = type_counts.sum(axis=-1, keepdims=True)
                weight = np.ones((*number.shape[:-1], 1))
            freedom = _freedom(type_counts, weight)
            spreads[name] = StandardError(errors[index], freedom, left_out[index])
        return spreads

    def spread_of(self, statistic: Statistic, scenes: int) -> Spread:
        """Return the standard error of a statistic, with scenes minus one degrees of freedom."""
        values = _without_each(statistic, scenes)
        values = values[~np.isnan(values)]
        variance = _jackknife(values, np.ones(len(values), np.bool_))
        return StandardError(np.sqrt(variance), np.asarray(max(len(values) - 1.0, 1)))


METHOD: Method = Jackknife()


def _contributions(types: Sequence[str], counts: FloatArray) -> Contributions:
    """Return the questions that contribute to every named mean, and the types' weights."""
    number = counts.sum(axis=-2)
    indicators = np.eye(len(types)) * number[..., None, :]
    weights = named_means(
        types, indicators, np.broadcast_to(number[..., None, :], indicators.shape)
    )
    contributions = {}
    for name, type_weights in weights.items():
        weight = np.nan_to_num(type_weights)
        contributions[name] = counts * (weight > 0)[..., None, :], weight
    return contributions


def estimates(
    types: Sequence[str],
    sums: FloatArray,  # sums of scores, (…, scenes, types)
    counts: FloatArray,  # numbers of questions, (…, scenes, types)
    names: Collection[str] | None = None,
) -> dict[str, Estimate]:
    """Return an estimate per named mean, task and type, or only of those with these names.

    Scenes without any question that contributes to a mean are not counted for it.
    """
    means = named_means(types, sums.sum(axis=-2), counts.sum(axis=-2))
    contributions = _contributions(types, counts)
    if names is not None:
        contributions = {name: contributions[name] for name in names}
    spreads = METHOD.spreads(types, sums, counts, contributions)
    return {
        name: Estimate(
            np.asarray(means[name]),
            np.asarray((part.sum(axis=-1) > 0).sum(axis=-1)),
            spreads[name],
        )
        for name, (part, _) in contributions.items()
    }


def make_estimates(tally: Tally) -> dict[str, Estimate]:
    """Return an estimate per named mean, task and type of a tally; empty without scenes."""
    return estimates(tally.types, tally.sums, tally.counts) if len(tally.sums) else {}


def macro_estimate(tally: Tally) -> Estimate:
    """Return the estimate of the mean over tasks of a tally with at least one scene."""
    return estimates(tally.types, tally.sums, tally.counts, [MACRO])[MACRO]


def ratio(
    values: ArrayLike,  # the values, (n,)
    scenes: Sequence[Any],
    # divide the sum of the values by the sum of these weights, (n,), instead of by n
    over: ArrayLike | None = None,
) -> Estimate | None:
    """Return the mean of values with its standard error over scenes; None if there are no values."""
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
    return estimates(("one",), sums, counts, [MICRO])[MICRO]


def estimate_statistic(statistic: Statistic, scenes: int) -> Estimate:
    """Return the estimate of a statistic that is not a mean.

    Scenes without which the statistic is undefined (NaN) are not counted.
    """
    defined = np.count_nonzero(~np.isnan(_without_each(statistic, scenes)))
    value = statistic(np.ones(scenes))
    return Estimate(value, np.asarray(defined), METHOD.spread_of(statistic, scenes))


def estimate_to_json(
    estimate: Estimate,
    number: int,
    *,
    share: bool,  # convert to percent and clip the interval
) -> dict[str, Any]:
    """Return a score as stored in `results.json`."""
    scale = 100 if share else 1
    interval = estimate.interval(scale, share=share)
    return {
        "value": round(scale * float(estimate.mean), 6),
        "interval": interval and [round(max(0.0, end), 6) for end in interval],
        "n": number,
        "scenes": int(estimate.scenes),
    }


def _without_each(statistic: Statistic, scenes: int) -> FloatArray:
    """Return the statistic without each scene, (scenes,)."""
    return statistic(1 - np.eye(scenes))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values with Holm's (1979) correction; None values stay None and do not count as tests."""
    order = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected_ps: list[float | None] = [None] * len(ps)
    running_max = 0.0
    for rank, (p, place) in enumerate(order):
        running_max = max(running_max, min(1.0, (len(order) - rank) * p))
        corrected_ps[place] = running_max
    return corrected_ps


def method_words() -> str:
    """Return how intervals are computed, as completes "95 % CI: …"."""
    return METHOD.words


def add_holm(entries: Sequence[MutableMapping[str, Any]]) -> None:
    """Add `p_holm`, corrected over all entries, to each entry."""
    for entry, corrected_p in zip(entries, holm([entry["p"] for entry in entries]), strict=True):
        entry["p_holm"] = corrected_p


def _jackknife(leave_one_out: FloatArray, has_questions: NDArray[np.bool_]) -> FloatArray:
    """Return the jackknife variance of a mean from its values without each scene, (…, scenes)."""
    scenes = has_questions.sum(axis=-1)
    divisor = np.maximum(scenes, 1)
    middle = np.where(has_questions, leave_one_out, 0).sum(axis=-1) / divisor
    deviation = np.where(has_questions, leave_one_out - middle[..., None], 0)
    variance: FloatArray = (scenes - 1) / divisor * (deviation**2).sum(axis=-1)
    return variance


def _kurtosis(values: FloatArray) -> FloatArray:
    """Return n Σ (x − median)⁴ / (Σ (x − mean)²)² over scenes whose x is not NaN; NaN if all x are equal.

    x is the mean without a scene, which is a linear function of the scene's contribution to the mean.
    """
    number = (~np.isnan(values)).sum(axis=-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # samples without questions
        median = np.nanmedian(values, axis=-1, keepdims=True)
        middle = np.nanmean(values, axis=-1, keepdims=True)
    squares = np.nansum((values - middle) ** 2, axis=-1)
    fourth = np.nansum((values - median) ** 4, axis=-1)
    is_defined = squares > ROUNDING
    kurtosis: FloatArray = np.where(
        is_defined, number * fourth / np.where(is_defined, squares, 1) ** 2, np.nan
    )
    return kurtosis


def _freedom(
    counts: FloatArray,  # numbers of questions, (…, scenes, types)
    weights: FloatArray,  # weights of the types, (…, types)
) -> FloatArray:
    """Return Bell and McCaffrey's degrees of freedom, at least 1, of the error of Σ weight · mean of type.

    A mean of types is a regression of scores on types, whose residuals in a scene are divided by √(1 − the scene's
    share of the type) ("CR2"). If errors are independent with equal variance, the squared error is a sum of
    chi-squares, whose first two moments give (trace M)² / trace M², with M = diag(d) − B Bᵀ, (scenes, scenes).
    """
    number = np.maximum(counts.sum(axis=-2, keepdims=True), ROUNDING)
    complement = 1 - counts / number
    factor = (
        weights[..., None, :]
        / number
        / np.sqrt(np.where(complement > ROUNDING, complement, np.inf))
    )
    variance_part = (factor**2 * counts).sum(axis=-1)
    scaled = factor * counts / np.sqrt(number)
    cross = np.swapaxes(scaled, -1, -2) @ scaled
    trace = variance_part.sum(axis=-1) - (scaled**2).sum(axis=(-1, -2))
    squares = (
        (variance_part**2).sum(axis=-1)
        - 2 * (variance_part * (scaled**2).sum(axis=-1)).sum(axis=-1)
        + (cross**2).sum(axis=(-1, -2))
    )
    freedom: FloatArray = np.maximum(trace**2 / np.maximum(squares, ROUNDING**3), 1)
    return freedom
