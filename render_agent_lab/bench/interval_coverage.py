"""Coverage of confidence intervals and false-positive rate of comparisons, with few and with many scenes.

    python -m render_agent_lab.bench.interval_coverage --output render_agent_lab/bench/results/coverage.md
    python -m render_agent_lab.bench.interval_coverage --hard-cases    # only the made-up scores, without runs

Real runs over newly generated rooms are the populations. Scenes are drawn from them with replacement, so the true value
is known: the score over all of them. Populations: `witness`; `random` answers; and `by scene`, answers that are all
correct in every second room and random in the others. For the null comparison, the order of two runs is randomized
per scene. Made-up scores are the hard cases: a type that is nearly always right, and scenes of which one in ten fails.
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

from render_agent.options import RunConfig
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.score.intervals import Estimate, StandardError, estimates
from render_agent.score.means import (
    MACRO,
    MEAN_OF_TYPES,
    MICRO,
    AnswerScore,
    Tally,
    named_means,
    tally_scores,
)
from render_agent_lab.bench.exploration import make_question_file
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table

SCENES = (4, 6, 8, 16, 64, 288)
SEED = 9100  # seed of the rooms; not used by other benchmarks

ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "witness": {"model": "witness", "image_size": (128, 96)},
    "random": {"model": "random", "views": "none"},
    "oracle": {"model": "oracle", "views": "none"},
}
FIGURES = (MACRO, MICRO, MEAN_OF_TYPES)
CHUNK_SCENES = 200_000  # scenes per array, to limit memory

FloatArray = NDArray[np.float64]
Ends = tuple[FloatArray, FloatArray]
Interval = Callable[[Estimate, "SceneSamples"], Ends]


class SceneSamples:
    """Samples of scenes: sums and counts, (samples, scenes, types)."""

    def __init__(self, population: Tally, indices: NDArray[np.int64]) -> None:
        self.types = population.types
        self.sums, self.counts = population.sums[indices], population.counts[indices]
        self.estimates = estimates(self.types, self.sums, self.counts)


def load_or_run(place: Path, questions: Path, name: str, seed: int) -> Tally:
    """Return the scores of a run; run it now if it does not exist."""
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
        run.go(NullObserver())
    finally:
        run.close()
    return scores_of(RunData(run.path))


def scores_of(folder: RunData) -> Tally:
    """Return the scores of a finished run by scene and type."""
    rows = (folder.saved_results or {})["questions"]
    return tally_scores(
        AnswerScore(row["type"], row["dataset"], row["scene"], row["score"]) for row in rows
    )


def mixed(easy: Tally, hard: Tally, seed: int) -> Tally:
    """Return a population in which a random half of the scenes comes from one run and the rest from another."""
    scenes = len(easy.sums)
    from_easy = np.random.default_rng(seed).permutation(scenes) < scenes // 2
    return Tally(easy.types, np.where(from_easy[:, None], easy.sums, hard.sums), easy.counts)


def samples(population: Tally, scenes: int, number: int, seed: int = 0) -> Iterator[SceneSamples]:
    """Yield `number` samples of `scenes` scenes, in chunks."""
    rng = np.random.default_rng([seed, scenes])
    while number > 0:
        chunk = min(number, max(1, CHUNK_SCENES // scenes))
        yield SceneSamples(population, rng.integers(len(population.sums), size=(chunk, scenes)))
        number -= chunk


def truth_of(population: Tally, draw: SceneSamples) -> dict[str, FloatArray]:
    """Return every mean over the whole population, for the types present in a sample, (samples,) each."""
    has_type = draw.counts.sum(axis=1) > 0
    sums, counts = population.sums.sum(axis=0), population.counts.sum(axis=0)
    return named_means(population.types, sums * has_type, counts * has_type)


def reported(estimate: Estimate, draw: SceneSamples) -> Ends:
    """The interval reported by the program."""
    return estimate.score_interval


def _standard_error(estimate: Estimate) -> FloatArray:
    assert isinstance(estimate.spread, StandardError)
    return estimate.spread.error


def student(estimate: Estimate, draw: SceneSamples) -> Ends:
    """Jackknife standard error with Student's t (scenes − 1 degrees of freedom)."""
    reach = special.stdtrit(estimate.scenes - 1.0, 0.975) * _standard_error(estimate)
    return estimate.mean - reach, estimate.mean + reach


def normal(estimate: Estimate, draw: SceneSamples) -> Ends:
    """Jackknife standard error with the normal quantile 1.96."""
    reach = 1.96 * _standard_error(estimate)
    return estimate.mean - reach, estimate.mean + reach


def bootstrap(estimate: Estimate, draw: SceneSamples, resamples: int = 300) -> Ends:
    """Percentile bootstrap over scenes of the mean of tasks, used by earlier versions."""
    rng = np.random.default_rng(1)
    scenes = draw.sums.shape[1]
    weights = rng.multinomial(scenes, np.full(scenes, 1 / scenes), resamples).astype(np.float64)
    means = named_means(
        draw.types,
        np.einsum("bg,rgt->rbt", weights, draw.sums, optimize=True),
        np.einsum("bg,rgt->rbt", weights, draw.counts, optimize=True),
    )[MACRO]
    low, high = np.nanquantile(means, [0.025, 0.975], axis=1)
    return low, high


METHODS: Mapping[str, Interval] = {
    "percentile bootstrap": bootstrap,
    "jackknife, 1.96 errors": normal,
    "jackknife, t with scenes − 1": student,
    "reported by the program": reported,
}


def coverage(population: Tally, scenes: int, number: int) -> dict[str, Any]:
    """Return the share of samples whose interval contains the true value: by method, by mean, by type."""
    covered: dict[str, list[FloatArray]] = {}
    widths = []
    for draw in samples(population, scenes, number):
        truths = truth_of(population, draw)
        macro = draw.estimates[MACRO]
        for method, interval in METHODS.items():
            if (
                method == "percentile bootstrap"
                and len(covered.get(method, ())) * len(macro.mean) > 2000
            ):
                continue  # slow, and a coarse estimate suffices
            low, high = interval(macro, draw)
            covered.setdefault(method, []).append(is_covered(low, truths[MACRO], high))
        for name, estimate in draw.estimates.items():
            covered.setdefault(f"of {name}", []).append(
                is_covered(*_around(estimate, truths[name]))
            )
        low, high = macro.score_interval
        widths.append(100 * (high - low))
    shares = {name: _share(np.concatenate(rows)) for name, rows in covered.items()}
    return {
        "methods": {name: shares[name] for name in METHODS},
        "means": {name: shares[f"of {name}"] for name in FIGURES},
        "types": {name: shares[f"of {name}"] for name in population.types},
        "width": _share(np.concatenate(widths)),
    }


def _around(estimate: Estimate, truth: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = estimate.score_interval
    return low, truth, high


def is_covered(low: FloatArray, truth: FloatArray, high: FloatArray) -> FloatArray:
    """Return 1 if an interval contains the true value, 0 if not, NaN if there is no interval."""
    inside = (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return np.where(np.isnan(low), np.nan, inside)


# Made-up scores: share of failing scenes, share of right answers in them and in the others, questions per scene.
HARD_CASES: Mapping[str, tuple[float, float, float, int]] = {
    "one type, 97 % right, 2 questions per scene": (0.0, 0.0, 0.97, 2),
    "one type, all right but in 3 % of scenes, 2 questions per scene": (0.03, 0.0, 1.0, 2),
    "one type, 97 % right, but 0 in 5 % of scenes, 5 questions per scene": (0.05, 0.0, 0.97, 5),
    "80 % right, but 30 % in one scene in ten, 18 questions per scene": (0.1, 0.3, 0.8, 18),
    "80 % right, but 0 in one scene in ten, 18 questions per scene": (0.1, 0.0, 0.8, 18),
}


def hard_coverage(case: tuple[float, float, float, int], scenes: int, number: int) -> float | None:
    """Return the coverage of the interval of the mean over questions for made-up scores."""
    failing, right_if_failing, right, questions = case
    rng = np.random.default_rng([3, scenes])
    covered = []
    for start in range(0, number, CHUNK_SCENES // scenes):
        shape = (min(number - start, CHUNK_SCENES // scenes), scenes, 1)
        rate = np.where(rng.random(shape) < failing, right_if_failing, right)
        sums = rng.binomial(questions, rate).astype(np.float64)
        estimate = estimates(("one",), sums, np.full(shape, float(questions)))[MICRO]
        truth = np.full(shape[0], failing * right_if_failing + (1 - failing) * right)
        covered.append(is_covered(*_around(estimate, truth)))
    return _share(np.concatenate(covered))


def hard_case_lines(number: int) -> list[str]:
    """Return the section of the page about made-up scores."""
    rows = [
        [name, *(format_percent(hard_coverage(case, scenes, number)) for scenes in SCENES)]
        for name, case in HARD_CASES.items()
    ]
    return [
        "## Hard cases",
        "",
        "Coverage of the reported interval of the mean over questions, for made-up scores. Within a scene,"
        " questions are right independently.",
        "",
        *table(["scenes", *map(str, SCENES)], rows),
        "",
    ]


def false_positives(
    baseline: Tally, variant: Tally, scenes: int, number: int
) -> dict[str, float | None]:
    """Return the false-positive rate for equal runs, and the coverage of the interval of a real difference."""
    differences = Tally(baseline.types, variant.sums - baseline.sums, baseline.counts)
    rng = np.random.default_rng([1, scenes])
    results: dict[str, list[FloatArray]] = {"p <= .05": [], "p <= .01": [], "covered": []}
    for draw in samples(differences, scenes, number, seed=2):
        signs = rng.choice((-1.0, 1.0), (*draw.sums.shape[:2], 1))
        p = estimates(draw.types, draw.sums * signs, draw.counts)[MACRO].p
        for level in (0.05, 0.01):
            is_significant = np.where(np.isnan(p), np.nan, p <= level)
            results[f"p <= {level:.2f}".replace("0.", ".")].append(is_significant)
        estimate = draw.estimates[MACRO]
        truth = truth_of(differences, draw)[MACRO]
        low, high = estimate.difference_interval
        results["covered"].append(is_covered(low, truth, high))
    return {name: _share(np.concatenate(rows)) for name, rows in results.items()}


def _share(values: FloatArray) -> float | None:
    drop_missing = values[~np.isnan(values)]
    return float(drop_missing.mean()) if len(drop_missing) > len(values) / 20 else None


@click.command()
@click.option("--rooms", default=160, show_default=True, help="Rooms in the population.")
@click.option("--per-type", default=2, show_default=True, help="Questions per room and type.")
@click.option("--samples", "number", default=6000, show_default=True, help="Samples per size.")
@click.option("--runs", help="Folder for rooms and runs; existing ones are reused.")
@click.option("--hard-cases", is_flag=True, help="Print only the section about made-up scores.")
@OUTPUT
def main(
    rooms: int, per_type: int, number: int, runs: str | None, hard_cases: bool, output: Path | None
) -> None:
    """Measure coverage and false-positive rate of the reported intervals and p-values."""
    if hard_cases:
        click.echo("\n".join(hard_case_lines(number)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(runs or scratch)
        question_file = place / "rooms" / "questions.jsonl"
        if not question_file.is_file():
            make_question_file(question_file.parent, rooms, SEED, per_type)
        pairs = {
            name: [load_or_run(place, question_file, name, seed) for seed in (0, 1)]
            for name in ("witness", "random")
        }
        oracle = load_or_run(place, question_file, "oracle", 0)
    pairs["by scene"] = [mixed(oracle, pairs["random"][seed], seed) for seed in (0, 1)]
    record: dict[str, Any] = {
        "rooms": len(oracle.sums),
        "questions": int(oracle.counts.sum()),
        "samples": number,
        "populations": {},
    }
    for name, (first, second) in pairs.items():
        figures: dict[str, Any] = {
            "score": 100 * first.means[MACRO],
            "score_of_the_second": 100 * second.means[MACRO],
            "intervals": {},
            "comparisons": {},
        }
        record["populations"][name] = figures
        for scenes in SCENES:
            figures["intervals"][str(scenes)] = coverage(first, scenes, number)
            figures["comparisons"][str(scenes)] = false_positives(first, second, scenes, number)
            click.echo(f"{name}, {scenes} scenes: {figures['comparisons'][str(scenes)]}", err=True)
    publish(
        output,
        "Coverage of intervals and false positives of comparisons",
        [*page(record), "", *hard_case_lines(number)],
        machine("numpy", "scipy"),
    )


def page(record: Mapping[str, Any]) -> list[str]:
    """Return the lines of the page."""
    populations = record["populations"]
    sizes = [str(scenes) for scenes in SCENES]
    lines = [
        f"Scenes drawn with replacement from {record['rooms']} newly generated rooms with {record['questions']} questions,"
        f" {record['samples']:,} samples per size (2,000 for the bootstrap). Populations with their VSI-Bench scores: "
        + "; ".join(f"{name} {entry['score']:.1f}" for name, entry in populations.items())
        + ". `by scene`: every second room is answered correctly, the others at random. Values in percent.",
        "",
        "## Coverage of the 95 % interval of the VSI-Bench score",
        "",
    ]
    for name, entry in populations.items():
        entries = [entry["intervals"][size] for size in sizes]
        rows = [
            [method, *(format_percent(entry["methods"][method]) for entry in entries)]
            for method in METHODS
        ]
        rows.append(
            [
                "width of the reported interval (points)",
                *(format_percent(entry["width"], 1) for entry in entries),
            ]
        )
        lines += [f"### {name}", "", *table(["scenes", *sizes], rows), ""]
    mean_rows, comparison_rows = [], []
    for name, entry in populations.items():
        entries = [entry["intervals"][size] for size in sizes]
        for label in (MICRO, MEAN_OF_TYPES):
            shares = [entry["means"][label] for entry in entries]
            mean_rows.append([name, label, *map(format_percent, shares)])
        for label, pick in (("type, lowest", min), ("type, highest", max)):
            shares = [
                pick(drop_missing(entry["types"].values()), default=None) for entry in entries
            ]
            mean_rows.append([name, label, *map(format_percent, shares)])
        for label in ("p <= .05", "p <= .01", "covered"):
            shares = [entry["comparisons"][size][label] for size in sizes]
            comparison_rows.append([name, label, *map(format_percent, shares)])
    lines += [
        "## Coverage of the reported interval for other means",
        "",
        *table(["", "scenes", *sizes], mean_rows),
        "",
    ]
    lines += [
        "## Comparisons",
        "",
        "`p <= …`: false-positive rate for equal runs (two runs of a population with different seeds, their order randomized"
        " per scene). `covered`: coverage of the interval of a real difference.",
        "",
        *table(["", "scenes", *sizes], comparison_rows),
    ]
    return lines


def drop_missing(shares: Iterable[float | None]) -> list[float]:
    """Return the shares that are not None."""
    return [share for share in shares if share is not None]


def format_percent(share: float | None, scale: float = 100) -> str | None:
    """Return a share in percent."""
    return None if share is None else f"{scale * share:.1f}"


if __name__ == "__main__":
    main()
