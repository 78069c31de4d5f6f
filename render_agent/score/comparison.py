"""Paired comparison of two runs: score differences, their uncertainty, and the questions that only one run answered
correctly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from render_agent.errors import UsageError
from render_agent.score.intervals import Estimate, add_holm, make_estimates
from render_agent.score.means import MACRO, AnswerScore, tally_scores
from render_agent.score.parsers import PARSERS
from render_agent.score.summary import MEAN_NAMES, OFFICIAL, OFFICIAL_RAW, percent
from render_agent.tasks.question_types import CHOICE_TYPES
from render_agent.util.display import first_names

RIGHT = 0.5  # answers with at least this score count as correct; multiple choice scores 0 or 1

# Columns that must agree for the same question id.
IDENTITY_COLUMNS = ("type", "dataset", "scene", "truth")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QuestionInputs:
    """Inputs of a question that are not columns of its row."""

    text: tuple[str, ...]  # its text, options and further correct answers
    files: Mapping[str, str | None] | None = None
    """SHA-256 of the files that its scene was read from, by path; None if they were not recorded."""

    def other_files(self, other: QuestionInputs) -> list[str]:
        """Return the scene files that differ from those of the same question in another run."""
        if self.files is None or other.files is None:
            return []
        ours, theirs = dict(self.files), dict(other.files)
        if sorted(map(str, ours.values())) == sorted(map(str, theirs.values())):
            return []  # the same files, possibly in another folder
        # older runs recorded files that were not opened, too
        names = [name for name in ours if name in theirs] or [*ours, *theirs]
        return [name for name in names if ours.get(name) != theirs.get(name)]


@dataclass(frozen=True, slots=True)
class Side:
    name: str
    results: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options that affect results, by name; unknown ones are missing."""
    inputs: Mapping[str, QuestionInputs] = field(default_factory=dict)
    """The text and the scan of each question, by id; unknown ones are missing."""
    question_files: Mapping[str, str | None] = field(default_factory=dict)
    """SHA-256 of the files that the questions were read from, by path; unknown ones are missing."""

    @property
    def rows(self) -> dict[str, Row]:
        """Result rows by question id, without counterparts, which are not scored."""
        rows = self.results["questions"]
        return {row["question_id"]: row for row in rows if "change" not in row}


def incomparable(a: Side, b: Side) -> list[str]:
    """Return the reasons why two runs are not comparable, one clause each; empty if they are comparable."""
    reasons = []
    subsets = [side.options.get("subset") for side in (a, b)]
    if subsets[0] != subsets[1]:
        reasons.append(f"--subset is {subsets[0]!r} in one and {subsets[1]!r} in the other")
    ours, theirs = a.rows, b.rows
    if num_unshared := len(ours.keys() ^ theirs.keys()):
        reasons.append(f"{num_unshared} questions are in only one of the runs")
    differing_ids, other_scans = differing_questions(a, b)
    if differing_ids:
        files = b.question_files
        changed_files = [name for name in files if files[name] not in a.question_files.values()]
        read_from = f" ({first_names(changed_files)} has changed)" if changed_files else ""
        reasons.append(f"{len(differing_ids)} questions have the same id but differ{read_from}")
    if other_scans:
        names = [*dict.fromkeys(name for names in other_scans.values() for name in names)]
        reasons.append(
            f"{len(other_scans)} questions are about other scans (different SHA-256): {first_names(names)}"
        )
    for side, counterpart in ((a, b), (b, a)):
        missing_ids = _scored_ids(counterpart) - _scored_ids(side)
        if number := len(missing_ids & side.rows.keys()):
            reasons.append(
                f"{side.name} is partial: it lacks scores for {number} questions that {counterpart.name} has scored"
            )
    return reasons


def differing_questions(a: Side, b: Side) -> tuple[set[str], dict[str, list[str]]]:
    """Return the ids whose questions differ between two runs, and id -> differing files for questions about other
    scans.
    """
    ours, theirs = a.rows, b.rows
    differing_ids, other_scans = set(), {}
    for key in [key for key in ours if key in theirs]:
        known_a, known_b = a.inputs.get(key), b.inputs.get(key)
        if any(ours[key][name] != theirs[key][name] for name in IDENTITY_COLUMNS):
            differing_ids.add(key)
        elif known_a is not None and known_b is not None:
            if known_a.text != known_b.text:
                differing_ids.add(key)
            elif files := known_a.other_files(known_b):
                other_scans[key] = files
    return differing_ids, other_scans


def differing_options(a: Side, b: Side) -> dict[str, list[Any]]:
    """Return the options that differ between two runs, with the values of `a` and `b`."""
    names = [*a.options, *(name for name in b.options if name not in a.options)]
    pairs = {name: [a.options.get(name), b.options.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare(a: Side, b: Side) -> dict[str, Any]:
    """Compare run b with run a over the questions that both have scored, in percentage points.

    `differences` has, for every named mean, task and type, `a`, `b`, `difference` (b minus a), its 95 % `interval`, `p`,
    `p_holm`, standard `error` and `scenes`. `mcnemar` has exact tests on multiple choice (McNemar 1947, binomial form), which
    treat questions of one scene as independent. `changed` lists the questions that only one run answered correctly.
    """
    pairs = pair_rows(a, b)
    comparison = {
        "a": a.name,
        "b": b.name,
        "n": len(pairs),
        "scenes": len({(row_a["dataset"], row_a["scene"]) for row_a, _ in pairs}),
        "differences": _differences(pairs),
        "mcnemar": _mcnemar(pairs),
        "changed": [
            _changed_question(row_a, row_b)
            for row_a, row_b in pairs
            if _is_right(row_a) != _is_right(row_b)
        ],
    }
    correct_p_values([comparison])
    return comparison


def compare_with_warnings(a: Side, b: Side, *, anyway: bool, anyway_option: str) -> dict[str, Any]:
    """Compare run b with run a and add `warnings`: the reasons why they are not comparable."""
    reasons = incomparable(a, b)
    if reasons and not anyway:
        raise UsageError(
            f"{a.name} and {b.name} are not comparable: {'; '.join(reasons)}. Pass {anyway_option} to"
            " compare only the questions that both have scored."
        )
    comparison = {**compare(a, b), "warnings": reasons}
    if not comparison["n"]:
        raise UsageError(f"{a.name} and {b.name} have no scored question in common")
    return comparison


LADDER = ("none", "measure", "graph")  # values of --tools, from least to most help


def ladder(sides: Sequence[Side]) -> dict[str, Any] | None:
    """Return the gains between runs that differ only in `--tools`; None for other runs.

    All scores are over the questions scored in every run.
    """
    rungs = {side.options.get("tools", LADDER[0]): side for side in sides}
    if len(rungs) < max(2, len(sides)) or not set(rungs) <= set(LADDER):
        return None
    names = [name for name in LADDER if name in rungs]
    sides_by_help = [rungs[name] for name in names]
    if any(
        set(differing_options(sides_by_help[0], higher_side)) != {"tools"}
        for higher_side in sides_by_help[1:]
    ):
        return None
    common_ids = set.intersection(*(_scored_ids(side) for side in sides_by_help))
    common_sides = [_restrict(side, common_ids) for side in sides_by_help]
    steps = [_differences(pair_rows(low, high)) for low, high in pairwise(common_sides)]
    _correct(steps, (OFFICIAL_RAW, *MEAN_NAMES))
    return {
        "n": len(common_ids),
        "rungs": [
            {"run": side.name, "tools": name, "work": side.results["totals"]["per_question"]}
            for name, side in zip(names, sides_by_help, strict=True)
        ],
        "types": {
            name: {
                "scores": [steps[0][name]["a"], *(step[name]["b"] for step in steps)],
                "gains": [step[name] for step in steps],
            }
            for name in steps[0]
        },
    }


def _restrict(side: Side, ids: Collection[str]) -> Side:
    rows = [row for row in side.results["questions"] if row["question_id"] in ids]
    return replace(side, results={**side.results, "questions": rows})


def correct_p_values(comparisons: Sequence[Mapping[str, Any]]) -> None:
    """Add `p_holm` to the comparisons shown on one page: p values with Holm's correction for multiple tests.

    The primary test, of the difference in scores (`official_raw`), is corrected for the number of comparisons, and so
    is each other mean, on its own. All tasks and types are corrected together, over all comparisons. McNemar's tests are treated in the same way:
    the test over all multiple-choice questions is primary, and tests by type are corrected together.
    """
    alone = {
        "differences": (OFFICIAL_RAW, *MEAN_NAMES),
        "mcnemar": ("choices",),
        "parsers": PARSERS,
    }
    for tests, names in alone.items():
        _correct([comparison.get(tests, {}) for comparison in comparisons], names)


def parser_difference(
    pairs: Sequence[tuple[Row, Row]], scores: Sequence[Mapping[str, float | None]]
) -> dict[str, Any]:
    """Return the difference in score if another parser reads the answers; `scores` has those of both runs by id."""
    of_a, of_b = scores
    read = [
        ({**a, "score": of_a[a["question_id"]]}, {**b, "score": of_b[b["question_id"]]})
        for a, b in pairs
    ]
    return _score_differences(read, "score")[MACRO]


def _correct(tests: Sequence[Mapping[str, Any]], alone: Collection[str]) -> None:
    """Add `p_holm` to entries by name: corrected among those of the same name in `alone`, or among all others."""
    items = [item for entries in tests for item in entries.items()]
    for name in alone:
        add_holm([entry for other, entry in items if other == name])
    add_holm([entry for name, entry in items if name not in alone])


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p value of McNemar's test.

    Under the null hypothesis, each discordant question favours either run with probability one half.
    """
    number, fewer = only_a + only_b, min(only_a, only_b)
    num_outcomes: int = 2**number
    return min(1.0, 2 * sum(math.comb(number, k) for k in range(fewer + 1)) / num_outcomes)


def _scored_ids(side: Side) -> set[str]:
    return {key for key, row in side.rows.items() if row["score"] is not None}


def pair_rows(a: Side, b: Side) -> list[tuple[Row, Row]]:
    """Return the rows of the questions that both runs have scored."""
    theirs = b.rows
    differing_ids, other_scans = differing_questions(a, b)
    return [
        (row, theirs[key])
        for key, row in a.rows.items()
        if key in theirs
        and key not in differing_ids
        and key not in other_scans
        and row["score"] is not None
        and theirs[key]["score"] is not None
    ]


def _differences(pairs: Sequence[tuple[Row, Row]]) -> dict[str, dict[str, Any]]:
    """Return the differences by mean, task and type, and that between the scores of parsed answers (`official`)."""
    if not pairs:
        return {}
    differences = _score_differences(pairs, "score")
    official = _score_differences(pairs, "score_parsed")[MACRO]
    return {OFFICIAL_RAW: differences.pop(MACRO), OFFICIAL: official, **differences}


def _score_differences(pairs: Sequence[tuple[Row, Row]], column: str) -> dict[str, dict[str, Any]]:
    """Return the differences between the scores in a column, or in `score` if it is missing."""
    scores = [[row.get(column, row["score"]) for row in rows] for rows in pairs]
    rows = [row for row, _ in pairs]
    tallies = [
        tally_scores(map(_answer_score, rows, side)).means for side in zip(*scores, strict=True)
    ]
    tally = tally_scores(
        _answer_score(row, b - a) for row, (a, b) in zip(rows, scores, strict=True)
    )
    return {
        name: {
            "a": percent(tallies[0][name]),
            "b": percent(tallies[1][name]),
            "difference": percent(float(estimate.mean)),
            **_uncertainty(estimate),
        }
        for name, estimate in make_estimates(tally).items()
    }


def _answer_score(row: Row, score: float) -> AnswerScore:
    return AnswerScore(row["type"], row["dataset"], row["scene"], score)


def _uncertainty(estimate: Estimate) -> dict[str, Any]:
    """Return the interval and p value of a difference, None with too few scenes, and the figures of its spread."""
    interval, p = estimate.interval_and_p()
    figures = estimate.to_json()
    figures.pop("freedom", None)
    clipped = interval and [max(-100.0, interval[0]), min(100.0, interval[1])]
    return {"interval": clipped, "p": p, **figures}


def _mcnemar(pairs: Sequence[tuple[Row, Row]]) -> dict[str, dict[str, Any]]:
    choices = [(a, b) for a, b in pairs if a["type"] in CHOICE_TYPES]
    groups = {"choices": choices} | {
        name: [pair for pair in choices if pair[0]["type"] == name] for name in CHOICE_TYPES
    }
    tests = {}
    for name, group in groups.items():
        if group:
            only_a = sum(_is_right(a) and not _is_right(b) for a, b in group)
            only_b = sum(_is_right(b) and not _is_right(a) for a, b in group)
            tests[name] = {
                "n": len(group),
                "only_a": only_a,
                "only_b": only_b,
                "p": mcnemar(only_a, only_b),
            }
    return tests


def _is_right(row: Row) -> bool:
    return bool(row["score"] >= RIGHT)


def _changed_question(a: Row, b: Row) -> dict[str, Any]:
    sides = {
        name: {"answer": row["answer"], "score": row["score"]} for name, row in (("a", a), ("b", b))
    }
    return {name: a[name] for name in ("question_id", *IDENTITY_COLUMNS)} | sides
