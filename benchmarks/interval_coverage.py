"""How often do the intervals hold, and how often do equal runs differ? With few scenes and with many.

    python -m benchmarks.interval_coverage --output benchmarks/results/coverage.md

Real runs over freshly made rooms are the populations; scenes are drawn from them with replacement, so the truth
is known: the score over all of them. Populations: the sighted witness; answers at random; answers that hang on
the scene, all right in every second room and at random in the others. Two equal runs: which of two runs comes
first is tossed in every scene.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from scipy import special

from benchmarks.exploration import made_rooms
from benchmarks.harness import OUTPUT, machine, publish, table
from render_agent.options import RunConfig
from render_agent.runs.phase_controller import Silent
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.intervals import Estimate, estimates
from render_agent.score.means import MACRO, MEAN_OF_TYPES, MICRO, Scored, Tally, named_means, tally

SCENES = (4, 6, 8, 16, 64, 288)
SEED = 9100
"""The seed of the rooms; no other measurement uses it."""

ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "witness": {"model": "witness", "image_size": (128, 96)},
    "random": {"model": "random", "views": "none"},
    "oracle": {"model": "oracle", "views": "none"},
}
FIGURES = (MACRO, MICRO, MEAN_OF_TYPES)
AT_ONCE = 200_000
"""Scenes in one array: what memory and caches take well."""

FloatArray = NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray]
Interval = Callable[[Estimate, "Draw"], Ends]


class Draw:
    """Samples of scenes: sums and counts, (samples, scenes, types)."""

    def __init__(self, population: Tally, drawn: NDArray[np.int64]) -> None:
        self.types = population.types
        self.sums, self.counts = population.sums[drawn], population.counts[drawn]
        self.found = estimates(self.types, self.sums, self.counts)


def answered(place: Path, questions: Path, name: str, seed: int) -> Tally:
    """Return the scores of a run, made now where it is not there yet."""
    output = place / f"{name}-{seed}"
    for results in sorted(output.glob("*/results.json")):
        return scores_of(RunData(results.parent))
    config = RunConfig(
        batch=True,
        benchmark=str(questions),
        output=str(output),
        engine="scripted",
        seed=seed,
        **ANSWERS[name],
    )
    run = start_run(config)
    try:
        run.go(Silent())
    finally:
        run.close()
    return scores_of(RunData(run.path))


def scores_of(folder: RunData) -> Tally:
    """Return the scores of a finished run by scene and type."""
    rows = (folder.saved_results or {})["questions"]
    return tally(Scored(row["type"], row["dataset"], row["scene"], row["score"]) for row in rows)


def mixed(easy: Tally, hard: Tally, seed: int) -> Tally:
    """Return a population of which every second scene, at random, is answered by one and the rest by the other."""
    scenes = len(easy.sums)
    chosen = np.random.default_rng(seed).permutation(scenes) < scenes // 2
    return Tally(easy.types, np.where(chosen[:, None], easy.sums, hard.sums), easy.counts)


def samples(population: Tally, scenes: int, number: int, seed: int = 0) -> Iterator[Draw]:
    """Return so many samples of so many scenes, some at a time."""
    chance = np.random.default_rng([seed, scenes])
    while number > 0:
        some = min(number, max(1, AT_ONCE // scenes))
        yield Draw(population, chance.integers(len(population.sums), size=(some, scenes)))
        number -= some


def truth_of(population: Tally, draw: Draw) -> dict[str, FloatArray]:
    """Return every mean over the whole population, of the types that a sample asks, (samples,) each."""
    asked = draw.counts.sum(axis=1) > 0
    sums, counts = population.sums.sum(axis=0), population.counts.sum(axis=0)
    return named_means(population.types, sums * asked, counts * asked)


def shown(estimate: Estimate, draw: Draw) -> Ends:
    """The interval that the program gives."""
    return estimate.score_interval


def student(estimate: Estimate, draw: Draw) -> Ends:
    """The jackknife's error, Student's t with a degree of freedom a scene but one."""
    reach = special.stdtrit(estimate.scenes - 1.0, 0.975) * estimate.error
    return estimate.mean - reach, estimate.mean + reach


def normal(estimate: Estimate, draw: Draw) -> Ends:
    """The jackknife's error, 1.96 of them to either side."""
    return estimate.mean - 1.96 * estimate.error, estimate.mean + 1.96 * estimate.error


def bootstrap(estimate: Estimate, draw: Draw, resamples: int = 300) -> Ends:
    """The percentile bootstrap over scenes of the mean of tasks, which the program had before."""
    chance = np.random.default_rng(1)
    scenes = draw.sums.shape[1]
    times = chance.multinomial(scenes, np.full(scenes, 1 / scenes), resamples).astype(np.float64)
    means = named_means(
        draw.types,
        np.einsum("bg,rgt->rbt", times, draw.sums, optimize=True),
        np.einsum("bg,rgt->rbt", times, draw.counts, optimize=True),
    )[MACRO]
    low, high = np.nanquantile(means, [0.025, 0.975], axis=1)
    return low, high


METHODS: Mapping[str, Interval] = {
    "percentile bootstrap": bootstrap,
    "jackknife, 1.96 errors": normal,
    "jackknife, t with scenes − 1": student,
    "the program's": shown,
}


def coverage(population: Tally, scenes: int, number: int) -> dict[str, Any]:
    """Return the share of samples whose interval holds the truth: by method, by mean, by type."""
    held: dict[str, list[FloatArray]] = {}
    widths = []
    for draw in samples(population, scenes, number):
        truths = truth_of(population, draw)
        macro = draw.found[MACRO]
        for method, interval in METHODS.items():
            if (
                method == "percentile bootstrap"
                and len(held.get(method, ())) * len(macro.mean) > 2000
            ):
                continue  # it is slow, and need not be known as well
            low, high = interval(macro, draw)
            held.setdefault(method, []).append(holds(low, truths[MACRO], high))
        for name, estimate in draw.found.items():
            held.setdefault(f"of {name}", []).append(holds(*_around(estimate, truths[name])))
        low, high = macro.score_interval
        widths.append(100 * (high - low))
    told = {name: _share(np.concatenate(rows)) for name, rows in held.items()}
    return {
        "methods": {name: told[name] for name in METHODS},
        "means": {name: told[f"of {name}"] for name in FIGURES},
        "types": {name: told[f"of {name}"] for name in population.types},
        "width": _share(np.concatenate(widths)),
    }


def _around(estimate: Estimate, truth: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = estimate.score_interval
    return low, truth, high


def holds(low: FloatArray, truth: FloatArray, high: FloatArray) -> FloatArray:
    """Return 1 where an interval holds the truth, 0 where not, NaN where there is none."""
    inside = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return np.where(np.isnan(low), np.nan, inside)


def alarms(one: Tally, other: Tally, scenes: int, number: int) -> dict[str, float | None]:
    """Return how often two equal runs are told apart, and how often the interval of a real difference holds."""
    apart = Tally(one.types, other.sums - one.sums, one.counts)
    chance = np.random.default_rng([1, scenes])
    found: dict[str, list[FloatArray]] = {"p <= .05": [], "p <= .01": [], "covered": []}
    for draw in samples(apart, scenes, number, seed=2):
        sides = chance.choice((-1.0, 1.0), (*draw.sums.shape[:2], 1))
        p = estimates(draw.types, draw.sums * sides, draw.counts)[MACRO].p
        for level in (0.05, 0.01):
            alarm = np.where(np.isnan(p), np.nan, p <= level)
            found[f"p <= {level:.2f}".replace("0.", ".")].append(alarm)
        estimate = draw.found[MACRO]
        truth = truth_of(apart, draw)[MACRO]
        reach = estimate.reach
        found["covered"].append(holds(estimate.mean - reach, truth, estimate.mean + reach))
    return {name: _share(np.concatenate(rows)) for name, rows in found.items()}


def _share(values: FloatArray) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) > len(values) / 20 else None


@click.command()
@click.option("--rooms", default=160, show_default=True, help="Rooms to draw from.")
@click.option("--questions", default=18, show_default=True, help="Questions about each.")
@click.option("--samples", "number", default=6000, show_default=True, help="Samples of each size.")
@click.option(
    "--runs", help="Where rooms and runs are kept; those that are there are not made again."
)
@OUTPUT
def main(rooms: int, questions: int, number: int, runs: str | None, output: Path | None) -> None:
    """Measure coverage and false alarms of the intervals and p values that the program shows."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(runs or scratch)
        asked = place / "rooms" / "questions.jsonl"
        if not asked.is_file():
            made_rooms(asked.parent, rooms, SEED, questions)
        two = {
            name: [answered(place, asked, name, seed) for seed in (0, 1)]
            for name in ("witness", "random")
        }
        oracle = answered(place, asked, "oracle", 0)
    two["by scene"] = [mixed(oracle, two["random"][seed], seed) for seed in (0, 1)]
    record: dict[str, Any] = {
        "rooms": len(oracle.sums),
        "questions": int(oracle.counts.sum()),
        "samples": number,
        "populations": {},
    }
    for name, (one, other) in two.items():
        found: dict[str, Any] = {
            "score": 100 * one.means[MACRO],
            "score_of_the_second": 100 * other.means[MACRO],
            "intervals": {},
            "comparisons": {},
        }
        record["populations"][name] = found
        for scenes in SCENES:
            found["intervals"][str(scenes)] = coverage(one, scenes, number)
            found["comparisons"][str(scenes)] = alarms(one, other, scenes, number)
            click.echo(f"{name}, {scenes} scenes: {found['comparisons'][str(scenes)]}", err=True)
    publish(
        output,
        "How often intervals hold, and equal runs differ",
        page(record),
        machine("numpy", "scipy"),
    )


def page(record: Mapping[str, Any]) -> list[str]:
    """Return the lines of the page."""
    populations = record["populations"]
    sizes = [str(scenes) for scenes in SCENES]
    lines = [
        f"Scenes drawn with replacement from {record['rooms']} freshly made rooms with {record['questions']} questions,"
        f" {record['samples']:,} samples of each size (2,000 of the bootstrap). Populations with their official scores: "
        + "; ".join(f"{name} {entry['score']:.1f}" for name, entry in populations.items())
        + ". `by scene`: every second room is answered correctly, the others at random. Shares in percent.",
        "",
        "## Coverage of the 95 % interval of the official score",
        "",
    ]
    for name, entry in populations.items():
        found = [entry["intervals"][size] for size in sizes]
        rows = [[method, *(percent(one["methods"][method]) for one in found)] for method in METHODS]
        rows.append(["its width, points", *(percent(one["width"], 1) for one in found)])
        lines += [f"### {name}", "", *table(["scenes", *sizes], rows), ""]
    others, compared = [], []
    for name, entry in populations.items():
        found = [entry["intervals"][size] for size in sizes]
        for label in (MICRO, MEAN_OF_TYPES):
            shares = [one["means"][label] for one in found]
            others.append([name, label, *map(percent, shares)])
        for label, pick in (("type, lowest", min), ("type, highest", max)):
            shares = [pick(known(one["types"].values()), default=None) for one in found]
            others.append([name, label, *map(percent, shares)])
        for label in ("p <= .05", "p <= .01", "covered"):
            shares = [entry["comparisons"][size][label] for size in sizes]
            compared.append([name, label, *map(percent, shares)])
    lines += [
        "## The program's interval of other figures",
        "",
        *table(["", "scenes", *sizes], others),
        "",
    ]
    lines += [
        "## Comparisons",
        "",
        "Equal runs: two runs of a population with different seeds, their sides tossed in every scene. Covered: the interval of"
        " the difference between them holds, if it is a real one.",
        "",
        *table(["", "scenes", *sizes], compared),
    ]
    return lines


def known(shares: Iterable[float | None]) -> list[float]:
    """Return the shares that are not None."""
    return [share for share in shares if share is not None]


def percent(share: float | None, scale: float = 100) -> str | None:
    """Return a share in percent."""
    return None if share is None else f"{scale * share:.1f}"


if __name__ == "__main__":
    main()
