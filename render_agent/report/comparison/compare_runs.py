"""Compares runs with a reference run on the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from render_agent.errors import UsageError
from render_agent.options import fixed_options
from render_agent.report.report_part import report_parts
from render_agent.report.sentences.facts import cost_fact, request_facts
from render_agent.report.sentences.verdicts import other_verdicts, verdict
from render_agent.runs.inputs import differing_files, question_inputs
from render_agent.runs.log.row import score_of
from render_agent.runs.read import RunData
from render_agent.score.comparison import (
    Side,
    compare,
    compare_with_warnings,
    correct_p_values,
    differing_options,
    incomparable,
    pair_rows,
    parser_difference,
)
from render_agent.score.dialogues.reached_views import MEASURES, compare_views
from render_agent.score.dialogues.score_by_images import score_by_images
from render_agent.score.intervals import add_holm
from render_agent.score.parsers import PARSERS
from render_agent.score.power import plan
from render_agent.score.summary import OFFICIAL, asks_vsibench, score_name

POWER = 0.8  # power of a planned comparison; the usual choice

# Difference, in points, for which an inconclusive comparison states the number of scenes needed.
POINTS = 10.0


# key of a pair -> title of the table of its figures, and their labels
COMPARED_FIGURES: dict[str, tuple[str, Mapping[str, str]]] = {
    "views": ("Reached views", {name: measure.label for name, measure in MEASURES.items()}),
}


def compared_figures() -> dict[str, tuple[str, Mapping[str, str]]]:
    """Return the entries of COMPARED_FIGURES, after those of report parts."""
    parts = report_parts().items()
    return {name: (part.comparison_title, part.labels) for name, part in parts} | COMPARED_FIGURES


def sides_of(runs: Sequence[RunData]) -> list[Side]:
    """Return the runs as sides of a comparison, named by path if two runs have the same name."""
    has_unique_names = len({run.name for run in runs}) == len(runs)
    files = differing_files([run.recorded for run in runs])
    return [
        Side(
            run.name if has_unique_names else str(run.path),
            run.results,
            fixed_options(run.config.to_json()) | {"model": run.model} | differing,
            {state.id: question_inputs(run.record, state) for state in run.dialogues},
            run.recorded.get("questions", {}),
        )
        for run, differing in zip(runs, files, strict=True)
    ]


def compare_runs(
    runs: Sequence[RunData], *, anyway: bool = False, anyway_option: str
) -> list[dict[str, Any]]:
    """Compare every run with the first, with Holm's correction over all comparisons.

    Each mapping has the figures of `compare_with_warnings`, the `options` that differ, `status`, `work`, `notes`, `facts`
    and `adapted` fields of both runs, `power` (sample size for a difference of POINTS, or None), `verdict` (a sentence),
    `other_verdicts` (those of other aggregate scores if they differ), `parsers` (differences with other parsers),
    `score_by_images` over the questions that all runs have scored, figures of report parts if both runs have any,
    `answering` if a dialogue had several turns or a confidence, and `views` if answers are poses.
    """
    first, *others = sides_of(runs)
    pairs = [
        _compare_pair(first, other, anyway=anyway, anyway_option=anyway_option) for other in others
    ]
    for pair, run, side in zip(pairs, runs[1:], others, strict=True):
        pair["parsers"] = _parser_differences((runs[0], first), (run, side))
    correct_p_values(pairs)
    curves = _score_by_images(runs, first, others)
    for pair, run, curve in zip(pairs, runs[1:], curves[1:], strict=True):
        pair["verdict"] = verdict(pair, "a", "b", of_several=len(pairs) > 1)
        pair["other_verdicts"] = other_verdicts(pair, "a", "b")
        pair["facts"] = {
            name: request_facts(side.config, side.results) | cost_fact(side.parts, side.results)
            for name, side in (("a", runs[0]), ("b", run))
        }
        pair["score_by_images"] = {"a": curves[0], "b": curve}
        figures = {
            **{name: part.compare(runs[0], run) for name, part in report_parts().items()},
            "views": compare_views(runs[0].states, run.states),
        }
        pair.update({name: entries for name, entries in figures.items() if entries})
    for name in compared_figures():
        add_holm([entry for pair in pairs for entry in pair.get(name, {}).values()])
    return pairs


def _compare_pair(
    reference: Side, second: Side, *, anyway: bool, anyway_option: str
) -> dict[str, Any]:
    results = {"a": reference.results, "b": second.results}
    comparison = compare_with_warnings(
        reference, second, anyway=anyway, anyway_option=anyway_option
    )
    power = None
    with suppress(UsageError):  # too few scenes for an estimate, or all scenes agree
        power = plan(reference.results, POINTS, POWER, comparison)
    return {
        **comparison,
        "power": power,
        "options": differing_options(reference, second),
        "status": {name: side["status"] for name, side in results.items()},
        "work": {name: side["totals"]["per_question"] for name, side in results.items()},
        "notes": {name: side["notes"] for name, side in results.items()},
        "adapted": {name: side.get("adapted", {}) for name, side in results.items()},
    }


def _parser_differences(a: tuple[RunData, Side], b: tuple[RunData, Side]) -> dict[str, Any]:
    """Return the difference in score with the parser of each other harness; empty for other benchmarks."""
    if not all(asks_vsibench(side.results) for _, side in (a, b)):
        return {}
    pairs, parsers = pair_rows(a[1], b[1]), [name for name in PARSERS if name != OFFICIAL]
    return {
        parser: parser_difference(
            pairs, [{s.id: score_of(s, parser) for s in run.states} for run, _ in (a, b)]
        )
        for parser in parsers
    }


def _score_by_images(
    runs: Sequence[RunData], first: Side, others: Sequence[Side]
) -> list[list[dict[str, Any]]]:
    """Return the score of each run by images seen, over the questions that all runs have scored."""
    paired = [{row["question_id"] for row, _ in pair_rows(first, other)} for other in others]
    shared = set.intersection(*paired)
    return [score_by_images([state for state in run.states if state.id in shared]) for run in runs]


def plan_power(
    runs: Sequence[RunData],
    difference: float,  # in percentage points
) -> dict[str, Any]:
    """Estimate the scenes and questions needed to detect a difference from the first run."""
    if len(runs) > 2:
        raise UsageError("--power takes one run, or two runs of the same questions")
    sides = sides_of(runs)
    if len(sides) == 2 and (reasons := incomparable(*sides)):
        names = " and ".join(run.name for run in runs)
        raise UsageError(f"{names} are not comparable: {'; '.join(reasons)}")
    comparison = compare(*sides) if len(sides) == 2 else None
    figures = plan(sides[0].results, difference, POWER, comparison)
    return {"score_name": score_name(sides[0].results), **figures}
