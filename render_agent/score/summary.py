"""Scores in percent, as stored and shown: every named mean with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from render_agent.score.intervals import make_estimates
from render_agent.score.means import (
    MACRO,
    MEAN_OF_TYPES,
    MICRO,
    WITHOUT_ORDER,
    AnswerScore,
    tally_scores,
)
from render_agent.tasks.question_types import DIRECTION, PART_TYPES, TYPES

OFFICIAL, OFFICIAL_RAW = "official", "official_raw"

# Suffixes of the names of `official` and `official_raw` for the form of the answer that is scored.
PARSED_ANSWER, RAW_ANSWER = " (parsed answer)", " (raw answer)"

VSI_BENCH_SCORE = "VSI-Bench score"  # mean over the eight tasks of VSI-Bench
MEAN_OF_TASKS = "mean of tasks"  # the same mean for other benchmarks

# other aggregate scores -> their names
MEAN_NAMES = {
    WITHOUT_ORDER: "without appearance order",
    MICRO: "micro: mean over questions",
    MEAN_OF_TYPES: "mean over types",
}

# Explains the score of a table whose rows may belong to any benchmark.
SCORE_NAMES = (
    f"{VSI_BENCH_SCORE}{PARSED_ANSWER}; for other benchmarks, {MEAN_OF_TASKS}{PARSED_ANSWER}"
)

ORDER_NOTE = (
    "obj_appearance_order asks for the order of appearance in the video, which scans do not contain;"
    " without_order is the mean of the other tasks"
)


def asks_vsibench(results: Mapping[str, Any]) -> bool:
    """Return True if all questions are of VSI-Bench's types and scored by its definitions."""
    types = {row["type"] for row in results.get("questions", ())} or results["types"].keys()
    return set(types) <= set(TYPES) and not results.get("metrics")


def overall_name(results: Mapping[str, Any]) -> str:
    """Return the name of the mean over tasks, to be followed by PARSED_ANSWER or RAW_ANSWER."""
    return VSI_BENCH_SCORE if asks_vsibench(results) else MEAN_OF_TASKS


def score_name(results: Mapping[str, Any]) -> str:
    """Return the name of the score to publish, `official`."""
    return f"{overall_name(results)}{PARSED_ANSWER}"


def row_names(names: Iterable[str]) -> dict[str, str]:
    """Return labels for the rows of a comparison: its means, tasks and types.

    Only VSI-Bench has a row that excludes the appearance order.
    """
    rows = {name: MEAN_NAMES.get(name, name) for name in names}
    vsibench = rows.keys() <= {OFFICIAL, WITHOUT_ORDER, MICRO, MEAN_OF_TYPES, DIRECTION, *TYPES}
    if not vsibench:
        rows.pop(WITHOUT_ORDER, None)
    if OFFICIAL in rows:
        rows[OFFICIAL] = (VSI_BENCH_SCORE if vsibench else MEAN_OF_TASKS) + PARSED_ANSWER
    return rows


def summary(scores: Sequence[AnswerScore], macro: str = OFFICIAL) -> dict[str, Any]:
    """Return every named mean of the scores, in percent.

    Args:
        scores: The scores.
        macro: Key of the mean over tasks; `official` only if the official parser read the answers.

    Returns:
        The means; `tasks`, the benchmark's eight, and `types`, its ten; `intervals` (95 %, over scenes) by mean, task and
        type, None with too few scenes; `errors`, the standard errors behind the intervals.
    """
    tally = tally_scores(scores)
    estimates = make_estimates(tally)
    names = {MACRO: macro}
    means = {names.get(name, name): percent(value) for name, value in tally.means.items()}
    numbers = dict(zip(tally.types, tally.counts.sum(axis=0).astype(int).tolist(), strict=True))
    composites = {PART_TYPES[name]: None for name in tally.types if name in PART_TYPES}
    tasks = [*(name for name in tally.types if name not in PART_TYPES), *composites]
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


def score_figures(scores: Sequence[AnswerScore], macro: str = OFFICIAL) -> dict[str, Any]:
    """Return the summary of all scores, of each data set, and of the debiased subset.

    `debiased_scores` is None if the questions do not state whether they belong to VSI-Bench-Debiased.
    """
    debiased_scores = [entry for entry in scores if entry.pruned is False]
    datasets = sorted({entry.dataset for entry in scores})
    has_flags = any(entry.pruned is not None for entry in scores)
    return {
        **summary(scores, macro),
        "datasets": {
            name: summary([entry for entry in scores if entry.dataset == name], macro)
            for name in datasets
        },
        "debiased": summary(debiased_scores, macro) if has_flags else None,
    }


def means(scores: Sequence[AnswerScore]) -> dict[str, float | None]:
    """Return every named mean, task and type in percent, without intervals."""
    return {name: percent(value) for name, value in tally_scores(scores).means.items()}


def percent(score: float) -> float | None:
    """Convert a score of 0 to 1 to percent; NaN becomes None."""
    return None if math.isnan(score) else 100 * score
