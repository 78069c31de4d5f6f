"""The paired comparison of two runs: differences, how sure they are, and which questions changed sides."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from render_agent.errors import UsageError
from render_agent.score.intervals import Estimate, add_holm, estimates_of
from render_agent.score.means import MACRO, Scored, tally
from render_agent.score.summary import OFFICIAL, percent
from render_agent.tasks.question_types import CHOICE_TYPES

RIGHT = 0.5
"""An answer of at least this score counts as right; a choice has 0 or 1."""

ALIKE = ("type", "dataset", "scene", "truth")
"""What rows of the same question have in common."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One run of a comparison.

    Attributes:
        name: The run's name.
        results: The content of its `results.json`.
        options: Its options that change results, by name, as far as they are known.
    """

    name: str
    results: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, Row]:
        """Its rows by question id, without those of counterparts, which have no score."""
        rows = self.results["questions"]
        return {row["question_id"]: row for row in rows if "change" not in row}


def incomparable(a: Side, b: Side) -> list[str]:
    """Return why two runs are not comparable, a clause a reason; none where they are."""
    reasons = []
    subsets = [side.options.get("subset") for side in (a, b)]
    if subsets[0] != subsets[1]:
        reasons.append(f"--subset is {subsets[0]!r} in one and {subsets[1]!r} in the other")
    ours, theirs = a.rows, b.rows
    if only := len(ours.keys() ^ theirs.keys()):
        reasons.append(f"{only} questions are in one of them only")
    if different := sum(_other(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()):
        reasons.append(f"{different} questions have the same id but are not the same")
    for side, other in ((a, b), (b, a)):
        lacking = _scored_ids(other) - _scored_ids(side)
        if number := len(lacking & side.rows.keys()):
            reasons.append(
                f"{side.name} is partial: {number} questions that the other has scored are not scored"
            )
    return reasons


def differing(a: Side, b: Side) -> dict[str, list[Any]]:
    """Return the options in which two runs differ, with the value of a and that of b."""
    names = [*a.options, *(name for name in b.options if name not in a.options)]
    pairs = {name: [a.options.get(name), b.options.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def compare(a: Side, b: Side) -> dict[str, Any]:
    """Compare b with a over the questions that both have scored, in points of percent.

    `differences` has an entry for every named mean, task and type: both scores, `difference` (b
    minus a), its 95 % interval and its two-sided `p`, over scenes, None with too few of them; `p_holm` as
    in `correct`; `error`, the standard error, and `scenes`. `mcnemar` has the exact test of the choices (McNemar 1947; the
    binomial form), for all together and by type; it takes questions of one scene as independent.
    `changed` are the questions that are right in one run and wrong in the other.
    """
    pairs = _pairs(a, b)
    comparison = {
        "a": a.name,
        "b": b.name,
        "n": len(pairs),
        "scenes": len({(row_a["dataset"], row_a["scene"]) for row_a, _ in pairs}),
        "differences": _differences(pairs),
        "mcnemar": _mcnemar(pairs),
        "changed": [
            _changed(row_a, row_b) for row_a, row_b in pairs if _side(row_a) != _side(row_b)
        ],
    }
    correct([comparison])
    return comparison


def compare_alike(a: Side, b: Side, *, anyway: bool, way_out: str) -> dict[str, Any]:
    """Compare b with a, with `warnings`: why they are not comparable.

    anyway: whether they are compared all the same, over the questions in common. UsageError where they are not, with
    the way out, and where no question is in common.
    """
    reasons = incomparable(a, b)
    if reasons and not anyway:
        raise UsageError(
            f"{a.name} and {b.name} are not comparable: {'; '.join(reasons)}; give {way_out} to"
            " compare the questions that both have scored"
        )
    comparison = {**compare(a, b), "warnings": reasons}
    if not comparison["n"]:
        raise UsageError(f"{a.name} and {b.name} have no scored question in common")
    return comparison


LADDER = ("none", "measure", "graph")
"""The rungs of the ladder of help, values of `--tools`, from the least help to the most."""


def ladder(sides: Sequence[Side]) -> dict[str, Any] | None:
    """Return the gains along the ladder of runs that differ in `--tools` alone; None for other runs.

    All figures are over the questions that every one of them has scored. `rungs`: run, tools, tokens and turns a
    question, lowest rung first. `types`: of every mean, task and type the `scores` of the rungs in percent and the
    `gains` from each rung to the next, as `compare` has differences; Holm's correction is over all gains of types.
    """
    rungs = {side.options.get("tools", LADDER[0]): side for side in sides}
    if len(rungs) < max(2, len(sides)) or not set(rungs) <= set(LADDER):
        return None
    names = [name for name in LADDER if name in rungs]
    ordered = [rungs[name] for name in names]
    if any(set(differing(ordered[0], other)) != {"tools"} for other in ordered[1:]):
        return None
    shared = set.intersection(*(_scored_ids(side) for side in ordered))
    kept = [_only(side, shared) for side in ordered]
    steps = [_differences(_pairs(low, high)) for low, high in pairwise(kept)]
    for first in (True, False):
        entries = [e for step in steps for name, e in step.items() if (name == OFFICIAL) == first]
        add_holm(entries)
    return {
        "n": len(shared),
        "rungs": [
            {"run": side.name, "tools": name, "work": side.results["totals"]["per_question"]}
            for name, side in zip(names, ordered, strict=True)
        ],
        "types": {
            name: {
                "scores": [steps[0][name]["a"], *(step[name]["b"] for step in steps)],
                "gains": [step[name] for step in steps],
            }
            for name in steps[0]
        },
    }


def _only(side: Side, ids: Collection[str]) -> Side:
    rows = [row for row in side.results["questions"] if row["question_id"] in ids]
    return replace(side, results={**side.results, "questions": rows})


def correct(compared: Sequence[Mapping[str, Any]]) -> None:
    """Write `p_holm` beside every `p` of comparisons that stand on one page: Holm's correction for many.

    What is asked first, whether the official scores differ, is corrected for the number of comparisons;
    everything else, means, tasks and types, for the number of its rows in all comparisons. So are
    McNemar's tests: of all choices, and by type.
    """
    for tests, first in (("differences", OFFICIAL), ("mcnemar", "choices")):
        entries = [item for comparison in compared for item in comparison[tests].items()]
        add_holm([entry for name, entry in entries if name == first])
        add_holm([entry for name, entry in entries if name != first])


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p that only_a and only_b questions were right in one run alone.

    Where both runs are equally good, each is as likely as the other: binomial with one half.
    """
    number, fewer = only_a + only_b, min(only_a, only_b)
    every: int = 2**number
    return min(1.0, 2 * sum(math.comb(number, k) for k in range(fewer + 1)) / every)


def _scored_ids(side: Side) -> set[str]:
    return {key for key, row in side.rows.items() if row["score"] is not None}


def _pairs(a: Side, b: Side) -> list[tuple[Row, Row]]:
    theirs = b.rows
    return [
        (row, theirs[key])
        for key, row in a.rows.items()
        if key in theirs
        and not _other(row, theirs[key])
        and row["score"] is not None
        and theirs[key]["score"] is not None
    ]


def _other(row_a: Row, row_b: Row) -> bool:
    return any(row_a[name] != row_b[name] for name in ALIKE)


def _differences(pairs: Sequence[tuple[Row, Row]]) -> dict[str, dict[str, Any]]:
    if not pairs:
        return {}
    scores = [[_scored(row, row["score"]) for row in rows] for rows in zip(*pairs, strict=True)]
    counted = [tally(side).means for side in scores]
    differing = tally(_scored(row_a, row_b["score"] - row_a["score"]) for row_a, row_b in pairs)
    return {
        OFFICIAL if name == MACRO else name: {
            "a": percent(counted[0][name]),
            "b": percent(counted[1][name]),
            "difference": percent(float(estimate.mean)),
            **_certainty(estimate),
        }
        for name, estimate in estimates_of(differing).items()
    }


def _scored(row: Row, score: float) -> Scored:
    return Scored(row["type"], row["dataset"], row["scene"], score)


def _certainty(estimate: Estimate) -> dict[str, Any]:
    """Return the interval, p and standard error of a difference, None with too few scenes."""
    interval, p = estimate.interval_and_p()
    return {
        "interval": interval and [max(-100.0, interval[0]), min(100.0, interval[1])],
        "p": p,
        "error": 100 * float(estimate.error),
        "scenes": int(estimate.scenes),
    }


def _mcnemar(pairs: Sequence[tuple[Row, Row]]) -> dict[str, dict[str, Any]]:
    choices = [(a, b) for a, b in pairs if a["type"] in CHOICE_TYPES]
    groups = {"choices": choices} | {
        name: [pair for pair in choices if pair[0]["type"] == name] for name in CHOICE_TYPES
    }
    tests = {}
    for name, group in groups.items():
        if group:
            only_a = sum(_side(a) and not _side(b) for a, b in group)
            only_b = sum(_side(b) and not _side(a) for a, b in group)
            tests[name] = {
                "n": len(group),
                "only_a": only_a,
                "only_b": only_b,
                "p": mcnemar(only_a, only_b),
            }
    return tests


def _side(row: Row) -> bool:
    return bool(row["score"] >= RIGHT)


def _changed(a: Row, b: Row) -> dict[str, Any]:
    sides = {
        name: {"answer": row["answer"], "score": row["score"]} for name, row in (("a", a), ("b", b))
    }
    return {name: a[name] for name in ("question_id", *ALIKE)} | sides
