"""Scores in percent, as stored and shown: every named mean with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from render_agent.score.intervals import macro_estimate, make_estimates
from render_agent.score.means import (
    MACRO,
    MEAN_OF_TYPES,
    MICRO,
    WITHOUT_ORDER,
    AnswerScore,
    tally_scores,
)
from render_agent.tasks.built_in_types import DIRECTION
from render_agent.tasks.question_types import TYPES, task_of, type_label
from render_agent.util.display import count_noun

# Means over tasks of VSI-Bench's metrics: of parsed answers, and of answers as VSI-Bench's script reads them. The latter
# is the score of a run.
OFFICIAL, OFFICIAL_RAW = "official", "official_raw"

VSI_BENCH_SCORE = "VSI-Bench score"  # mean over the eight tasks of VSI-Bench
MEAN_OF_TASKS = "mean of tasks"  # the same mean for other benchmarks

# aggregate scores other than the score of a run -> their names
MEAN_NAMES = {
    OFFICIAL: "parsed more leniently",
    WITHOUT_ORDER: "without appearance order",
    MICRO: "mean over questions (micro)",
    MEAN_OF_TYPES: "mean over types",
}

# Explains the score of a table whose rows may belong to any benchmark.
SCORE_NAMES = f"{VSI_BENCH_SCORE}; for other benchmarks, {MEAN_OF_TASKS}"

ORDER_NOTE = (
    "obj_appearance_order asks for the order of appearance in the video, which scans do not contain;"
    " without_order is the mean of the other tasks"
)


def asks_vsibench(results: Mapping[str, Any]) -> bool:
    """Return True if all questions are of VSI-Bench's types and scored by its definitions."""
    types = {row["type"] for row in results.get("questions", ())} or results["types"].keys()
    return set(types) <= set(TYPES) and not results.get("metrics")


def score_name(results: Mapping[str, Any]) -> str:
    """Return the name of the score of a run."""
    return VSI_BENCH_SCORE if asks_vsibench(results) else MEAN_OF_TASKS


def row_names(names: Iterable[str]) -> dict[str, str]:
    """Return labels for the rows of a comparison: the score, tasks and types, without other means."""
    names = [name for name in names if name not in MEAN_NAMES]
    is_vsibench = set(names) <= {OFFICIAL_RAW, DIRECTION, *TYPES}
    score = VSI_BENCH_SCORE if is_vsibench else MEAN_OF_TASKS
    return {name: score if name == OFFICIAL_RAW else type_label(name) for name in names}


class Headline(NamedTuple):
    """The one score that is shown wherever one is shown."""

    name: str
    score: float | None
    """Over the scored questions, in percent."""
    n: int
    bounds: list[float] | None
    """95 % interval."""


def headline(results: Mapping[str, Any]) -> Headline:
    """Return the score of a run: VSI-Bench's metrics on the answers as its script, or the chosen parser, reads them."""
    key = main_mean(results["parser"])
    return Headline(score_name(results), results[key], results["n"], results["intervals"].get(key))


def main_mean(parser: str) -> str:
    """Return the key of the score of a run in results whose answers were read by a parser."""
    return OFFICIAL_RAW if parser == OFFICIAL else MACRO


def lenient_line(results: Mapping[str, Any]) -> str | None:
    """Return the line below the score with the score of parsed answers; None if it is the same."""
    parsed = results.get("official_over_scored", {}).get("score")
    given = results.get(OFFICIAL_RAW)
    if (
        parsed is None
        or given is None
        or results["parser"] != OFFICIAL
        or abs(parsed - given) < 0.05
    ):
        return None
    number = results.get("not_in_form")
    count = (
        ""
        if number is None
        else f" ({count_noun(number, 'answer')} {'is' if number == 1 else 'are'} not in VSI-Bench's form)"
    )
    return f"{MEAN_NAMES[OFFICIAL]}: {parsed:.1f}{count}"


def summary(scores: Sequence[AnswerScore], macro: str = OFFICIAL) -> dict[str, Any]:
    """Return every named mean of the scores, in percent."""
    tally = tally_scores(scores)
    estimates = make_estimates(tally)
    names = {MACRO: macro}
    means = {names.get(name, name): percent(value) for name, value in tally.means.items()}
    numbers = dict(zip(tally.types, tally.counts.sum(axis=0).astype(int).tolist(), strict=True))
    composites = {task_of(name): None for name in tally.types if task_of(name) != name}
    tasks = [*(name for name in tally.types if task_of(name) == name), *composites]
    return {
        "n": len(scores),
        "scenes": len(tally.sums),
        **{name: means[name] for name in (macro, WITHOUT_ORDER, MICRO, MEAN_OF_TYPES)},
        "tasks": {name: means[name] for name in tasks},
        "types": {name: {"score": means[name], "n": n} for name, n in numbers.items()},
        "intervals": {
            names.get(name, name): estimate.interval(share=True)
            for name, estimate in estimates.items()
        },
        "errors": {
            names.get(name, name): estimate.to_json()
            for name, estimate in estimates.items()
            if estimate.scenes
        },
    }


def combine(by_mean: Mapping[str, Sequence[AnswerScore]]) -> dict[str, Any]:
    """Return the summary of the first scores, with the mean over tasks of each under its key."""
    (main, scores), *others = by_mean.items()
    figures = summary(scores, main)
    for name, other_scores in others:
        if not other_scores:
            figures[name] = None
            continue
        estimate = macro_estimate(tally_scores(other_scores))
        figures[name] = percent(float(estimate.mean))
        figures["intervals"][name] = estimate.interval(share=True)
        if estimate.scenes:
            figures["errors"][name] = estimate.to_json()
    return figures


def score_figures(by_mean: Mapping[str, Sequence[AnswerScore]]) -> dict[str, Any]:
    """Return the summary of all scores, of each data set, and of the debiased subset; see `combine`.

    `debiased` is None if the questions do not state whether they belong to VSI-Bench-Debiased.
    """

    def part(field: str, value: object) -> dict[str, Any]:
        return combine(
            {
                name: [entry for entry in scores if getattr(entry, field) == value]
                for name, scores in by_mean.items()
            }
        )

    entries = next(iter(by_mean.values()))
    datasets = sorted({entry.dataset for entry in entries})
    has_flags = any(entry.pruned is not None for entry in entries)
    whole = combine(by_mean)
    if len(datasets) == 1:
        by_dataset = {datasets[0]: whole}
    else:
        by_dataset = {name: part("dataset", name) for name in datasets}
    return {
        **whole,
        "datasets": by_dataset,
        "debiased": part("pruned", False) if has_flags else None,
    }


def means(scores: Sequence[AnswerScore]) -> dict[str, float | None]:
    """Return every named mean, task and type in percent, without intervals."""
    return {name: percent(value) for name, value in tally_scores(scores).means.items()}


def overall_means(scores: Sequence[AnswerScore]) -> dict[str, float | None]:
    """Return the means over tasks and over questions in percent."""
    by_name = means(scores)
    return {name: by_name[name] for name in (MACRO, MICRO)}


def percent(score: float) -> float | None:
    """Convert a score of 0 to 1 to percent; NaN becomes None."""
    return None if math.isnan(score) else 100 * score
